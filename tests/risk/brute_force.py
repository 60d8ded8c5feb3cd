"""Ratios, keys and masks by definition: every set of columns, every pair of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations

Columns = tuple[str, ...]
Cells = dict[str, list[str]]


def rows_of(cells: Cells, columns: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(cells[name] for name in columns), strict=True)) if columns else [()] * len(cells["a"])


def ratio(cells: Cells, columns: Sequence[str], measure: str) -> Fraction:
    rows = rows_of(cells, columns)
    if measure == "distinct":
        return Fraction(len(set(rows)), len(rows))
    pairs = list(combinations(rows, 2))
    return Fraction(sum(one != other for one, other in pairs), len(pairs)) if pairs else Fraction(1)


def sets(cells: Cells) -> Iterator[Columns]:
    """All sets of columns, the smaller ones first."""
    return chain.from_iterable(combinations(cells, size) for size in range(len(cells) + 1))


def is_key(cells: Cells, columns: Sequence[str]) -> bool:
    return len(set(rows_of(cells, columns))) == len(set(rows_of(cells, tuple(cells))))


def smallest_weight(cells: Cells, weights: dict[str, float]) -> float:
    return min(sum(weights[name] for name in each) for each in sets(cells) if is_key(cells, each))


def minimal(cells: Cells, measure: str, beta: Fraction, most: int) -> set[Columns]:
    found: set[Columns] = set()
    for each in sets(cells):
        contains = any(set(known) <= set(each) for known in found)
        if len(each) <= most and not contains and ratio(cells, each, measure) >= beta:
            found.add(each)
    return found
