"""Masking: the columns that may be published together, so that none of their subsets is a quasi-identifier.

The greedy heuristic of §3 of the paper: publish the column that adds least to what is told apart (for its weight, the
utility of publishing it), while the ratio of all that is published is at most β. A set of columns never tells fewer
apart than it did with fewer columns, so what a column reached when it was last counted is a bound, and most columns
need no new count; one that did not fit once never will.
"""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.risk.separation import Measure, Separation


def publishable(
    separation: Separation, columns: Sequence[int], measure: Measure, limit: float, weights: Sequence[float]
) -> tuple[int, ...]:
    """Return the columns to publish, in their order of choice; groups or pairs told apart stay at most `limit`.

    What the columns chosen before separate counts, too.
    """
    published = list[int]()
    reached = dict.fromkeys(columns, 0)  # what each would reach, as last counted: it reaches no less now
    while (best := _least(separation, reached, measure, limit, weights)) is not None:
        published.append(best)
        del reached[best]
        separation = separation.refined(best)
    return tuple(published)


def _least(
    separation: Separation, reached: dict[int, int], measure: Measure, limit: float, weights: Sequence[float]
) -> int | None:
    """Return the column that adds least for its weight and fits, the first of equals; forget those that do not fit."""
    already = separation.extent.of(measure)
    best: tuple[float, int] | None = None
    order = sorted(
        (max(0.0, (at_least - already) / weights[each]), each) for each, at_least in reached.items()
    )
    for bound, column in order:
        if best is not None and best <= (bound, column):
            break
        reached[column] = separation.extent_with(column).of(measure)
        if reached[column] > limit:
            del reached[column]
            continue
        found = ((reached[column] - already) / weights[column], column)
        best = found if best is None else min(best, found)
    return None if best is None else best[1]
