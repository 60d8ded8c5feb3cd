"""Query error: the error of counts estimated from a release instead of its original (m-privacy, §V.C).

A query counts the records that satisfy all of its predicates, each a range of leaf ranks of one attribute.
The release answers as if the records of a generalised cell were spread evenly over its **ranks**: the leaves
of a taxonomy, the distinct values of a number. So categories and numbers are treated alike, and no
width need be guessed for the open outer intervals.

The same code answers queries on the original, as a release that generalises nothing.

Where no one has all originals, each holder measures its own columns, or its own records, and tells one coarse figure
(`holders_error`); a query over columns of two parties would need counts that neither may see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts, Ints, group_rows, value_counts, weighted_counts
from masquerade.errors import ParameterError
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import FEWEST_RECORDS

_FLOOR = 0.001  # of the rows: the least denominator of a relative error
_SHARES_AT_A_TIME = 1 << 16  # of groups in queries, which are answered together while they fit
_DECIMALS = 4  # of what is published
HOLDERS_UNIT = 100  # a holder tells its error in hundredths
MOST_ERROR = round(HOLDERS_UNIT / _FLOOR)  # in that unit: all records, where there is none
_HOLDERS_QUERIES = 500
_SEED = 7


Shares = NDArray[np.float64]


class Predicate(NamedTuple):
    """The condition that the attribute at a position has a rank in `[lo, hi)`."""

    attribute: int
    lo: int
    hi: int


Query = tuple[Predicate, ...]


@dataclass(frozen=True)
class QueryError:
    """A summary of the relative errors |estimate − true| / max(true, 0.1 % of the rows) of many queries."""

    mean: float
    median: float | None  # None: only means were told
    queries: int
    over: str | None = None  # what each query asks about, where not about all attributes of all records

    def summary(self) -> dict[str, float | int | str | None]:
        """Return the entry of a JSON summary."""
        told = {"queries": self.queries, "mean": self.mean, "median": self.median}
        return told | ({"over": self.over} if self.over is not None else {})


def query_error(comparison: Comparison, n_queries: int = 2500, seed: int = _SEED) -> QueryError:
    """Measure the error of random queries; suppressed rows count in the true answers but in no estimate."""
    sizes = [column.domain.size for column in comparison.originals]
    queries = random_queries(sizes, n_queries, seed)
    return _error(*answers(comparison, queries), comparison.rows)


def answers(comparison: Comparison, queries: Sequence[Query]) -> tuple[Shares, Shares]:
    """Answer each query on the original, and estimate it from the release; both add up over chunks of rows."""
    return true_answers(comparison, queries), estimated_answers(comparison, queries)


def _error(true: Shares, estimates: Shares, rows: int) -> QueryError:
    errors = np.abs(estimates - true) / np.maximum(true, _FLOOR * max(rows, 1))
    mean, median = (round(float(each), _DECIMALS) for each in (errors.mean(), np.median(errors)))
    return QueryError(mean, median, true.size)


def holders_error(comparison: Comparison) -> int | None:
    """Return the mean error over one holder's columns and records, in whole hundredths: nothing finer leaves it.

    None without columns, or with so few records that the figure might tell one of them.
    """
    queries = queries_of_holder(comparison)
    return None if queries is None else error_of_holder(*answers(comparison, queries), comparison.rows)


def queries_of_holder(comparison: Comparison) -> list[Query] | None:
    """Return the queries by which a holder measures its error; None where it must not tell it."""
    if not comparison.originals or comparison.rows < FEWEST_RECORDS:
        return None
    return random_queries([column.domain.size for column in comparison.originals], _HOLDERS_QUERIES, _SEED)


def error_of_holder(true: Shares, estimates: Shares, rows: int) -> int:
    """Return the error in whole hundredths, given the answers of all queries."""
    return round(HOLDERS_UNIT * _error(true, estimates, rows).mean)


def joined_error(told: Sequence[int | None], weights: Sequence[int], over: str) -> QueryError | None:
    """Return the weighted mean of the holders' figures; None unless all of them gave one."""
    known = [each for each in told if each is not None]
    if not known or len(known) < len(told):
        return None
    mean = float(np.average(known, weights=weights)) / HOLDERS_UNIT
    return QueryError(round(mean, _DECIMALS), None, len(known) * _HOLDERS_QUERIES, over)


def random_queries(sizes: Sequence[int], n_queries: int, seed: int) -> list[Query]:
    """Draw queries of 2 to max(2, q // 2) predicates on distinct attributes, given the q attributes' `sizes`.

    A single attribute gets one predicate. A predicate's first and last rank are drawn uniformly.
    """
    if not sizes:
        raise ParameterError("query error: there is no QID attribute to query")
    if n_queries < 1:
        raise ParameterError(f"The n_queries parameter must be a whole number of at least 1. Got {n_queries} instead.")
    return list(_drawn(tuple(sizes), n_queries, seed))


@lru_cache(maxsize=4)  # several releases of one table are asked the same queries
def _drawn(sizes: tuple[int, ...], n_queries: int, seed: int) -> tuple[Query, ...]:
    random = np.random.default_rng(seed)
    most = max(2, len(sizes) // 2)
    queries = []
    for _ in range(n_queries):
        length = min(int(random.integers(2, most + 1)), len(sizes))
        query = []
        for attribute in random.permutation(len(sizes))[:length].tolist():
            one, other = random.integers(0, sizes[attribute], 2).tolist()
            query.append(Predicate(attribute, min(one, other), max(one, other) + 1))
        queries.append(tuple(query))
    return tuple(queries)


def true_answers(comparison: Comparison, queries: Sequence[Query]) -> NDArray[np.float64]:
    """Answer each query on the original."""
    columns: list[tuple[Ints, int]] = [(column.ranks, column.domain.size) for column in comparison.originals]
    groups, n_groups = group_rows(columns, comparison.rows)
    cells = []
    for ranks, size in columns:
        starts = np.arange(size)
        cells.append(_Cells(_of_groups(ranks, groups, n_groups), starts, starts + 1))
    return _answers(cells, value_counts(groups, n_groups), queries)


def estimated_answers(comparison: Comparison, queries: Sequence[Query]) -> NDArray[np.float64]:
    """Estimate each query from the release, spreading records evenly over the ranks of their cells."""
    sizes = comparison.group_sizes
    cells = [
        _Cells(_of_groups(column.codes, comparison.groups, sizes.size), column.lo, column.hi)
        for column in comparison.released
    ]
    return _answers(cells, sizes, queries)


@dataclass(frozen=True)
class _Cells:
    """One attribute of every group: its code, and each code's ranks."""

    codes: Ints
    lo: Counts
    hi: Counts

    def inside(self, lo: Counts, hi: Counts) -> NDArray[np.float64]:
        """Return the share of each code's ranks that is in each range: a row a range, a column a code."""
        overlap = np.minimum(self.hi, hi[:, None]) - np.maximum(self.lo, lo[:, None])
        share: NDArray[np.float64] = np.maximum(overlap, 0) / (self.hi - self.lo)
        return share


def _of_groups(codes: Ints, groups: Counts, n_groups: int) -> Ints:
    """Return each group's code, which all its rows share."""
    shared = np.zeros(n_groups, codes.dtype)
    shared[groups] = codes
    return shared


def _answers(cells: Sequence[_Cells], sizes: Counts, queries: Sequence[Query]) -> NDArray[np.float64]:
    """Return Σ over groups of size · Π over predicates of the share inside.

    Queries on the same attributes are answered together, from the far fewer groups that these
    attributes alone form.
    """
    asked: dict[tuple[int, ...], list[int]] = {}
    for position, query in enumerate(queries):
        asked.setdefault(tuple(sorted(each.attribute for each in query)), []).append(position)
    answers = np.zeros(len(queries))
    for attributes, positions in asked.items():
        # The groups that these attributes alone form.
        asked_of = [cells[each] for each in attributes]
        groups, n_groups = group_rows([(cell.codes, cell.lo.size) for cell in asked_of], sizes.size)
        totals = weighted_counts(groups, sizes, n_groups)
        merged = [_Cells(_of_groups(cell.codes, groups, n_groups), cell.lo, cell.hi) for cell in asked_of]
        ranges = np.array([[each[1:] for each in sorted(queries[position])] for position in positions])
        step = max(1, _SHARES_AT_A_TIME // max(1, totals.size))
        for start in range(0, len(positions), step):
            some = slice(start, start + step)
            answers[positions[some]] = _counted(merged, totals, ranges[some])
    return answers


def _counted(cells: Sequence[_Cells], sizes: NDArray[np.float64], ranges: Counts) -> NDArray[np.float64]:
    """Return the answer of each query, given its range of ranks for each attribute."""
    expected = sizes[None]
    hit: NDArray[np.intp] | slice = slice(None)  # groups that can still contribute to some query
    for cell, (lo, hi) in zip(cells, ranges.transpose(1, 2, 0), strict=True):
        expected = expected * cell.inside(lo, hi)[:, cell.codes[hit]]
        some = np.flatnonzero(expected.any(axis=0))
        expected = expected[:, some]
        hit = some if isinstance(hit, slice) else hit[some]
    answers: NDArray[np.float64] = expected.sum(axis=1)
    return answers
