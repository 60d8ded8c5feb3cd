"""A table: Arrow data with a schema, whose columns become ranks when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Coded, Column
from masquerade.data.encode import code, encode, is_text, missing_rows
from masquerade.data.schema import Attribute, Schema
from masquerade.errors import DataError, ParameterError, hint

Missing = Literal["drop", "error"]


@dataclass(frozen=True)
class Origin:
    """Where a table came from: its name, and, for text files, how to find a row's line."""

    name: str = "table"
    line_of: Callable[[int], int] | None = None

    def locate(self, row: int) -> str:
        """Row `row` (from 0) of the source, for a person: rows count from 1, without the header."""
        line = f" (line {self.line_of(row)})" if self.line_of is not None else ""
        return f"{self.name}: row {row + 1}{line}"


class Table:
    """Rows and columns with their meaning. Immutable: every operation gives another table.

    `frame` is anything with `__arrow_c_stream__` (pandas, polars, pyarrow, DuckDB, another Table). Without a schema,
    columns of numbers are continuous, of dates dates, and all others categorical.
    """

    def __init__(self, frame: Any, schema: Schema | None = None, *, origin: Origin | None = None) -> None:
        self.origin = origin or Origin()
        self.arrow = _arrow(frame)
        doubled = [name for name in self.arrow.column_names if self.arrow.column_names.count(name) > 1]
        if doubled:
            raise DataError(f"{self.origin.name}: column {doubled[0]} occurs more than once")
        self.schema = schema if schema is not None else infer_schema(self.arrow)
        self.rows_read: int = self.arrow.num_rows
        self._source_rows: NDArray[np.intp] | None = None  # where kept rows stood; None while all are kept
        self._columns: dict[str, Column] = {}
        self._coded: dict[str, Coded] = {}

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Table {self.origin.name}: {len(self)} rows, columns {', '.join(self.arrow.column_names)}>"

    @property
    def dropped_rows(self) -> int:
        """How many rows were dropped because a used cell was missing."""
        return self.rows_read - len(self)

    def where(self, row: int) -> str:
        """Names a row of this table by its place in the source."""
        return self.origin.locate(row if self._source_rows is None else int(self._source_rows[row]))

    def cells(self, name: str) -> pa.ChunkedArray:
        """A column as it came."""
        if name not in self.arrow.column_names:
            names = self.arrow.column_names
            raise DataError(
                f'{self.origin.name}: no column "{name}"{hint(name, names)}; the columns are: {", ".join(names)}'
            )
        return self.arrow.column(name)

    def complete(self, names: Iterable[str], missing: Missing = "drop") -> Table:
        """The table without the rows in which one of the named columns is empty, null or "?"."""
        bad: NDArray[np.bool_] | None = None
        for name in names:
            empty = missing_rows(self.cells(name))
            if empty is None:
                continue
            if missing == "error":
                row = int(np.argmax(empty))
                raise DataError(f'{self.where(row)}, column {name}: the cell is missing, and missing = "error"')
            bad = empty if bad is None else bad | empty
        if bad is None:
            return self
        table = Table(self.arrow.filter(pa.array(~bad)), self.schema, origin=self.origin)
        kept = np.flatnonzero(~bad)
        table._source_rows = kept if self._source_rows is None else self._source_rows[kept]
        table.rows_read = self.rows_read
        return table

    def column(self, name: str) -> Column:
        """The ranks of an attribute."""
        if name not in self._columns:
            self._columns[name] = encode(self.schema[name], self.cells(name), self.where)
        return self._columns[name]

    def columns(self, names: Iterable[str]) -> tuple[Column, ...]:
        """The ranks of several attributes; the problems of all of them are reported at once."""
        columns, errors = [], []
        for name in names:
            try:
                columns.append(self.column(name))
            except (DataError, ParameterError) as error:
                errors.append(error)
        if gathered := DataError.gather(errors):
            raise gathered
        return tuple(columns)

    def coded(self, name: str) -> Coded:
        """The codes of a column that is not generalised."""
        if name not in self._coded:
            self._coded[name] = code(name, self.cells(name))
        return self._coded[name]


def infer_schema(arrow: pa.Table) -> Schema:
    """Numbers are continuous, dates dates, all else categorical without a taxonomy."""

    def attribute(field: pa.Field) -> Attribute:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return Attribute(field.name, "continuous")
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return Attribute(field.name, "date")
        return Attribute(field.name)

    return Schema(attribute(field) for field in arrow.schema)


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if not hasattr(frame, "__arrow_c_stream__"):
        raise ParameterError(
            f"a table must offer __arrow_c_stream__, as pandas, polars, pyarrow and DuckDB frames do; got {type(frame)!r}"
        )
    arrow = pa.table(frame)
    # String views (polars) lack kernels that we use.
    views = {f.name: pa.large_string() for f in arrow.schema if pa.types.is_string_view(f.type)}
    if views:
        arrow = arrow.cast(pa.schema([pa.field(f.name, views.get(f.name, f.type)) for f in arrow.schema]))
    return arrow


__all__ = ["Missing", "Origin", "Table", "infer_schema", "is_text"]
