"""What a set of columns tells apart, and the grounds on which that is counted.

A set of columns is judged by two measures. Its **distinct ratio** is the share of rows that can be kept so that it is
a key of them: groups of equal rows / rows. Its **separation ratio** is the share of all pairs of rows in which the two
differ. Both grow with the set. The pairs told apart are moreover submodular: a column adds the less, the more columns
are chosen.

A `Ground` is the state of a search that adds one column after the other: all rows, refined into groups
(`partition.py`), or a sample of pairs (`sampled_pairs.py`). Columns are numbers.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

Measure = Literal["distinct", "separation"]
MEASURES: tuple[Measure, ...] = ("distinct", "separation")


class Extent(NamedTuple):
    """How far a set of columns tells the ground apart."""

    groups: int  # of rows that it does not tell apart; 0 on a ground of pairs
    pairs: int  # that it tells apart

    def of(self, measure: Measure) -> int:
        """The count that the measure's ratio is a share of."""
        return self.groups if measure == "distinct" else self.pairs


class Ground(Protocol):
    """The state of a search: what the chosen columns tell apart, and what one more would."""

    @property
    def extent(self) -> Extent:
        """What the chosen columns tell apart."""

    @property
    def whole(self) -> Extent:
        """All there is: rows, and pairs of rows."""

    def extent_with(self, column: int) -> Extent:
        """What they would tell apart together with one more."""

    def refined(self, column: int) -> Ground:
        """The state after that column is chosen."""


def ratio(extent: Extent, whole: Extent, measure: Measure) -> float:
    """The measure's ratio; 1 where there is nothing to tell apart."""
    total = whole.of(measure)
    return extent.of(measure) / total if total else 1.0
