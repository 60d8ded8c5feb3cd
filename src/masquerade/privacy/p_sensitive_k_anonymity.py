"""p-sensitive k-anonymity: every group has at least k records and at least p different sensitive values.

Monotone under specialization: a union has every record and every value that one of its parts has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from masquerade.forms.rules import whole
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.parameters import GIVEN_ONCE, limit, qid, requirement, sensitive
from masquerade.privacy.requirement import Thresholds
from masquerade.privacy.size_and_values import SizeAndValues


@requirement
class PSensitiveKAnonymity(SizeAndValues):
    """Groups of at least k records and at least p different sensitive values."""

    model: ClassVar[str] = "p-sensitive-k-anonymity"
    promise = "at least k records and p different sensitive values"
    figure_meaning = "distinct sensitive values in the least diverse group"
    monotone_in_records = True
    hereditary = True  # a part has no more records, and no more values

    qid: Sequence[str] = qid()
    p: int = limit(
        whole(),
        stricter="larger",
        symbol="p",
        example=2,
        help="different sensitive values in each group, at least",
    )
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
    sensitive: str = sensitive(default=GIVEN_ONCE)

    @property
    def thresholds(self) -> Thresholds:
        """k records and p different values."""
        return Thresholds(self.k, self.p)

    def on_values(self) -> LDiversity:
        """At least p different values."""
        return LDiversity(self.qid, self.p, self.sensitive)
