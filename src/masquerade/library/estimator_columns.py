"""The columns of an estimator's records: numbers as numbers, all else as texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.schema import Attribute


def attribute_of(name: str, column: NDArray[Any]) -> Attribute:
    """Return the attribute of a column."""
    if column.dtype == object:
        return Attribute(name)
    return Attribute(name, "continuous")


def column_of(cells: NDArray[Any]) -> NDArray[Any]:
    """Return cells as numbers, or where some are none, as texts."""
    if cells.dtype.kind in "fiub":
        return cells.astype(np.float64)
    texts = [text_of(each) for each in cells.tolist()]
    try:
        return cells.astype(np.float64)
    except ValueError:
        return np.array(texts, object)


def text_of(cell: Any) -> str:
    """Write a cell as a table's text: whole numbers without `.0`."""
    if isinstance(cell, dict | list):
        raise TypeError(f"argument must be a string or a number, not {type(cell).__name__}")
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
