"""The records that no group has taken yet, and the boxes among them that are large enough to be one.

Thousands of vectors are looked at, and most have no large box: a table of short hashes tells, without sorting keys.
What is looked up for that lies close together, as the records that have left are forgotten now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from masquerade.anonymize.cheapest_box.levels import ONE
from masquerade.anonymize.cheapest_box.space import Boxes, Records
from masquerade.anonymize.mondrian.judge import Histograms
from masquerade.engine.counts import Counts, Flags, Rows, weighted_counts

_FEWEST_BITS, _MOST_BITS = 10, 16
_SPARSE = 0.7  # share of the records still there below which the others are forgotten


@dataclass(frozen=True, eq=False)
class Found:
    """The boxes of one vector that are large enough: where the records of each stand among others, and its cost."""

    records: Rows  # box after box, those of smaller boxes between
    starts: Counts
    lengths: Counts  # distinct records in each box
    costs: Counts

    def only(self, boxes: Flags) -> Found:
        """Return the flagged boxes, without records between them."""
        lengths = self.lengths[boxes]
        starts = lengths.cumsum() - lengths
        places = np.arange(lengths.sum()) + (self.starts[boxes] - starts).repeat(lengths)
        return Found(self.records.take(places), starts, lengths, self.costs[boxes])

    def all(self) -> Found:
        """Return all boxes, without records between them."""
        return self.only(np.ones(self.starts.size, bool))


class Remaining:
    """The records that are left. `numbers` are theirs in the table, of which some may have left already."""

    def __init__(self, records: Records, boxes: Boxes, least: int, purity: float) -> None:
        self._records, self._boxes = records, boxes
        self._least, self._purity = least, purity if records.classes is not None else 0.0
        self._numbers = np.arange(records.n)
        self._left = np.arange(records.n)  # places among the numbers
        self._sizes = records.sizes.astype(np.float64)  # of those that are left
        self.n_rows = int(records.sizes.sum())

    @property
    def n_records(self) -> int:
        """Number of distinct records."""
        return int(self._left.size)

    def large_boxes(self, vector: int) -> Found | None:
        """Return the boxes of a vector with enough rows; None if there are none."""
        left, least = self._left, self._least
        bits = max(_FEWEST_BITS, min(_MOST_BITS, left.size.bit_length() + 1))
        hashes = self._boxes.hashes(vector, left, bits)
        (some,) = (weighted_counts(hashes, self._sizes, 1 << bits).take(hashes) >= least).nonzero()
        if not some.size:
            return None
        members = left.take(some)
        keys = self._boxes.keys(vector, members)
        order = keys.argsort()
        keys, members, some = keys.take(order), members.take(order), some.take(order)
        ends = np.append((keys[1:] != keys[:-1]).nonzero()[0] + 1, keys.size)
        starts = np.append(0, ends[:-1])
        in_box = np.add.reduceat(self._sizes.take(some), starts)
        (large,) = (in_box >= least).nonzero()
        if not large.size:
            return None
        starts = starts.take(large)
        costs = self._boxes.costs(vector, members.take(starts))
        found = Found(members, starts, ends.take(large) - starts, costs)
        return self._with_purity(found, in_box.take(large)) if self._purity else found

    def small_throughout(self, vectors: Rows, bits: int) -> Flags:
        """Return which vectors certainly have no large box; of the others some may have none, either."""
        shift = (np.arange(vectors.size) << bits)[:, None]
        hashes = self._boxes.all_hashes(vectors, self._left, bits) + shift
        weights = np.broadcast_to(self._sizes, hashes.shape).ravel()
        together = weighted_counts(hashes.ravel(), weights, vectors.size << bits)
        small: Flags = together.reshape(vectors.size, 1 << bits).max(axis=1) < self._least
        return small

    def histograms(self, found: Found) -> Histograms:
        """Return what is counted of each box; no records stand between them."""
        return tuple(
            np.add.reduceat(each[found.records], found.starts, axis=0) for each in self._records.counts
        )

    def remove(self, found: Found) -> Rows:
        """Let the records of boxes leave; return their numbers in the table."""
        stays = np.ones(self._numbers.size, bool)
        stays[found.records] = False
        stays = stays[self._left]
        numbers = self._numbers.take(found.records)
        self.n_rows -= int(self._records.sizes.take(found.records).sum())
        self._left, self._sizes = self._left[stays], self._sizes[stays]
        if self._left.size < _SPARSE * self._numbers.size:
            self._forget_others()
        return numbers

    def _forget_others(self) -> None:
        self._numbers, self._records = self._numbers[self._left], self._records.only(self._left)
        self._boxes.keep_only(self._left)
        self._left = np.arange(self._left.size)

    def _with_purity(self, found: Found, in_box: Counts) -> Found:
        """Return the boxes with what they cost more because they mix classes."""
        found = found.all()
        assert self._records.classes is not None
        classes = np.add.reduceat(self._records.classes[found.records], found.starts, axis=0)
        mixed = np.rint(self._purity * ONE * (1 - classes.max(axis=1) / in_box)).astype(np.int64)
        return replace(found, costs=found.costs + mixed)
