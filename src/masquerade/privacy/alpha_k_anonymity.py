"""(α, k)-anonymity: groups of at least k records, in which no sensitive value has more than the share α.

Monotone under specialization: a union is larger than its parts, and its shares are weighted means of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from masquerade.forms.rules import number, whole
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.parameters import GIVEN_ONCE, limit, qid, requirement, sensitive, values
from masquerade.privacy.size_and_values import SizeAndValues


@requirement
class AlphaKAnonymity(SizeAndValues):
    """Groups of at least k records; each listed (or every) sensitive value has at most the share alpha."""

    model: ClassVar[str] = "alpha-k-anonymity"
    promise = "at least k records, and no sensitive value has a share above α"
    figure_meaning = "largest share of a sensitive value in a group"
    worst = "largest"

    qid: Sequence[str] = qid()
    alpha: float = limit(
        number(0, 1, open_low=True),
        stricter="smaller",
        symbol="α",
        example=0.5,
        help="the share of a sensitive value in a group, at most",
    )
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
    sensitive: str = sensitive(default=GIVEN_ONCE)
    values: Sequence[Any] | None = values(default=None)

    def on_values(self) -> ConfidenceBounding:
        """A confidence of at most α."""
        return ConfidenceBounding(self.qid, self.alpha, self.sensitive, self.values)
