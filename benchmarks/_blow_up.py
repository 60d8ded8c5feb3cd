"""Enlarge a table for scalability measurements by adding random variations of its records.

The generator of the data-integration paper's Figure 12.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import distinct, missing_rows
from masquerade.engine import which_occur
from masquerade.errors import ParameterError, hint

_MOST_NAMES = 62


def blow_up(table: pa.Table, names: Sequence[str], n_rows: int, seed: int) -> pa.Table:
    """Return the table's rows followed by variations of each row in turn, `n_rows` rows in all.

    A variation takes a random non-empty subset of the columns `names`, all subsets equally likely,
    and draws those cells uniformly from the column's distinct non-missing values; all other cells are
    copied from the original. Columns keep their types.
    """
    _check(table, names, n_rows)
    n_more = n_rows - table.num_rows
    if n_more == 0:
        return table
    random = np.random.default_rng(seed)
    original = np.arange(n_more, dtype=np.int64) % table.num_rows
    subset = random.integers(1, 1 << len(names), n_more, dtype=np.int64)  # one bit per column
    bit = {name: np.int64(1 << at) for at, name in enumerate(names)}
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name in bit:
            chosen = np.flatnonzero(subset & bit[field.name])
            more = _varied(column, original, chosen, random)
        else:
            more = column.take(pa.array(original))
        columns.append(pa.chunked_array([*column.chunks, *_chunks(more)], field.type))
    return pa.table(columns, schema=table.schema)


def _check(table: pa.Table, names: Sequence[str], n_rows: int) -> None:
    known = table.column_names
    for name in names:
        if name not in known:
            raise ParameterError(f'no column "{name}"{hint(name, known)}; the columns are: {", ".join(known)}')
    if not 1 <= len(set(names)) == len(names) <= _MOST_NAMES:
        raise ParameterError(
            f"The names parameter of blow_up must be 1 to {_MOST_NAMES} different columns. Got {list(names)} instead."
        )
    if table.num_rows == 0 or n_rows < table.num_rows:
        raise ParameterError(
            f"The n_rows parameter of blow_up must be at least the number of rows, {table.num_rows}, "
            f"of a table that is not empty. Got {n_rows!r} instead."
        )


def _varied(
    column: pa.ChunkedArray, original: NDArray[np.int64], chosen: NDArray[np.intp], random: np.random.Generator
) -> pa.Array:
    """Return the originals' cells, with random values in the chosen rows."""
    codes, values = distinct(column)
    holes = missing_rows(column)
    present = np.flatnonzero(which_occur(codes if holes is None else codes[~holes], len(values)))
    more = codes[original]
    if present.size:
        more[chosen] = present[random.integers(0, present.size, chosen.size)]
    indices = pa.array(more)
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(indices, values).cast(column.type)
    return values.take(indices)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
