"""The ways to look for a coalition that breaches a group: the m-privacy paper's five, and "exact", which is ours.

A check is one test of what one coalition leaves. Coalitions form a lattice: what a coalition cannot breach none of its
sub-coalitions can (downward pruning), what it can breach all of its super-coalitions can (upward pruning). So a group
is m-private when no coalition of exactly min(m, providers − 1) breaches. Whole layers are tested in one sweep, and
the checks reported are those of a search that stops at the first breach.

"exact" finds the worst coalition without trying all: a conjunction is m-private when each of its constraints is, so
each constraint is asked for its own worst coalition (`Constraint.worst_coalition`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts, distinct_rows
from masquerade.errors import ParameterError, hint
from masquerade.privacy.m_privacy import VERIFICATIONS
from masquerade.privacy.m_privacy.constraint import VERIFICATION_WEIGHT, BreachTest, Constraint, score
from masquerade.privacy.m_privacy.search import (
    SEARCH_SECONDS,
    Masks,
    MPrivacyOutcome,
    TooManyCoalitions,
    bits,
    everybody,
    first_breach,
    joined,
    members,
    of_size,
    single,
    within,
)

# --- group --------------------------------------------------------------------------------------------------
# One group of records by provider, and the test of many coalitions at once.


class ProviderGroup:
    """The counts of one group: for each constraint a matrix of providers × values.

    `providers` are the rows of the given matrices that have records; coalitions are made of those, numbered 0, 1, …
    """

    def __init__(self, constraints: Sequence[Constraint], matrices: Sequence[Counts]) -> None:
        self.providers = np.flatnonzero(matrices[0].sum(axis=1))
        self.constraints = tuple(constraints)
        self.matrices = tuple(matrix[self.providers] for matrix in matrices)
        self.n = int(self.providers.size)

    def power(self, m: int) -> int:
        """The size of the largest coalition: it attacks somebody else's records, so one provider is left."""
        return max(min(m, self.n - 1), 0)

    @cached_property
    def singles(self) -> Masks:
        """The mask of each provider alone."""
        return single(self.n)

    @cached_property
    def everybody(self) -> Masks:
        """The mask of all providers, one row."""
        return everybody(self.n)

    def breached(self, coalitions: Masks) -> NDArray[np.bool_]:
        """Which coalitions breach: they can leave records, not theirs alone, that violate a constraint."""
        bad = np.zeros(len(coalitions), bool)
        for test in self._tests:
            bad |= test(coalitions)
        return bad

    @cached_property
    def _tests(self) -> list[BreachTest]:
        return [
            constraint.breach_test(matrix) for constraint, matrix in zip(self.constraints, self.matrices, strict=True)
        ]


# --- strategies ---------------------------------------------------------------------------------------------

TOP_DOWN_FROM = 0.85  # providers of this average fitness (about 15 records each) are verified top-down
_MOST_COALITIONS = 1 << 22  # that a search may hold in memory
_MOST_ADAPTIVE = 1 << 16  # beyond, `exact` is faster by far


Strategy = Callable[[ProviderGroup, int], MPrivacyOutcome]


def affordable(group: ProviderGroup) -> int:
    """About how many coalitions of this group can be checked within `SEARCH_SECONDS`."""
    return int(SEARCH_SECONDS * 1e9 / sum(each.nanoseconds for each in group.constraints))


def direct(group: ProviderGroup, m: int) -> MPrivacyOutcome:
    """Every coalition of the largest size, in the order of the providers."""
    _refuse_too_many(group, group.power(m))
    return _check_in_order(group, of_size(group.singles, group.power(m)), 0)


def bottom_up(group: ProviderGroup, m: int) -> MPrivacyOutcome:
    """From outsiders up to the largest coalitions, the most powerful first, until one breaches."""
    strongest_first = group.singles[_by_power(group)[::-1]]
    outcome = MPrivacyOutcome(True, None, 0)
    _refuse_too_many(group, group.power(m))
    for size in range(group.power(m) + 1):
        outcome = _check_in_order(group, of_size(strongest_first, size), outcome.checks)
        if not outcome.private:
            break
    return outcome


def top_down(group: ProviderGroup, m: int, most: int = _MOST_COALITIONS) -> MPrivacyOutcome:
    """From all providers but one down: below a coalition that cannot breach, nobody needs a look."""
    size, checks, least = max(group.n - 1, 0), 0, group.power(m)
    most = min(most, affordable(group))
    order = _by_power(group)
    open_ = group.everybody ^ group.singles[order[::-1]] if group.n > 1 else joined(group.singles, ())
    while size > least:
        breaching = open_[group.breached(open_)]
        checks += len(open_)
        if not len(breaching):
            return MPrivacyOutcome(True, None, checks)
        open_ = _all_of_whose_supers(group, breaching, size, most)
        size -= 1
    power = bits(open_, group.n) @ _powers(group)
    return _check_in_order(group, [open_[np.argsort(-power, kind="stable")]], checks)


def binary(group: ProviderGroup, m: int, most: int = _MOST_COALITIONS) -> MPrivacyOutcome:
    """Between a large coalition that breaches and a small one that does not, halve the way: both prune.

    As corrected: a super-coalition that does not breach prunes all below it and the search goes on; when none of the
    largest is left to start from, the small ones that are still open are checked one by one.
    """
    least = group.power(m)
    if least >= group.n - 1:
        return direct(group, m)
    order = _by_power(group)
    _refuse_too_many(group, least, most)
    open_ = np.concatenate([*of_size(group.singles[order[::-1]], least)])
    breaching, checks = open_[:0], 0
    for removed in order[::-1]:  # the coalition without the most powerful provider is the weakest
        upper = group.everybody ^ group.singles[removed]
        if not len(open_):
            break
        if within(breaching, upper).any():
            continue
        checks += 1
        if not group.breached(upper)[0]:
            open_ = open_[~within(open_, upper)]
            continue
        below = np.flatnonzero(within(open_, upper))
        if not below.size:
            continue
        lower = open_[below[:1]]
        checks += 1
        if group.breached(lower)[0]:
            return MPrivacyOutcome(False, members(lower, group.n), checks)
        inside = set(members(lower, group.n))
        between = [int(each) for each in order if each != removed and each not in inside]  # the weakest first
        low, high = 0, len(between)  # so many of them: too few to breach, enough to breach
        while high - low > 1:
            middle = (low + high) // 2
            checks += 1
            if group.breached(lower | joined(group.singles, between[:middle]))[0]:
                high = middle
            else:
                low = middle
        breaching = np.concatenate([breaching, lower | joined(group.singles, between[:high])])
        open_ = open_[~within(open_, lower | joined(group.singles, between[:low]))]
    return _check_in_order(group, [open_], checks)


def adaptive(
    group: ProviderGroup, m: int, threshold: float = TOP_DOWN_FROM, alpha: float = VERIFICATION_WEIGHT
) -> MPrivacyOutcome:
    """Fit providers top-down, where whole layers will be pruned; the others by halves.

    Where that would take more coalitions than there is room for, without a search (`exact`).
    """
    fit = score(group.constraints, group.matrices, alpha).mean() >= threshold
    try:
        return (top_down if fit else binary)(group, m, _MOST_ADAPTIVE)
    except TooManyCoalitions:
        return exact(group, m)


def exact(group: ProviderGroup, m: int) -> MPrivacyOutcome:
    """Ask each constraint for its worst coalition; the verdict is the one that every search gives."""
    power = group.power(m)
    asked = zip(group.constraints, group.matrices, strict=True)
    return first_breach(constraint.worst_coalition(matrix, power) for constraint, matrix in asked)


STRATEGIES: Mapping[str, Strategy] = dict(
    zip(VERIFICATIONS, (direct, top_down, bottom_up, binary, adaptive, exact), strict=True)
)


def strategy_named(name: str) -> Strategy:
    """A way to verify, by the name that a job file gives it."""
    if name not in STRATEGIES:
        known = ", ".join(f'"{each}"' for each in STRATEGIES)
        raise ParameterError(f"verification: must be one of {known}; got {name!r}{hint(str(name), STRATEGIES)}")
    return STRATEGIES[name]


def _check_in_order(group: ProviderGroup, blocks: Iterable[Masks], checks: int) -> MPrivacyOutcome:
    """Check coalitions in their order; `checks` were made before."""
    for block in blocks:
        bad = group.breached(block)
        if bad.any():
            first = int(np.argmax(bad))
            return MPrivacyOutcome(False, members(block[first], group.n), checks + first + 1)
        checks += len(block)
    return MPrivacyOutcome(True, None, checks)


def _powers(group: ProviderGroup) -> NDArray[np.float64]:
    """The attack power of each provider: the fitness of its own records, which it can take out."""
    return score(group.constraints, group.matrices)


def _by_power(group: ProviderGroup) -> NDArray[np.intp]:
    """The providers, the weakest first."""
    return np.argsort(_powers(group), kind="stable")


def _all_of_whose_supers(group: ProviderGroup, breaching: Masks, size: int, most: int) -> Masks:
    """The coalitions one smaller than `size` whose direct super-coalitions all breach: no other needs a check."""
    if len(breaching) == math.comb(group.n, size):
        _refuse_too_many(group, size - 1, most)
        return np.concatenate([*of_size(group.singles, size - 1)])
    if len(breaching) * size > 4 * most:
        raise _too_many(group)
    held = bits(breaching, group.n).astype(bool)
    smaller = np.concatenate([breaching[held[:, provider]] ^ group.singles[provider] for provider in range(group.n)])
    found, times = distinct_rows(smaller)
    needed: Masks = found[times == group.n - size + 1]
    return needed


def _refuse_too_many(group: ProviderGroup, size: int, most: int | None = None) -> None:
    allowed = affordable(group)
    if math.comb(group.n, size) > (allowed if most is None else min(allowed, most)):
        raise _too_many(group)


def _too_many(group: ProviderGroup) -> TooManyCoalitions:
    return TooManyCoalitions(
        f"m-privacy: a group of {group.n} providers has too many coalitions to be searched one by one; "
        'use verification = "exact"'
    )
