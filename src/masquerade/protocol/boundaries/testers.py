"""Who finds out which records can be released within the boundaries, and what they cannot test."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from masquerade.errors import Problem
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.method import Proposal


def testers(
    parties: Sequence[str],
    holder: Mapping[str, str],
    parts: Sequence[GroupRequirement],
    bounded: Collection[str],
) -> tuple[str, ...]:
    """Return the holders of bounded attributes, and of the sensitive ones, in the order of the contract.

    The others have nothing that decides: at the boundaries all their values are one.
    """
    deciding = {holder[name] for part in parts for name in part.qid if name in bounded}
    deciding |= {holder[part.sensitive] for part in parts if part.sensitive in holder and part.sensitive}
    return tuple(name for name in parties if name in deciding)


def untestable_within(proposal: Proposal) -> Iterator[Problem]:
    """Yield the requirements that several parties cannot test on the groups at their boundaries."""
    holder, parts = proposal.holder, proposal.parts
    bounded = {name for part in parts for name in part.qid if name in proposal.boundaries}
    if holder is None or not bounded <= {*holder}:
        return
    if not bounded or len(testers(sorted({*holder.values()}), holder, parts, bounded)) < 2:
        return
    for at, part in enumerate(parts):
        if part.only_sizes:
            continue
        least = max(each.implied_size for each in parts if {*each.qid} == {*part.qid})
        if not part.has_circuit:
            why = "it cannot be tested on shared counts"
        elif least < 2:
            why = "that needs groups of at least two records: add k-anonymity over the same QID"
        elif part.sensitive not in holder:
            why = f"that needs a sensitive column of one party, and nobody contributes {part.sensitive}"
        else:
            continue
        text = f"which records {part.model} leaves within boundaries of several parties' attributes is not known: {why}"
        yield Problem(f"{text}; leave the boundaries out", key=("privacy", at))
