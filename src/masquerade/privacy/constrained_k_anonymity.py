"""Constrained k-anonymity: k-anonymity, and no value generalised beyond its boundary (Definition 6).

Monotone under specialization, as k-anonymity is; the boundaries are the attributes' own (`data/boundary.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from masquerade.forms.rules import whole
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.parameters import limit, qid, requirement


@requirement
class ConstrainedKAnonymity(KAnonymity):
    """Groups of at least k records, whose values keep to the boundaries of their attributes."""

    model: ClassVar[str] = "constrained-k-anonymity"
    promise = "at least k records in each group, and no value generalised beyond its boundary"
    within_boundaries = True

    qid: Sequence[str] = qid()
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
