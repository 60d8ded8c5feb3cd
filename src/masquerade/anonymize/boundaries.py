"""Where methods start that keep to boundaries: every value at its maximal allowed generalisation, and no further.

That table is the **maximum allowed microdata** (MAM, Definition 9 of constrained k-anonymity). Every group of a release
within the boundaries lies in one of its groups (Property 1). So a group of it that has fewer than k records cannot be
released at all, and together these are OUT, which is exactly what must be suppressed for k-anonymity (Properties 4 to
6). Of the other requirements, a group of the MAM that violates is left out as a whole by the methods that cut groups or
generalise columns: at least one part of it would violate, however it is cut. Clustering may save a part of it
(`k_member/`), unless the requirement is hereditary: then no part satisfies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from masquerade.data.boundary import Boundary
from masquerade.data.column import Coded, Column
from masquerade.engine.counts import Counts, Ints, Rows, value_counts
from masquerade.engine.numbering import group_rows, rows_by_rank
from masquerade.privacy.requirement import GroupRequirement


def start_groups(
    columns: Sequence[Column], n_rows: int, *, whole_columns: bool = False
) -> tuple[Counts, int]:
    """Return each row's group of the MAM over these columns, and the number of groups; without boundaries, one.

    With `whole_columns` values are generalised alike for all records, as far as their boundaries allow.
    """
    return group_rows(
        [
            boundary_codes(column, whole_columns=whole_columns)
            for column in columns
            if column.boundary is not None
        ],
        n_rows,
    )


def rows_by_boundary(columns: Sequence[Column], n_rows: int) -> list[Rows]:
    """Return the rows of each group of the MAM over these columns."""
    return rows_by_label(*start_groups(columns, n_rows))


def rows_by_label(labels: Counts, n_labels: int) -> list[Rows]:
    """Return the rows of each label."""
    return np.split(rows_by_rank(labels, n_labels), np.cumsum(value_counts(labels, n_labels))[:-1])


def boundary_codes(column: Column, *, whole_columns: bool = False) -> tuple[Ints, int]:
    """Return the number of each row's most general allowed value, from left to right, and how many there are."""
    assert column.boundary is not None
    code_of_rank, size = boundary_code_of_rank(column.boundary, whole_columns=whole_columns)
    return code_of_rank.take(column.ranks), size


def boundary_code_of_rank(boundary: Boundary, *, whole_columns: bool = False) -> tuple[Ints, int]:
    """Return the number of each rank's most general allowed value, and how many there are."""
    if not whole_columns:
        return boundary.codes, max(boundary.size, 1)
    lengths = np.diff(np.append(boundary.cut, boundary.domain.size))
    return np.repeat(np.arange(boundary.cut.size), lengths), boundary.cut.size


def reachable_rows(
    parts: Sequence[GroupRequirement],
    columns: Sequence[Column],
    sensitive: Mapping[str, Coded],
    n_rows: int,
    *,
    whole_columns: bool = False,
) -> Rows:
    """Return the rows whose groups of the MAM satisfy, over the QID of every requirement.

    Records that are left out are missing in other groups and in the whole table, so all are judged again, until nobody
    has to leave. For k-anonymity over one QID nobody has to after the first round: those are OUT.
    """
    rows = np.arange(n_rows)
    starts = {
        part.qid: start_groups(
            [column for column in columns if column.name in part.qid], n_rows, whole_columns=whole_columns
        )
        for part in parts
    }
    while rows.size:
        good = np.ones(rows.size, bool)
        for part in parts:
            labels, n_groups = group_rows([(starts[part.qid][0].take(rows), starts[part.qid][1])], rows.size)
            if part.sensitive is None:
                sizes = value_counts(labels, n_groups).reshape(-1, 1)
                holds = part.holds(sizes, np.array([[rows.size]]), ())
            else:
                coded = sensitive[part.sensitive].of_rows(rows)
                holds = part.holds(coded.histograms(labels, n_groups), coded.histogram(), coded.labels)
            good &= holds[labels]
        if good.all():
            break
        rows = rows[good]
    return rows
