"""What a request can expect, and whether what came out meets it: price, purposes, groups, losses and errors.

The quality terms of a request are, for each figure of a release, the largest that its client takes unasked.

A release that misses one is held, uncharged, until the client decides; so is one in which a column lost nearly all
detail, and any that is asked for as an estimate. A figure that could not be measured meets no
limit.

| term | figure | who measures it |
|---|---|---|
| `most_error` | decision trees grown on the release, judged on rows that were held out | the coordinator |
| `most_ncp` | normalised certainty penalty: the mean share of its range that a cell covers | the parties, by column |
| `most_query_error` | mean relative error of random counting queries | each party of its own columns or records |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade.anonymize import HELP, VerifiedRelease, nearly_lost, said_of_loss
from masquerade.service.agree.answering import priced_columns
from masquerade.service.agree.arrangements import RULES
from masquerade.service.agree.policy import ANY
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import Deal, Terms, cost
from masquerade.service.cards import SchemaCard
from masquerade.service.resources import ExpectedQuality
from masquerade.service.wire.control import PublishedDataset
from masquerade.utility import release_error

Figures = dict[str, float | None]
LOSSES = "losses"  # beside the figures: what each column lost, and
KEPT = "kept"  # how much of its information it keeps, where that is known
LOST = "lost"  # those that lost nearly all detail


@dataclass(frozen=True)
class QualityTerm:
    """One limit of a request, and the figure that it is about."""

    key: str  # in a request, and in what is told of it
    figure: str  # in a release's `quality`, and beside the limit
    name: str  # for a person
    help: str
    is_share: bool = True  # of 1; otherwise a ratio without an end


QUALITY_TERMS = (
    QualityTerm(
        "most_error", "error", "classification error", "From 0 to 1; needs a class. When it is missed, you are asked"
    ),
    QualityTerm(
        "most_ncp",
        "ncp",
        "loss of detail (NCP)",
        "From 0, nothing lost, to 1, everything. When it is missed, you are asked",
    ),
    QualityTerm(
        "most_query_error",
        "query_error",
        "query error",
        "Such as 0.2: counts from the table are wrong by a fifth on average. When it is missed, you are asked",
        is_share=False,
    ),
)


def figures_of(release: VerifiedRelease, terms: Terms) -> Figures:
    """Measure a release; figures that do not apply are left out, and those that cannot be known are None.

    A roll-up is made from an earlier release alone, so nothing in it compares with the originals.
    """
    found: Figures = {}
    if terms.class_name is not None:
        told = release.error
        found["error"] = release_error(release.table, terms.class_name) if told is None else told
    compared = terms.source is None
    found["ncp"] = release.metrics.get("ncp") if compared else None
    found["information_kept"] = release.metrics.get("information_kept") if compared else None
    asked = release.query_error if compared else None
    found["query_error"] = asked.mean if asked is not None else None
    return found


def losses_of(release: VerifiedRelease, terms: Terms) -> dict[str, dict[str, float]]:
    """Return what each column lost and keeps, in hundredths, and those that lost nearly all: told beside the figures.

    Nothing in a roll-up compares with the originals.
    """
    if terms.source is not None:
        return {}
    found = {LOSSES: release.attribute_losses, KEPT: release.attribute_information, LOST: nearly_lost(release)}
    return {key: {name: round(each, 2) for name, each in shares.items()} for key, shares in found.items() if shares}


def why_waits(told: Mapping[str, Any]) -> list[str]:
    """Return why a release waits for its client, a sentence each without a full stop; then what would help."""
    found = [f"the {said_of(term, told)}" for term in missed_terms(told)]
    lost, kept = told.get(LOST) or {}, told.get(KEPT) or {}
    found += [said_of_loss(name, float(loss), kept.get(name)) for name, loss in lost.items()]
    if lost and told.get("declines") != 0:  # otherwise the ledgers take nothing else any more
        found.append(HELP.text)
    return found or (["an estimate was asked for"] if told.get("estimate") else [])


def said_of_losses(told: Mapping[str, Any]) -> str:
    """Return what each column lost, the most first; nothing of a roll-up, which compares with no original."""
    kept = told.get(KEPT) or {}
    losses = sorted((told.get(LOSSES) or {}).items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(
        f"{name} {float(loss):.0%}" + (f" (keeps {float(kept[name]):.0%} of its information)" if name in kept else "")
        for name, loss in losses
    )


def said_of_binding(told: Mapping[str, Any]) -> str | None:
    """Return what it means for later requests to accept or decline a release, without a full stop."""
    left = told.get("declines")
    if left is None:
        return None
    if left == 0:
        return "so much of these tables was declined before that it binds later requests even if you decline it"
    more = "the next one binds them in any case" if left == 1 else f"{left - 1} more may be declined after that"
    return f"accepted, it binds later requests for these tables; declined, it does not, and {more}"


def limits_of(wished: Mapping[str, Any] | Request | Deal) -> Figures:
    """Return the limits of a request or a deal, by their keys."""
    keys = [term.key for term in QUALITY_TERMS]
    found = {key: wished.get(key) if isinstance(wished, Mapping) else getattr(wished, key) for key in keys}
    return {key: float(limit) for key, limit in found.items() if limit is not None}


def missed_terms(told: Mapping[str, Any]) -> Iterator[QualityTerm]:
    """Yield the terms whose limit is not met, given figures and limits together."""
    for term in QUALITY_TERMS:
        limit, figure = told.get(term.key), told.get(term.figure)
        if limit is not None and (figure is None or float(figure) > float(limit)):
            yield term


def said_of(term: QualityTerm, told: Mapping[str, Any]) -> str:
    """Return a figure and its limit in words, without a full stop."""
    figure, limit = told.get(term.figure), told.get(term.key)
    measured = "could not be measured" if figure is None else f"is {float(figure):.4g}"
    kept = told.get("information_kept") if term.figure == "ncp" else None
    if kept is not None:
        measured += f" ({float(kept):.0%} of the information is kept)"
    wished = "" if limit is None else f", and at most {float(limit):.4g} was wished"
    return f"{term.name} {measured}{wished}"


# --- expectation --------------------------------------------------------------------------------------------
# What a request can expect before it is asked: from the parties' cards alone, so that nothing more is
# shown.
#
# A card says how many records there are at most (n), rounded up, and the request how large groups must be
# (k) over how many attributes (q). So there are at most g = n / k groups. Attributes that say nothing about
# each other, each with many values that are equally frequent, are best cut into g^(1/q) parts each, and a
# cell then covers g^(-1/q) of its range: that is the expected NCP. Attributes that go together, or have few
# values, lose less; skewed ones lose more, and so does whatever the parties' policies add. It is a guide,
# not a bound.


def expected(request: Request, cards: Sequence[SchemaCard]) -> ExpectedQuality | None:
    """Return `records` and `groups` at most and the expected `ncp`; None where cards or request do not tell."""
    records = RULES[request.arrangement].records(cards)
    shown = {column.name for card in cards for column in card.columns if column.role == "attribute"}
    parts = [part for part in request.privacy if {*part.qid} <= shown & {*request.attributes}]
    if not records or not parts:
        return None
    groups = min(records // max(part.implied_size, 1) for part in parts)
    if not groups:
        return ExpectedQuality(records=records, groups=0, ncp=None)
    # The mean over all attributes of the largest loss that a QID with them is expected to cost
    losses: dict[str, float] = {}
    for part in parts:
        loss = (records // max(part.implied_size, 1)) ** (-1 / len(part.qid))
        losses |= {name: max(losses.get(name, 0.0), loss) for name in part.qid}
    ncp = round(sum(losses.values()) / len(losses), 2)
    return ExpectedQuality(records=records, groups=groups, ncp=ncp)


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
        above = f"That is above the {most_ncp:g} that you would take"
        lines.append(f"{above}: a smaller k, or fewer columns in a QID, would keep more.")
    return lines


# --- price and purposes -------------------------------------------------------------------------------------
# What can be foreseen of a request from what the parties have published, before anybody is asked.
#
# Nobody is bound by it: a party's policy may have changed since, and answers itself. What others were given
# is not told: only the user's own releases are looked up.


@dataclass(frozen=True)
class Foresight:
    """What a request costs at most (cents), and for which purposes it may be made; `refused_by` allow not its own."""

    price: int
    purposes: tuple[str, ...]
    refused_by: tuple[str, ...]


def foresee(request: Request, asked: Mapping[str, PublishedDataset]) -> Foresight:
    """Foresee a request to these parties, each for one dataset."""
    rules = RULES[request.arrangement]
    prices = [rules.price(each.price, each.card, priced_columns(request, each.card)) for each in asked.values()]
    told = [each.card.records for each in asked.values() if each.card.records is not None]
    allowed = [each.purposes for each in asked.values()]
    named = sorted({purpose for some in allowed for purpose in some} - {ANY})
    everywhere = [each for each in named if all(ANY in some or each in some for some in allowed)]
    anything = asked and all(ANY in some for some in allowed)
    refusing = [
        party
        for party, each in asked.items()
        if request.purpose is not None and ANY not in each.purposes and request.purpose not in each.purposes
    ]
    return Foresight(
        price=cost(prices, min(told, default=None)),
        purposes=(*everywhere, *([ANY] if anything else [])),
        refused_by=tuple(sorted(refusing)),
    )
