"""What a request can expect before it is asked: from the parties' cards alone, so that nothing more is shown.

A card says how many records there are at most (n), rounded up, and the request how large groups must be (k) over how
many attributes (q). So there are at most g = n / k groups. Attributes that say nothing about each other, each with many
values that are equally frequent, are best cut into g^(1/q) parts each, and a cell then covers g^(-1/q) of its range:
that is the expected NCP. Attributes that go together, or have few values, lose less; skewed ones lose more, and so does
whatever the parties' policies add. It is a guide, not a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from masquerade.privacy.requirement import GroupRequirement
from masquerade.service.card import SchemaCard
from masquerade.service.kinds import RULES
from masquerade.service.request import Request
from masquerade.service.resources import ExpectedQuality


def expected(request: Request, cards: Sequence[SchemaCard]) -> ExpectedQuality | None:
    """Return `records` and `groups` at most and the expected `ncp`; None where cards or request do not tell."""
    records = RULES[request.arrangement].records(cards)
    attributes = {
        column.name for card in cards for column in card.columns if column.role == "attribute"
    } & set(request.attributes)
    parts = [part for part in request.privacy if set(part.qid) <= attributes]
    if not records or not parts:
        return None
    groups = min(records // max(part.implied_size, 1) for part in parts)
    if not groups:
        return ExpectedQuality(records=records, groups=0, ncp=None)
    return ExpectedQuality(records=records, groups=groups, ncp=_loss(parts, records))


def _loss(parts: Iterable[GroupRequirement], records: int) -> float:
    """Return the mean over all attributes of the largest loss that a QID with them is expected to cost."""
    losses: dict[str, float] = {}
    for part in parts:
        groups = max(records // max(part.implied_size, 1), 1)
        for name in part.qid:
            losses[name] = max(losses.get(name, 0.0), groups ** (-1 / len(part.qid)))
    return round(sum(losses.values()) / len(losses), 2)


def said_of_expected(told: ExpectedQuality, most_ncp: float | None) -> list[str]:
    """Return the expectation in words, one line each."""
    if told.ncp is None:
        return [f"There are at most {told.records:,} records: too few for a single group."]
    lines = [
        f"At most {told.records:,} records, so at most {told.groups:,} groups.",
        f"Expected loss of detail (NCP): about {told.ncp:.2f}, if the columns say little about each other. "
        "What the parties' policies add costs more.",
    ]
    if most_ncp is not None and told.ncp > most_ncp:
        lines.append(
            f"That is above the {most_ncp:g} that you would take: a smaller k, or fewer columns in a QID, would keep "
            "more."
        )
    return lines
