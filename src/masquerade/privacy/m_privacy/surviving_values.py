"""The worst coalition against distinct ℓ-diversity: can few enough providers leave fewer than ℓ values?

Fewer than ℓ values remain when a set S of at most ℓ − 1 values survives and everybody who holds any other value is in
the coalition. So a provider either survives, and all of its values are in S, or it colludes. Providers with the same
values do the same. Branch on the most frequent kind of provider: it survives (S grows, and takes other providers in)
or all of them collude (the coalition grows by that many). S can grow ℓ − 1 times and the coalition m times, so
the tree has at most C(m + ℓ − 1, ℓ − 1) leaves however many providers and values there are: 286 for m = 10 and ℓ = 4.

Two bounds cut it further. Providers with more values than S has room for must collude. And r more values in S save at
most the providers on the r best values, where a provider counts on each of its missing values with an equal part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts

ROUNDING = 1e-9  # what sums of fractions can be off by

Values = int  # a set of values as bits


def value_sets(matrix: Counts) -> list[Values]:
    """The values that each provider has, of a providers × values matrix."""
    packed: NDArray[np.uint8] = np.packbits(matrix > 0, axis=1, bitorder="little")
    return [int.from_bytes(row, "little") for row in packed.view(f"V{packed.shape[1]}").ravel().tolist()]


def worst_coalition(matrix: Counts, l: int, power: int) -> tuple[tuple[int, ...] | None, int]:  # noqa: E741 # the papers' name
    """At most `power` providers without whom fewer than l values remain, if there are, and the nodes searched.

    `power` must be below the number of providers, so that somebody's records remain.
    """
    held = value_sets(matrix)
    search = _Search()
    surviving = search.surviving(Counter(held), l - 1, power)
    if surviving is None:
        return None, search.nodes
    return tuple(at for at, values in enumerate(held) if values & ~surviving), search.nodes


class _Search:
    def __init__(self) -> None:
        self.nodes = 0

    def surviving(self, kinds: Mapping[Values, int], room: int, budget: int) -> Values | None:
        """A set of at most `room` values outside which at most `budget` providers hold any.

        `kinds` are the values that providers have and S lacks, with the number of such providers.
        """
        self.nodes += 1
        budget -= sum(times for values, times in kinds.items() if values.bit_count() > room)
        if budget < 0:
            return None
        undecided = {values: times for values, times in kinds.items() if 0 < values.bit_count() <= room}
        if sum(undecided.values()) <= budget:
            return 0
        if sum(undecided.values()) - _most_saved(undecided, room) > budget + ROUNDING:
            return None
        frequent = max(undecided, key=undecided.__getitem__)
        merged: Counter[Values] = Counter()
        for values, times in undecided.items():
            merged[values & ~frequent] += times
        found = self.surviving(merged, room - frequent.bit_count(), budget)
        if found is not None:
            return found | frequent
        times = undecided.pop(frequent)
        return self.surviving(undecided, room, budget - times) if times <= budget else None


def _most_saved(kinds: Mapping[Values, int], room: int) -> float:
    """At least as many providers as `room` more values can save."""
    worth: Counter[int] = Counter()
    for values, times in kinds.items():
        share = times / values.bit_count()
        while values:
            lowest = values & -values
            worth[lowest] += share  # type: ignore[assignment] # a part of a provider
            values ^= lowest
    return sum(sorted(worth.values(), reverse=True)[:room])
