"""A party's columns as numbers: numbers and dates as they are, categories as 0 and 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from masquerade.data.continuum import Continuum
from masquerade.data.encode import encode
from masquerade.data.schema import Attribute
from masquerade.data.table import Table
from masquerade.protocol.learn.models.model import Numbers


def cells_of(table: Table, name: str) -> Numbers:
    """Return a column of numbers, or of dates as days; a missing cell is NaN, where the table keeps such."""
    attribute = table.schema[name] if name in table.schema else Attribute(name, "continuous")
    plain = replace(attribute, taxonomy=None, max_generalization=(), max_width=None)
    column = encode(plain, table.cells(name), table.problem, keep_missing=table.keeps_missing)
    assert isinstance(column.domain, Continuum)
    values = column.domain.values.astype(np.float64)
    known = np.concatenate((np.full(column.domain.first, np.nan), values))
    numbers: Numbers = known[column.ranks]
    return numbers
