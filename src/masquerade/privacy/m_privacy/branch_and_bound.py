"""The worst coalition by branch and bound over providers: for constraints without a way of their own to find it.

Provider by provider, the largest first: it colludes, or it stays. What any coalition of a branch leaves is at least
the records of those who stay and, of each value by itself, the fewest that the undecided can leave. More records left
are a smaller box (`constraint`), so where this bound satisfies, nobody of the whole branch breaches; where nothing is
undecided any more it is what the coalition leaves. A check is one branch.

How long a branch takes depends on how near it is to the limit, so patience is measured by the clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.m_privacy.outcome import SEARCH_SECONDS, Outcome, TooManyCoalitions
from masquerade.privacy.requirement import plural

if TYPE_CHECKING:
    from masquerade.privacy.m_privacy.constraint import Constraint

_AT_A_TIME = 1 << 10  # branches of one length


def branch_and_bound(constraint: Constraint, matrix: Counts, power: int) -> Outcome:
    """Whether some `power` of the providers (rows, fewer than all) breach; smaller coalitions do less."""
    order = np.argsort(-matrix.sum(axis=1), kind="stable")
    rows = matrix[order]
    total = rows.sum(axis=0, keepdims=True)
    fewest = _fewest(rows, power)
    n, checks, started = len(rows), 0, time.thread_time()

    def insist_on_time() -> None:
        if time.thread_time() - started > SEARCH_SECONDS:
            raise TooManyCoalitions(
                f"m-privacy of {constraint.part.model}: {plural(n, 'provider')} in one group have too many coalitions "
                "to be searched in a minute; use alpha-k-anonymity or l-diversity instead, or a smaller m"
            )

    # Branches: how many providers are decided, the records of those who stay, how many may collude yet, who does.
    waiting = [(0, np.zeros_like(total), np.array([power]), np.zeros((1, n), bool))]
    while waiting:
        depth, kept, left, colluding = waiting.pop()
        checks += len(kept)
        rest = kept + fewest[depth, left]
        sure = rest.any(axis=1)  # nothing is left by no coalition: the bound is too low
        sure[sure] = constraint.surely_holds_between(rest[sure], total)
        decided = (left == 0) | (left == n - depth)
        for end in np.flatnonzero(decided & ~sure):
            insist_on_time()
            if not constraint.holds_between(rest[end : end + 1], total)[0]:
                colluding[end, depth:] = left[end] > 0
                return Outcome(False, tuple(sorted(order[colluding[end]].tolist())), checks)
        insist_on_time()
        bad = np.flatnonzero(~decided & ~sure)
        joining = colluding[bad]
        joining[:, depth] = True
        kept = np.concatenate([kept[bad], kept[bad] + rows[depth : depth + 1]])
        left = np.concatenate([left[bad] - 1, left[bad]])
        colluding = np.concatenate([joining, colluding[bad]])
        for at in reversed(range(0, len(kept), _AT_A_TIME)):  # those who collude are taken first
            some = slice(at, at + _AT_A_TIME)
            waiting.append((depth + 1, kept[some], left[some], colluding[some]))
    return Outcome(True, None, checks)


def _fewest(rows: Counts, power: int) -> NDArray[np.int64]:
    """[d, c]: the fewest records of each value that the providers from d on leave, if c of them collude."""
    n, n_values = rows.shape
    fewest = np.zeros((n + 1, power + 1, n_values), np.int64)
    for first in range(n):
        sums = np.cumsum(np.sort(rows[first:], axis=0), axis=0)  # of the 1, 2, … smallest
        for colluding in range(min(power, n - first - 1) + 1):
            fewest[first, colluding] = sums[n - first - colluding - 1]
    return fewest
