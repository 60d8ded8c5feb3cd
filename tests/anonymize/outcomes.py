"""What methods make of a table, as the tests look at it."""

from __future__ import annotations

import pyarrow as pa

import masquerade as mq
from masquerade.data import Outcome
from strategies import SENSITIVE

Cell = tuple[int, int]


def cells_of(outcome: Outcome) -> list[tuple[Cell, ...]]:
    """Each row's cells as ranges of ranks."""
    columns = [[(int(column.lo[code]), int(column.hi[code])) for code in column.codes] for column in outcome.columns]
    return list(zip(*columns, strict=True))


def assert_holds_and_covers(outcome: Outcome, table: mq.Table, requirement: mq.Requirement) -> None:
    """Each part holds on the groups of its own QID, and cells cover what they were."""
    for column in outcome.columns:
        (raw,) = table.columns([column.name])
        assert (column.lo[column.codes] <= raw.ranks).all()
        assert (raw.ranks < column.hi[column.codes]).all()
    cells = {column.name: column.to_arrow() for column in outcome.columns}
    assert mq.verify(pa.table({**cells, SENSITIVE: table.arrow[SENSITIVE]}), requirement).holds
