"""Dimensions whose cuts are public: where a range is cut follows from the contract alone, never from the records.

A category is cut into the children of its node, a number in two equal halves, the providers each from the others. So
an attempt to cut shows nothing about the records but the judge's answers about its parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Boundary, Column, Generalised, Kind, Number, Taxonomy, write_interval
from masquerade.engine import distinct_values, value_counts
from masquerade.errors import ParameterError
from masquerade.utility import AttributeLoss, Comparison, information_loss, losses_of, rounded

Range = tuple[int, int]  # of ranks: from (inclusive), to (exclusive)
Ranks = NDArray[np.int64]

MOST_LIMITS = 1 << 16  # most general allowed ranges of one attribute


class PublicAxis(ABC):
    """One dimension: its ranges and how each is cut."""

    name: str
    root: Range
    limits: tuple[Range, ...] = ()  # the most general ranges that are allowed; none without boundaries

    @abstractmethod
    def limit_of(self, ranks: Ranks) -> Ranks:
        """Return the number of each rank's most general allowed range among `limits`."""

    @abstractmethod
    def children(self, at: Range) -> tuple[Range, ...]:
        """Return the ranges that a range is cut into, in order; none when it cannot be cut."""

    @abstractmethod
    def width(self, at: Range) -> float:
        """Return the share of the whole that a range covers, from 0 to 1; 0 when it cannot be cut."""

    @abstractmethod
    def label(self, at: Range) -> str:
        """Return a range as written in a release."""

    @abstractmethod
    def loss(self, ranks: Ranks, cells: list[Range], of_row: Ranks) -> AttributeLoss:
        """Measure what rows of these ranks lose when row i is released as `cells[of_row[i]]`."""


class CategoryAxis(PublicAxis):
    """A taxonomy."""

    def __init__(self, name: str, taxonomy: Taxonomy, boundary: Boundary | None = None) -> None:
        self.name, self.taxonomy, self._boundary = name, taxonomy, boundary
        self.root = (0, taxonomy.size)
        if boundary is not None:  # where one is above another, the higher one holds what is not below the lower
            self.limits = tuple(sorted({*zip(boundary.lo.tolist(), boundary.hi.tolist(), strict=True)}))

    def limit_of(self, ranks: Ranks) -> Ranks:
        """Return the number of the node up to which each rank may be generalised."""
        assert self._boundary is not None
        return self._boundary.codes.take(ranks).astype(np.int64)

    @cached_property
    def _children(self) -> dict[Range, tuple[Range, ...]]:
        nodes = self.taxonomy.nodes
        return {
            (node.lo, node.hi): tuple((nodes[child].lo, nodes[child].hi) for child in node.children) for node in nodes
        }

    def children(self, at: Range) -> tuple[Range, ...]:
        """Return the children of the node."""
        return self._children[at]

    def width(self, at: Range) -> float:
        """Return its share of the leaves."""
        return (at[1] - at[0]) / self.taxonomy.size if self._children[at] else 0.0

    def label(self, at: Range) -> str:
        """Return the node's name."""
        return self.taxonomy.label(*at)

    def loss(self, ranks: Ranks, cells: list[Range], of_row: Ranks) -> AttributeLoss:
        """Measure the loss by the leaves and heights of the taxonomy."""
        lo, hi = (np.array([cell[end] for cell in cells], np.int64) for end in (0, 1))
        labels = tuple(self.label(cell) for cell in cells)
        released = Generalised(self.name, of_row.astype(np.int32), labels, lo, hi, self.taxonomy)
        original = Column(self.name, ranks.astype(np.int32), self.taxonomy)
        return losses_of(Comparison((original,), (released,), None, None, {}))[self.name]


class HalvingAxis(PublicAxis):
    """Whole numbers from `root[0]` up to `root[1]`: a range is cut in the middle.

    They represent numbers with `decimals` digits after the point, or days, or with a `step` whole multiples of it: the
    cells of a grid that are not told apart. The outer ends are written as the bounds that the contract gives, or as
    infinite, so that no provider's extreme values show.
    """

    def __init__(
        self,
        name: str,
        root: Range,
        kind: Kind = "continuous",
        decimals: int = 0,
        lower: Number = float("-inf"),
        upper: Number = float("inf"),
        max_width: Number | None = None,
        step: Number | None = None,
    ) -> None:
        self.name, self.root, self.kind, self.decimals = name, root, kind, decimals
        self._lower, self._upper, self._step = lower, upper, step
        if max_width is not None:
            self.limits = self._no_wider_than(max_width * 10**decimals if step is None else max_width / step)

    def _no_wider_than(self, most: Number) -> tuple[Range, ...]:
        """Return the first ranges of repeated halving that are no wider, or cannot be cut."""
        found, waiting = [], [self.root]
        while waiting:
            at = waiting.pop()
            if at[1] - at[0] > max(most, 1):
                waiting += reversed(self.children(at))
            else:
                found.append(at)
            if len(found) > MOST_LIMITS:
                raise ParameterError(
                    f"attribute {self.name}: max_width would cut its range into more than {MOST_LIMITS} intervals, "
                    "each of which must be tested; allow more, or give min and max"
                )
        return tuple(found)

    def limit_of(self, ranks: Ranks) -> Ranks:
        """Return the number of the interval that each rank lies in."""
        starts = np.array([lo for lo, _ in self.limits], np.int64)
        return (np.searchsorted(starts, ranks, "right") - 1).astype(np.int64)

    def children(self, at: Range) -> tuple[Range, ...]:
        """Return the two halves."""
        lo, hi = at
        middle = (lo + hi) // 2
        return ((lo, middle), (middle, hi)) if hi - lo > 1 else ()

    def width(self, at: Range) -> float:
        """Return its share of the whole range."""
        lo, hi = at
        return (hi - lo) / (self.root[1] - self.root[0]) if hi - lo > 1 else 0.0

    def label(self, at: Range) -> str:
        """Return the range as an interval."""
        lower = self._lower if at[0] <= self.root[0] else self._number(at[0])
        upper = self._upper if at[1] >= self.root[1] else self._number(at[1])
        return write_interval(lower, upper, self.kind)

    def loss(self, ranks: Ranks, cells: list[Range], of_row: Ranks) -> AttributeLoss:
        """Measure the loss by each cell's share of the whole range."""
        widths = np.array([self.width(cell) for cell in cells])
        counts = value_counts(of_row, len(cells))
        mean = rounded(float(counts @ widths), of_row.size)
        lo, hi = np.array(cells, np.int64).reshape(-1, 2).T
        occurring, places = distinct_values(ranks)
        times = value_counts(places, occurring.size)
        information = information_loss(times, lo, hi, counts, ranks=occurring)
        return AttributeLoss(mean, mean, mean, 0, 0, information)

    def ranks_of(self, values: NDArray[np.int64] | NDArray[np.float64]) -> Ranks:
        """Return the whole number that stands for each value."""
        units = values * 10**self.decimals if self._step is None else values / self._step
        return np.rint(units).astype(np.int64)

    def _number(self, rank: int) -> Number:
        if self._step is not None:
            return rank * self._step
        return rank if not self.decimals else float(round(rank / 10**self.decimals, self.decimals))
