"""One group of records by provider, and the test of many coalitions at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.m_privacy.constraint import BreachTest, Constraint
from masquerade.privacy.m_privacy.search import Masks, everybody, single


class Group:
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
            constraint.breach_test(matrix)
            for constraint, matrix in zip(self.constraints, self.matrices, strict=True)
        ]
