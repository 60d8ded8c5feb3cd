"""Whether a policy reveals ratios of joint keys: of which columns, how exactly, over how many people, how many.

Each ratio is an equation about a party's columns, and a peer that makes up its own column chooses the equation
(docs/leakage.md). So nothing is granted unless the policy names a number, and the ledger counts: all ratios that were
told of a snapshot, to whomever, since whoever asks may know the others; and in every run, since a peer may make up
another column in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from masquerade.methods import product_of
from masquerade.protocol.contract import Contribution
from masquerade.protocol.joint_keys.method import JointKeys
from masquerade.protocol.method import AskedMethod
from masquerade.protocol.product import ANSWER
from masquerade.service.card import SchemaCard
from masquerade.service.further_releases import differences
from masquerade.service.ledger import Ledger
from masquerade.service.policy import Policy
from masquerade.service.terms import Terms


def against_question(policy: Policy, method: AskedMethod) -> Iterator[str]:
    """Yield the policy's objections to a question itself: whether, how exactly, over how many records."""
    granted = policy.joint_keys
    if not isinstance(method, JointKeys):
        yield f'questions by "{method.name}" are not answered'
        return
    if not granted.ratios:
        yield "ratios of joint keys are not told"
        return
    finest = float(granted.precision)
    if finest and (method.precision is None or method.precision < finest):
        asked = "exact ones" if method.precision is None else f"precision = {method.precision}"
        yield f"ratios are told in steps of {granted.precision} or more; asked for {asked}"
    fewest = min(method.least_records, method.sample or method.least_records)
    if fewest < granted.least_records:
        yield (
            f"ratios are told over {granted.least_records:,} common records or more "
            f"(least_records, and sample if there is one); asked for {fewest:,}"
        )


def against_columns(policy: Policy, mine: Sequence[Contribution]) -> Iterator[str]:
    """Yield the party's columns that may not be in a joint key: those not granted, or else all but attributes."""
    allowed = policy.joint_keys.columns
    for column in mine:
        if allowed and column.name not in allowed:
            yield f'"{column.name}" may not be in a joint key; allowed: {", ".join(allowed)}'
        if not allowed and column.role != "attribute":
            yield f'"{column.name}" is sensitive; it may be in a joint key only where the policy names it'


def against_number(
    policy: Policy, asked: Terms, card: SchemaCard, ledger: Ledger, *, runs: bool
) -> Iterator[str]:
    """Yield that too many ratios of this snapshot would have been revealed.

    Unless it `runs` now, a question that was answered before may be asked again: a coordinator may still have the
    answer. `asked` may be a draft (`further_releases.py`), and then be such a question as far as this party knows.
    """
    told = _told(card, ledger)
    if not runs and any(not differences(each, asked) for each in told):
        return
    before, more, most = sum(map(_ratios, told)), _ratios(asked), policy.joint_keys.ratios
    if before + more > most:
        yield (
            f"{before} ratios of this snapshot of {card.dataset} were told before; "
            f"{more} more would exceed the {most} that the policy grants"
        )


def _told(card: SchemaCard, ledger: Ledger) -> list[Terms]:
    """Return the questions about this snapshot that were answered, or begun to be, as often as they were."""
    if card.snapshot is None:
        return []
    terms = (each.terms for each in ledger.of_snapshot(card.dataset, card.snapshot))
    return [each for each in terms if product_of(each) is ANSWER]


def _ratios(terms: Terms) -> int:
    """Return how many ratios a question opens."""
    return len(terms.method.get("sets") or ((),))
