"""All minimal quasi-identifiers: every set of columns, up to a size, that reaches a ratio while no part of it does.

Sets are tried size by size, so that whatever contains one found before is passed over. Within a size the search adds
columns in ascending order and refines the groups on the way. It turns back where no columns that may follow can reach
the target: one more column multiplies the groups by at most its number of values, and tells at most as many further
pairs apart as it does alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from masquerade.risk.hitting_set import columns_of
from masquerade.risk.separation import Extent, Measure, Separation


@dataclass(frozen=True)
class QuasiIdentifier:
    """A minimal set of columns that reaches the ratio, and what it tells apart."""

    columns: tuple[int, ...]
    extent: Extent


def minimal_quasi_identifiers(
    everything: Separation, width: int, measure: Measure, at_least: int, most_columns: int
) -> Iterator[QuasiIdentifier]:
    """Yield them, the smaller ones first; `at_least` groups or pairs must be told apart, by some of `width` columns."""
    search = _Search(everything, width, measure, at_least)
    if search.everything.extent.of(measure) >= at_least:  # even no column at all is enough
        yield QuasiIdentifier((), search.everything.extent)
        return
    for size in range(1, min(most_columns, width) + 1):
        yield from list(search.of_size(size))


class _Search:
    def __init__(self, everything: Separation, width: int, measure: Measure, at_least: int) -> None:
        self.everything, self.width, self.measure, self.at_least = everything, width, measure, at_least
        alone = [everything.extent_with(column) for column in range(width)]
        none = everything.extent.pairs
        self.values = [extent.groups for extent in alone]
        self.pairs = [extent.pairs - none for extent in alone]
        self.found = list[int]()

    def of_size(self, size: int) -> Iterator[QuasiIdentifier]:
        for each in self._below(self.everything, 0, 0, size):
            self.found.append(sum(1 << column for column in each.columns))
            yield each

    def _below(self, groups: Separation, chosen: int, first: int, size: int) -> Iterator[QuasiIdentifier]:
        """Add `size` columns, none before `first`, to the chosen ones."""
        for column in range(first, self.width - size + 1):
            if not self._within_reach(groups.extent, column, size):
                return  # later columns can only do what this one and they could
            mask = chosen | 1 << column
            if any(mask & known == known for known in self.found):
                continue
            if size == 1:
                extent = groups.extent_with(column)
                if extent.of(self.measure) >= self.at_least:
                    yield QuasiIdentifier(tuple(columns_of(mask)), extent)
            else:
                yield from self._below(groups.refined(column), mask, column + 1, size - 1)

    def _within_reach(self, extent: Extent, first: int, size: int) -> bool:
        """Return whether `size` columns from `first` on could reach the target."""
        if self.measure == "separation":
            return extent.pairs + sum(sorted(self.pairs[first:])[-size:]) >= self.at_least
        groups = extent.groups
        for bound in sorted(self.values[first:])[-size:]:
            groups *= bound
        return groups >= self.at_least
