"""Blocks of records that are recoded apart from each other: those within the same boundaries, and not too many."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.anonymize.boundaries import rows_by_boundary, rows_by_label
from masquerade.anonymize.mondrian.axes import axes_of
from masquerade.anonymize.mondrian.judge import judge_of
from masquerade.anonymize.mondrian.method import by_certainty
from masquerade.anonymize.mondrian.partition import partition
from masquerade.anonymize.preparation import Prepared
from masquerade.data import Column
from masquerade.engine import Rows
from masquerade.privacy import GroupRequirement, KAnonymity


def blocks(columns: Sequence[Column], parts: Sequence[GroupRequirement], task: Prepared, least: int) -> list[Rows]:
    """Return the rows of each block.

    A table of at least twice `least` rows is cut by Mondrian, unless a requirement is not monotone; then every block
    that is cut off satisfies, and has at least so many.
    """
    if task.n_rows < 2 * least or not all(part.monotone for part in parts):
        return rows_by_boundary(columns, task.n_rows)
    large = KAnonymity([column.name for column in columns], least)
    judge = judge_of([*parts, large], task.sensitive, task.n_rows)
    cut = partition(axes_of(columns), judge, by_certainty, task.n_rows, False)
    return rows_by_label(cut.labels, cut.cells.shape[2])
