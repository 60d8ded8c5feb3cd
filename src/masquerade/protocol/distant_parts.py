"""Requirements whose sensitive attribute is at another party than some attribute of their QID: which can be checked.

What is checked secretly is a histogram of groups and sensitive values (protocol/distant_checks.py). Its rows are
bounded by the size that every group has anyway, so the model, or a k over the same attributes, must ask for one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.requirement import TOLERANCE, GroupRequirement

CHECKED = (LDiversity, AlphaKAnonymity, ConfidenceBounding, PSensitiveKAnonymity)


def distant_from(part: GroupRequirement, holder: Mapping[str, str]) -> tuple[str, ...]:
    """The attributes of its QID that are not where its sensitive attribute is."""
    if part.sensitive is None or part.sensitive not in holder:
        return ()
    where = holder[part.sensitive]
    return tuple(sorted({name for name in part.qid if holder.get(name) != where}))


def implied_size(part: GroupRequirement) -> KAnonymity:
    """What the requirement says of the sizes of groups alone: anybody can check that."""
    if isinstance(part, LDiversity):
        return KAnonymity(part.qid, part.l)
    if isinstance(part, PSensitiveKAnonymity):
        return KAnonymity(part.qid, max(part.k, part.p))
    if isinstance(part, AlphaKAnonymity):
        return KAnonymity(part.qid, max(part.k, _fewest(part.alpha, part.values)))
    if isinstance(part, ConfidenceBounding):
        return KAnonymity(part.qid, _fewest(part.confidence, part.values))
    return KAnonymity(part.qid, 1)


def least_size(part: GroupRequirement, parts: Sequence[GroupRequirement]) -> int:
    """How many records every group of the part's QID has at least, once all parts hold."""
    over = (each.k for each in parts if isinstance(each, KAnonymity) and set(each.qid) >= set(part.qid))
    return max(implied_size(part).k, *over, 1)


def _fewest(share: float, values: Sequence[str] | None) -> int:
    """Where no value may have a larger share, a group has at least so many values, and records."""
    return 1 if values is not None else math.ceil(1 / (share + TOLERANCE))
