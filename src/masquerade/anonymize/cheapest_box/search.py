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

import numpy as np

from masquerade.anonymize.cheapest_box.groups import NONE
from masquerade.anonymize.cheapest_box.hopeless import Hopeless
from masquerade.anonymize.cheapest_box.levels import ONE
from masquerade.anonymize.cheapest_box.remaining import Found, Remaining
from masquerade.anonymize.cheapest_box.space import Boxes, Records
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.engine.counts import Counts

_RETRY_FACTOR, _RETRY_STEP = 3, ONE // 50
_FEW = 1 << 10  # distinct records of a table so small that judging all boxes of a vector costs nothing


def cheapest_boxes(records: Records, boxes: Boxes, judge: Judge, purity: float) -> tuple[Counts, int]:
    """Return each record's group, or NONE, and the number of groups."""
    heap = [(cost, vector) for vector, cost in enumerate(boxes.least_costs)]
    dearest = records.ranks.shape[0] * ONE
    heapq.heapify(heap)
    groups, n_groups = np.full(records.n, NONE), 0
    remaining = Remaining(records, boxes, judge.least, purity)
    refused, hopeless = _RefusedBoxes(), Hopeless(boxes.n_vectors)
    while heap and remaining.n_rows >= judge.least:
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
        found = remaining.large_boxes(vector)
        if found is None:
            hopeless.note(vector, remaining)
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
            good = judge.holds(remaining.histograms(chosen))
            if not good.all():
                _wait(heap, max(bound, int(chosen.costs[~good].min())), vector, dearest)
            if not good.any():
                if records.n <= _FEW and not judge.holds(remaining.histograms(found.all())).any():
                    refused.note(vector, found)
                continue
            chosen = chosen.only(good)
        place = chosen.costs.argsort(kind="stable").argsort()  # groups are numbered cheapest first
        groups[remaining.remove(chosen)] = n_groups + place.repeat(chosen.lengths)
        n_groups += chosen.starts.size
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
