"""Requirements whose sensitive attribute is at another party than some attribute of their QID: which can be checked.

What is checked secretly is a histogram of groups and sensitive values (protocol/remote_checks.py), by the circuit that
the model declares. Its rows are bounded by the size that every group has anyway, so the model, or a k over the same
attributes, must ask for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masquerade.privacy.registry import REQUIREMENTS
from masquerade.privacy.requirement import GroupRequirement


def remote_qid(part: GroupRequirement, holder: Mapping[str, str]) -> tuple[str, ...]:
    """Return the QID attributes held by another party than the sensitive attribute; `holder` is by column."""
    if part.sensitive is None or part.sensitive not in holder:
        return ()
    where = holder[part.sensitive]
    return tuple(sorted({name for name in part.qid if holder.get(name) != where}))


def least_size(part: GroupRequirement, parts: Sequence[GroupRequirement]) -> int:
    """Return the least size of a group of the part's QID, once all parts hold."""
    over = (each.implied_size for each in parts if each.only_sizes and set(each.qid) >= set(part.qid))
    return max(part.implied_size, *over, 1)


def refuse_remote_sensitive(
    parts: Sequence[GroupRequirement], holder: Mapping[str, str]
) -> list[tuple[int, str]]:
    """Return index and reason of requirements that need another party's sensitive values and have no secure check.

    Judging one openly would show a party a finer partition than the release has whenever the answer is no.
    """
    refused = []
    for at, part in enumerate(parts):
        remote = remote_qid(part, holder)
        if not remote or part.sensitive is None:
            continue
        where = holder[part.sensitive]
        over = f"{part.model} on {part.sensitive}, which {where} holds, over {', '.join(remote)} of other parties"
        if not part.has_circuit:
            models = ", ".join(each for each in REQUIREMENTS.declaring("circuit") if each != part.model)
            reason = "needs a secure check that this version does not have; "
            reason += f"use a QID of {where}'s own attributes, or one of {models}"
        elif least_size(part, parts) < 2:
            reason = f"needs groups of at least two records; add k-anonymity over {', '.join(part.qid)}"
        else:
            continue
        refused.append((at, f"{over} {reason}"))
    return refused
