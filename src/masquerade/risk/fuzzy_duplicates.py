"""Fuzzy duplicates: rows that are probably one thing, written twice.

Somebody who has looked at a few rows knows about how many are doubles. If a quasi-identifier tells just so many rows
apart as there are different things, rows that agree on it are probably doubles, whatever else they differ in.
"""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.all_keys import minimal_quasi_identifiers
from masquerade.risk.separation import CodedRows, SeparatedRows
from masquerade.risk.targets import at_most


@dataclass(frozen=True)
class FuzzyDuplicates:
    """The quasi-identifier, its distinct ratio, and the groups of rows (from 1) that agree on it."""

    columns: tuple[str, ...]
    ratio: float
    groups: tuple[tuple[int, ...], ...]


def fuzzy_duplicates(table: CodedRows, rate: float, max_size: int = 3) -> FuzzyDuplicates:
    """Find the rows that collide on the minimal quasi-identifier whose distinct ratio is closest above 1 − `rate`."""
    if not 0 < rate < 1:
        raise ParameterError(f"rate must be above 0 and below 1; got {rate}")
    goal = table.rows - at_most(rate, table.whole, "distinct")  # as 1 - 0.7 is above 0.3
    found = min(
        minimal_quasi_identifiers(SeparatedRows.of(table), table.width, "distinct", goal, max_size),
        key=lambda each: (each.extent.groups, len(each.columns), each.columns),
        default=None,
    )
    if found is None:
        raise AnswerIsNo(f"no {max_size} columns or fewer tell {1 - rate:.4g} of the rows apart")
    alike = SeparatedRows.of(table, found.columns).alike
    groups = [tuple(int(row) + 1 for row in each) for each in alike]
    return FuzzyDuplicates(
        tuple(table.names[at] for at in found.columns),
        found.extent.groups / table.rows,
        tuple(sorted(groups)),
    )
