"""The lightest set of columns that has a column of each of several sets: branch and bound.

Sets are bit masks. The search takes an unhit set with fewest columns and tries each of them; below a bound it gives
up: no solution is lighter than the cheapest columns of sets that share no column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from masquerade.errors import AnswerIsNo

_MOST_NODES = 300_000  # some tens of seconds


def minimal_sets(sets: Iterable[int]) -> list[int]:
    """Drop each set that contains another one: hitting that one hits it, too."""
    kept = list[int]()
    for each in sorted(set(sets), key=int.bit_count):
        if not any(other & each == other for other in kept):
            kept.append(each)
    return kept


def columns_of(mask: int) -> list[int]:
    """The columns of a set, in ascending order."""
    return [at for at in range(mask.bit_length()) if mask >> at & 1]


def lightest_hitting_set(sets: Sequence[int], weights: Sequence[float], above: float = float("inf")) -> int:
    """Return the lightest mask that meets all sets, which must be minimal; it weighs less than `above`, or is 0.

    Raise AnswerIsNo where the search takes too long.
    """
    search = _Search(weights, above)
    search.run(list(sets), 0, 0.0, 0)
    return search.best


class _Search:
    def __init__(self, weights: Sequence[float], above: float) -> None:
        self.weights, self.weight = weights, above
        self.best, self.nodes = 0, 0

    def run(self, unhit: list[int], chosen: int, weight: float, barred: int) -> None:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise AnswerIsNo(
                "the search for the smallest key takes too long on this table; the greedy one, without --exact, "
                "gives a key that is usually as small"
            )
        if not unhit:
            self.best, self.weight = chosen, weight
            return
        left = [each & ~barred for each in unhit]
        if weight + self._at_least(left) >= self.weight:
            return
        branch = min(left, key=int.bit_count)
        # A column that several unhit sets have is tried first; those tried before need not be tried again below.
        often = {column: sum(each >> column & 1 for each in left) for column in columns_of(branch)}
        for column in sorted(often, key=lambda each: (self.weights[each] / often[each], each)):
            bit = 1 << column
            rest = [each for each in unhit if not each & bit]
            if weight + self.weights[column] < self.weight:
                self.run(rest, chosen | bit, weight + self.weights[column], barred)
            barred |= bit

    def _at_least(self, sets: list[int]) -> float:
        """The weight of the cheapest columns of sets that share none; infinite if a set has no column left."""
        total, used = 0.0, 0
        for each in sorted(sets, key=int.bit_count):
            if not each:
                return float("inf")
            if not each & used:
                used |= each
                total += min(self.weights[column] for column in columns_of(each))
        return total
