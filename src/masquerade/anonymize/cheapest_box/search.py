"""The search: of all boxes that satisfy the requirement, make the cheapest a group, and go on without its records.

All vectors of levels wait in a heap by a lower bound on the cost of their cheapest box that satisfies. Records only
leave, so that cost only rises: a vector that is looked at either has the cheapest box still, or waits again with its
true cost. For requirements that every part of a violating group violates (k-anonymity), that is exactly cheapest box
first. For others a refused box may satisfy once some of its records have left: its vector waits again, further
back each time. Where classes count, a box costs more the less pure it is, which later departures may lower:
then the order is the cheapest at the time of looking.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.cheapest_box.groups import NONE
from masquerade.anonymize.cheapest_box.hopeless import Hopeless
from masquerade.anonymize.cheapest_box.levels import ONE
from masquerade.anonymize.cheapest_box.space import Boxes, Records
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.engine.counts import Counts, Flags, Rows, weighted_counts

_RETRY_FACTOR, _RETRY_STEP = 3, ONE // 50
_FEWEST_BITS, _MOST_BITS = 10, 16
_FEW = 1 << 10  # distinct records of a table so small that judging all boxes of a vector costs nothing


@dataclass(frozen=True, eq=False)
class Found:
    """The boxes of one vector that are large enough, with their records one after the other."""

    records: Rows
    starts: Counts
    costs: Counts

    @property
    def lengths(self) -> Counts:
        """The number of distinct records in each box."""
        return np.diff(np.append(self.starts, self.records.size))

    def only(self, boxes: Flags) -> Found:
        """Return the flagged boxes."""
        lengths = self.lengths
        kept = lengths[boxes]
        return Found(self.records[np.repeat(boxes, lengths)], np.cumsum(kept) - kept, self.costs[boxes])


def cheapest_boxes(records: Records, boxes: Boxes, judge: Judge, purity: float) -> tuple[Counts, int]:
    """Return each record's group, or NONE, and the number of groups."""
    heap = [(cost, vector) for vector, cost in enumerate(boxes.least_costs)]
    dearest = records.ranks.shape[0] * ONE
    heapq.heapify(heap)
    groups, n_groups = np.full(records.n, NONE), 0
    left, n_left = np.arange(records.n), int(records.sizes.sum())
    refused, hopeless = _RefusedBoxes(), Hopeless(records, boxes, judge.least)
    while heap and n_left >= judge.least:
        bound, vector = heapq.heappop(heap)
        if vector in hopeless:
            continue
        if (costs := refused.costs(vector)) is not None:  # nobody has left since, so all are refused again
            following = heap[0][0] if heap else costs[-1]
            if costs[0] > following:
                heapq.heappush(heap, (costs[0], vector))
                continue
            if (later := bisect_right(costs, following)) < len(costs):
                heapq.heappush(heap, (costs[later], vector))
            _wait(heap, max(bound, costs[0]), vector, dearest)
            continue
        found = _large_boxes(records, boxes, vector, left, judge.least, purity)
        if found is None:
            hopeless.note(vector, left)
            continue
        following = heap[0][0] if heap else int(found.costs.max())
        cheapest = int(found.costs.min())
        if cheapest > following:
            heapq.heappush(heap, (cheapest, vector))
            continue
        now = found.costs <= following
        if not now.all():
            heapq.heappush(heap, (int(found.costs[~now].min()), vector))
        chosen = found.only(now)
        if not judge.only_sizes:
            good = _satisfying(records, chosen, judge)
            if not good.all():
                _wait(heap, max(bound, int(chosen.costs[~good].min())), vector, dearest)
            if not good.any():
                if records.n <= _FEW and not _satisfying(records, found, judge).any():
                    refused.note(vector, found)
                continue
            chosen = chosen.only(good)
        place = np.argsort(np.argsort(chosen.costs, kind="stable"))  # groups are numbered cheapest first
        groups[chosen.records] = n_groups + np.repeat(place, chosen.lengths)
        n_groups += chosen.starts.size
        n_left -= int(records.sizes[chosen.records].sum())
        left = left[groups[left] == NONE]
        refused.forget()
    return groups, n_groups


class _RefusedBoxes:
    """Vectors whose boxes all violate, as long as nobody leaves: a small table has them looked at again and again."""

    def __init__(self) -> None:
        self._costs: dict[int, list[int]] = {}

    def note(self, vector: int, found: Found) -> None:
        """All boxes of this vector violate."""
        self._costs[vector] = sorted(found.costs.tolist())

    def costs(self, vector: int) -> list[int] | None:
        """Return what the vector's boxes cost, in order; None unless all of them are known to violate."""
        return self._costs.get(vector)

    def forget(self) -> None:
        """Records have left: what violated may satisfy."""
        self._costs.clear()


def _wait(heap: list[tuple[int, int]], cost: int, vector: int, dearest: int) -> None:
    """Let a vector with refused boxes wait again, further back; its dearest boxes do not come back."""
    if cost < dearest:
        heapq.heappush(heap, (cost * _RETRY_FACTOR + _RETRY_STEP, vector))


def _satisfying(records: Records, found: Found, judge: Judge) -> Flags:
    """Return which boxes satisfy every requirement."""
    return judge.holds(
        tuple(np.add.reduceat(each[found.records], found.starts, axis=0) for each in records.counts)
    )


def _large_boxes(
    records: Records, boxes: Boxes, vector: int, left: Rows, least: int, purity: float
) -> Found | None:
    """Return the boxes with at least `least` rows among the records that are left."""
    keys = boxes.keys(vector, left)
    # Most boxes are too small: a table of short hashes finds those that cannot be large, without sorting them.
    bits = max(_FEWEST_BITS, min(_MOST_BITS, left.size.bit_length() + 1))
    short = keys & ((1 << bits) - 1)
    sizes = records.sizes.take(left)
    some = np.flatnonzero(weighted_counts(short, sizes, 1 << bits).take(short) >= least)
    if not some.size:
        return None
    keys = keys.take(some)
    order = keys.argsort(kind="stable")
    keys, some = keys.take(order), some.take(order)
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    in_box = np.add.reduceat(sizes.take(some), starts)
    large = in_box >= least
    if not large.any():
        return None
    members = left.take(some)
    found = Found(members, starts, np.zeros(starts.size, np.int64)).only(large)
    costs = boxes.costs(vector, found.records[found.starts])
    if records.classes is not None and purity:
        classes = np.add.reduceat(records.classes[found.records], found.starts, axis=0)
        costs += np.rint(purity * ONE * (1 - classes.max(axis=1) / in_box[large])).astype(np.int64)
    return Found(found.records, found.starts, costs)
