"""Missing numbers: each is the mean of what all parties have in its column.

Where the parties have different records, the means come of sums over all of them (`aggregate.py`), which are opened;
where they have different columns, each finds its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Table
from masquerade.errors import DataError
from masquerade.net.script import Script
from masquerade.protocol.learn.aggregate import Openings, prepare_aggregation
from masquerade.protocol.learn.models.model import Numbers
from masquerade.protocol.learn.numbers import cells_of


def filled(
    table: Table,
    names: list[str],
    me: int,
    parties: tuple[str, ...],
    purpose: bytes,
    *,
    pooled: bool,
    openings: Openings | None = None,
) -> Script[Table]:
    """Return the table with its missing numbers filled in; `pooled`: by the means of all parties' records."""
    columns = [cells_of(table, name) for name in names]
    known = np.array([[np.nansum(column), np.count_nonzero(~np.isnan(column))] for column in columns])
    if pooled and len(parties) > 1:
        sums = yield from prepare_aggregation(me, parties, purpose, openings)
        known = (yield from sums.total(known.ravel())).reshape(-1, 2)
    for name, (_, count) in zip(names, known, strict=True):
        if round(count) == 0:
            raise DataError(f"attribute {name}: nobody has a number, so there is no mean")
    arrow = table.arrow
    for name, column, (total, count) in zip(names, columns, known, strict=True):
        whole: Numbers = np.where(np.isnan(column), total / count, column)
        arrow = arrow.set_column(arrow.column_names.index(name), name, pa.array(whole))
    plain = [Attribute(each.name, "continuous") if each.name in names else each for each in table.schema]
    return Table(arrow, Schema(plain), origin=table.origin)
