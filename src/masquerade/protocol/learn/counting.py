"""Shares of how many records take some values, however the table is split between two parties.

A question names values that records must have (the path to a node of a tree, say) and one or more attributes; the
answer has a cell for each combination of their values, as shares in a ring.

- Each party holds whole records: its own counts are its shares, and nothing is sent.
- Each party holds some columns of the same records: both number the values that they see of a record, and the joint
  histogram of these numbers is the answer. A record whose own cells do not fit is counted nowhere. Where all attributes
  together have few combinations, they are counted once, and every answer is a sum of these counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.engine.counts import value_counts
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.histogram import Bounds, joint_histogram
from masquerade.protocol.joint_histogram.pair import Pair
from masquerade.protocol.learn.arithmetic import lifted

Codes = NDArray[np.int64]

_FEW_CELLS = 1 << 12


@dataclass(frozen=True)
class Question:
    """How many records have the values `given`, for each combination of values of `attributes`, the last fastest."""

    attributes: tuple[str, ...]
    given: tuple[tuple[str, int], ...] = ()


class SharedCounts(ABC):
    """One party's side of a table that two parties have; `sizes` has the number of values of each attribute."""

    def __init__(self, codes: Mapping[str, Codes], sizes: Mapping[str, int], bits: int) -> None:
        self._codes, self.sizes, self.bits = codes, sizes, bits  # counts are below 2^bits

    @abstractmethod
    def answers(self, pair: Pair, questions: Sequence[Question], ring: PowerOfTwo) -> Script[list[Elements]]:
        """Return our shares of the answers."""

    def _number(self, attributes: Sequence[str]) -> Codes:
        """Number the combinations of these attributes' values in our records."""
        some = next(iter(self._codes.values()))
        numbers = np.zeros(some.size, np.int64)
        for name in attributes:
            numbers = numbers * self.sizes[name] + self._codes[name]
        return numbers

    def _fits(self, given: Sequence[tuple[str, int]]) -> NDArray[np.bool_]:
        """Return which of our records have the given values, as far as we see them."""
        fits = np.ones(next(iter(self._codes.values())).size, bool)
        for name, value in given:
            if name in self._codes:
                fits &= self._codes[name] == value
        return fits


class WholeRecords(SharedCounts):
    """Each party has all attributes, of its own records."""

    def answers(self, pair: Pair, questions: Sequence[Question], ring: PowerOfTwo) -> Script[list[Elements]]:
        """Count our own records."""
        yield from ()
        return [self._counted(each) for each in questions]

    def _counted(self, question: Question) -> Elements:
        numbers = self._number(question.attributes)[self._fits(question.given)]
        return value_counts(numbers, prod(self.sizes[name] for name in question.attributes)).astype(np.uint64)


class SplitColumns(SharedCounts):
    """Each party has some attributes of the same records, in the same order; `holder` says who has which."""

    def __init__(
        self, codes: Mapping[str, Codes], sizes: Mapping[str, int], bits: int, holder: Mapping[str, int]
    ) -> None:
        super().__init__(codes, sizes, bits)
        self._holder = holder
        self._everything: NDArray[np.unsignedinteger] | None = None  # all combinations, if they are few

    def answers(self, pair: Pair, questions: Sequence[Question], ring: PowerOfTwo) -> Script[list[Elements]]:
        """Count by joint histograms, and lift all counts into the ring at once."""
        if self._everything is None and prod(self.sizes.values()) <= _FEW_CELLS:
            counted = yield from self._counted(pair, Question(tuple(self.sizes)))
            self._everything = counted.reshape(tuple(self.sizes.values()))
        found = []
        for question in questions:
            if self._everything is None:
                found.append((yield from self._counted(pair, question)))
            else:
                found.append(self._added_up(self._everything, question))
        lengths = [each.size for each in found]
        shares = yield from lifted(pair, np.concatenate(found), self.bits, ring)
        return np.split(shares, np.cumsum(lengths)[:-1])

    def _added_up(
        self, table: NDArray[np.unsignedinteger], question: Question
    ) -> NDArray[np.unsignedinteger]:
        """Return our shares of the answer, from those of all combinations."""
        names, given = list(self.sizes), dict(question.given)
        part = table[tuple(given.get(name, slice(None)) for name in names)]
        left = [name for name in names if name not in given]
        others = tuple(at for at, name in enumerate(left) if name not in question.attributes)
        sums = part.sum(axis=others, dtype=table.dtype)
        kept = [name for name in left if name in question.attributes]
        answer: NDArray[np.unsignedinteger] = sums.transpose(
            [kept.index(name) for name in question.attributes]
        ).ravel()
        return answer

    def _counted(self, pair: Pair, question: Question) -> Script[NDArray[np.unsignedinteger]]:
        parts = [[name for name in question.attributes if self._holder[name] == party] for party in (0, 1)]
        bounds = [prod(self.sizes[name] for name in part) for part in parts]
        own = self._number(parts[pair.me])
        labels = np.where(self._fits(question.given), own, bounds[pair.me]).astype(np.uint64)
        table = yield from joint_histogram(pair, labels, Bounds(labels.size, (bounds[0], bounds[1])))
        sizes = [self.sizes[name] for part in parts for name in part]
        cells = table[:-1, :-1].reshape(sizes)
        order = [[*parts[0], *parts[1]].index(name) for name in question.attributes]
        return cells.transpose(order).ravel()
