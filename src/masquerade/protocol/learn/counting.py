"""Shares of how many records take some values, however the table is split between parties.

A question names values that records must have (the path to a node of a tree, say) and one or more attributes; the
answer has a cell for each combination of their values, as shares in a ring.

- Each party holds whole records: its own counts are its shares, and nothing is sent.
- Two parties hold some columns of the same records each: both number the values that they see of a record, and the
  joint histogram of these numbers is the answer. A record whose own cells do not fit is counted nowhere.
- More than two do: one after the other multiplies what the parties before it share, a row of 0 and 1 for each record,
  by its own record's 0 or 1 for each of its values (`shared_numbers.py`), and the rows are added up. That takes a
  transfer for each record, value and earlier party, as long as the row.

Where all attributes together have few combinations, they are counted once, and every answer is a sum of these counts.
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
from masquerade.protocol.learn.shared_numbers import RING, SharedNumbers

Codes = NDArray[np.int64]

_FEW_CELLS, _FEW_AMONG_MANY = 1 << 12, 1 << 8
_ENTRIES = 1 << 19  # about as many are multiplied at a time


@dataclass(frozen=True)
class Question:
    """How many records have the values `given`, for each combination of values of `attributes`, the last fastest."""

    attributes: tuple[str, ...]
    given: tuple[tuple[str, int], ...] = ()


class SharedCounts(ABC):
    """One party's side of a table that several have; `sizes` has the number of values of each attribute."""

    def __init__(self, codes: Mapping[str, Codes], sizes: Mapping[str, int], bits: int) -> None:
        self._codes, self.sizes, self.bits = codes, sizes, bits  # counts are below 2^bits

    @abstractmethod
    def answers(self, pair: Pair, questions: Sequence[Question], ring: PowerOfTwo) -> Script[list[Elements]]:
        """Return our shares of the answers, between two parties."""

    @abstractmethod
    def answers_among(self, shared: SharedNumbers, questions: Sequence[Question]) -> Script[list[Elements]]:
        """Return our shares of the answers, among any number of parties."""

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

    def answers_among(self, shared: SharedNumbers, questions: Sequence[Question]) -> Script[list[Elements]]:
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

    def answers_among(self, shared: SharedNumbers, questions: Sequence[Question]) -> Script[list[Elements]]:
        """Count by products, one party after the other."""
        if self._everything is None and prod(self.sizes.values()) <= _FEW_AMONG_MANY:
            counted = yield from self._multiplied(shared, Question(tuple(self.sizes)))
            self._everything = counted.reshape(tuple(self.sizes.values()))
        found = []
        for question in questions:
            if self._everything is None:
                found.append((yield from self._multiplied(shared, question)))
            else:
                found.append(self._added_up(self._everything, question).astype(np.uint64))
        return found

    def _multiplied(self, shared: SharedNumbers, question: Question) -> Script[Elements]:
        """Return our shares of the answer, of which each party that sees something of it has one."""
        parts = {
            party: [name for name in question.attributes if self._holder[name] == party]
            for party in range(len(shared.parties))
            if any(self._holder[name] == party for name in (*question.attributes, *dict(question.given)))
        }
        sizes = {party: prod(self.sizes[name] for name in part) for party, part in parts.items()}
        first, *others = sorted(parts, key=lambda party: (sizes[party], party))
        ours = self._indicators(parts[shared.me], question) if shared.me in parts else None
        n = next(iter(self._codes.values())).size
        total = np.zeros(prod(sizes.values()), np.uint64)
        at_a_time = max(1, _ENTRIES // total.size)
        for start in range(0, n, at_a_time):
            some = slice(start, start + at_a_time)
            here = len(range(*some.indices(n)))
            rows = np.zeros((here, sizes[first]), np.uint64)
            if shared.me == first and ours is not None:
                rows = ours[some]
            before = [first]
            for party in others:
                own = ours[some].ravel() if shared.me == party and ours is not None else None
                repeated = np.repeat(rows, sizes[party], axis=0)
                products = yield from shared.times_digits(party, own, repeated, before)
                # Of each record a row of the cells so far for each of this party's values; its values go fastest.
                rows = products.reshape(here, sizes[party], -1).transpose(0, 2, 1).reshape(here, -1)
                before.append(party)
            total = RING.add(total, RING.total(rows))
        order = [name for party in (first, *others) for name in parts[party]]
        cells = total.reshape([self.sizes[name] for name in order])
        return cells.transpose([order.index(name) for name in question.attributes]).ravel()

    def _indicators(self, attributes: Sequence[str], question: Question) -> Elements:
        """Return for each of our records a row with 1 at the combination that it has; all 0 where it does not fit."""
        size = prod(self.sizes[name] for name in attributes)
        rows = np.zeros((next(iter(self._codes.values())).size, size), np.uint64)
        fits = self._fits(question.given)
        rows[np.flatnonzero(fits), self._number(attributes)[fits]] = 1
        return rows

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
