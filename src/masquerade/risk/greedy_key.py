"""The greedy minimum key: take the column that tells most further pairs apart, until enough is told apart.

Set cover's greedy algorithm, with its bound: at most 1 + ln(pairs) times as many columns as the smallest key (§2.2 of
the paper). With weights it takes the column with most further pairs for its weight. A column never adds more than it
added before, so the gain it had when it was last counted is a bound, and most columns need no new count. At the end,
columns that later ones made superfluous are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from masquerade.risk.separation import Extent, Separation

Enough = Callable[[Extent], bool]


def greedy_key(
    separation: Separation, columns: Sequence[int], enough: Enough, weights: Sequence[float]
) -> tuple[int, ...] | None:
    """Return the columns chosen, in their order of choice, or None if all together are not enough."""
    start, key = separation, list[int]()
    bounds = dict.fromkeys(columns, float("inf"))
    while not enough(separation.extent):
        best = _best(separation, bounds, weights)
        if best is None:
            return None
        key.append(best)
        del bounds[best]
        separation = separation.refined(best)
    return _without_superfluous(start, key, enough)


def _best(separation: Separation, bounds: dict[int, float], weights: Sequence[float]) -> int | None:
    """Return the column with most new pairs for its weight, the first of equals; update the bounds of those tried."""
    told_apart = separation.extent.pairs
    best: tuple[float, int] | None = None
    for bound, column in sorted((-bounds[column], column) for column in bounds):
        if best is not None and best <= (bound, column):
            break
        bounds[column] = (separation.extent_with(column).pairs - told_apart) / weights[column]
        if bounds[column] > 0:
            found = (-bounds[column], column)
            best = found if best is None else min(best, found)
    return None if best is None else best[1]


def _without_superfluous(start: Separation, key: list[int], enough: Enough) -> tuple[int, ...]:
    """Drop each column, the last chosen first, without which the others are still enough."""
    kept = list(key)
    for column in reversed(key[:-1]):  # without the last one it was not enough
        rest = start
        for each in kept:
            if each != column:
                rest = rest.refined(each)
        if enough(rest.extent):
            kept.remove(column)
    return tuple(kept)
