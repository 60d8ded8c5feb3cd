"""A table: Arrow data with a schema, whose columns are encoded as ranks on demand."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Coded, Column
from masquerade.data.encoding import (
    MISSING_VALUES,
    code,
    encode,
    encoded_rows,
    is_text,
    mark_missing,
    missing_rows,
    standard_cells,
)
from masquerade.data.schema import Attribute, Schema, repeated
from masquerade.data.taxonomy_files import Taxonomies, with_taxonomies
from masquerade.engine import first_rows, group_rows
from masquerade.errors import BadInput, DataError, ParameterError, Problem, hint

# --- product ------------------------------------------------------------------------------------------------
# Several columns treated as one: a record's value is the combination of its values on all of them.
#
# m-privacy needs it twice: several sensitive attributes count as one, their Cartesian product, and the
# records of a group are counted by provider and sensitive value at once.

_SIGN = " × "


class ProductColumn(str):
    """The name of a product column, such as "disease × job"; `names` are those of its members."""

    __slots__ = ("names",)
    names: tuple[str, ...]

    def __new__(cls, names: Iterable[str]) -> ProductColumn:
        """Name the product of these columns."""
        listed = tuple(names)
        product = super().__new__(cls, _SIGN.join(listed))
        product.names = listed
        return product

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override] # made of names, not of a text
        return (self.names,)


class Combination(str):
    """A value of a product column: the members' values, and the index of each among its column's values."""

    __slots__ = ("places", "values")
    values: tuple[str, ...]
    places: tuple[int, ...]

    def __new__(cls, values: Sequence[str], places: Sequence[int]) -> Combination:
        """Combine one value of each member, with its index."""
        combination = super().__new__(cls, _SIGN.join(values))
        combination.values = tuple(values)
        combination.places = tuple(places)
        return combination

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[int, ...]]:  # type: ignore[override] # as above
        return (self.values, self.places)


def columns_of(name: str) -> tuple[str, ...]:
    """Return the members of a product's name; for any other name, the name itself."""
    return name.names if isinstance(name, ProductColumn) else (name,)


def coded_product(name: str, members: Sequence[Coded]) -> Coded:
    """Encode the combinations that occur, ordered by the first member's values, then the second's, …"""
    columns = ((member.codes, len(member.labels)) for member in members)
    keys, n_keys = group_rows(columns, members[0].codes.size)
    first = first_rows(keys, n_keys)
    labels = tuple(
        Combination([member.labels[place] for member, place in zip(members, places, strict=True)], places)
        for places in zip(*(member.codes[first].tolist() for member in members), strict=True)
    )
    return Coded(name, keys.astype(np.int32), labels)


# --- table --------------------------------------------------------------------------------------------------

Missing = Literal["drop", "error", "keep", "mean"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Origin:
    """Where a table came from: its name, which texts mean a missing cell, and in a text file a row's line."""

    name: str = "table"
    line_of: Callable[[int], int] | None = None
    missing_values: tuple[str, ...] = MISSING_VALUES
    first_row: int = 0  # where the table is a part of its source

    def problem(self, text: str, row: int, column: str = "") -> Problem:
        """Describe a problem with row `row` (from 0) of the source, or with one of its cells."""
        line = self.line_of(row) if self.line_of is not None else None
        return Problem(text, source=self.name, row=self.first_row + row + 1, line=line, column=column)


class Table:
    """Rows and columns with their schema. Immutable: every operation returns a new table.

    `frame` is anything with `__arrow_c_stream__` (pandas, polars, pyarrow, DuckDB, another Table). Without a
    schema, number columns are continuous, date columns are dates, and all others are categorical; `taxonomies` then
    gives some of them theirs: a folder of files named after the columns, or a mapping from a column to its taxonomy,
    file or "flat".
    """

    def __init__(
        self,
        frame: Any,
        schema: Schema | None = None,
        *,
        taxonomies: Taxonomies | None = None,
        origin: Origin | None = None,
    ) -> None:
        if schema is not None and taxonomies is not None:
            raise ParameterError("A schema has its own taxonomies: give Table a schema or taxonomies, not both.")
        self.origin = origin or Origin()
        self.arrow = _arrow(frame)
        # Arrow makes a new list of all names each time that it is asked for them.
        self._names = self.arrow.column_names
        self._known = frozenset(self._names)
        if doubled := repeated(self._names):
            raise DataError.about(self.origin.name, f"column {doubled[0]} occurs more than once")
        self.schema = schema if schema is not None else infer_schema(self.arrow)
        if taxonomies is not None:
            self.schema = with_taxonomies(self.schema, taxonomies)
        self.rows_read: int = self.arrow.num_rows
        self.keeps_missing = False  # a missing cell is a value, written as "?"
        self.source_rows: NDArray[np.intp] | None = None  # where kept rows are in the source; None while all are kept
        self._dictionaries: dict[str, pa.ChunkedArray] = {}
        self._columns: dict[str, Column] = {}
        self._taken: dict[str, tuple[Column, NDArray[np.intp]]] = {}  # encoded before these rows were taken
        self._coded: dict[str | tuple[str, ...], Coded] = {}

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Table {self.origin.name}: {len(self)} rows, columns {', '.join(self.arrow.column_names)}>"

    @property
    def dropped_rows(self) -> int:
        """The number of rows dropped because a used cell was missing."""
        return self.rows_read - len(self)

    def problem(self, text: str, row: int, column: str = "") -> Problem:
        """Describe a problem with a row or cell of this table, located by its place in the source."""
        return self.origin.problem(text, self.source_row(row), column)

    def source_row(self, row: int) -> int:
        """Return the position in the source, from 0, of a row of this table."""
        return row if self.source_rows is None else int(self.source_rows[row])

    def cells(self, name: str) -> pa.ChunkedArray:
        """Return a column's raw cells."""
        if name not in self._known:
            names = self._names
            text = f'no column "{name}"{hint(name, names)}; the columns are: {", ".join(names)}'
            raise DataError.about(self.origin.name, text)
        column = self.arrow.column(name)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            text = f"column {name} holds {kind}; allowed are text, numbers, dates, times and booleans"
            raise DataError.about(self.origin.name, text)
        return column

    def standard_cells(self, name: str) -> pa.ChunkedArray:
        """Return a column's cells as others read them, who do not know how its dates or decimals are written."""
        cells = self.cells(name)
        if name not in self.schema:
            return cells
        return standard_cells(self.schema[name], cells, self.problem, keep_missing=self.keeps_missing)

    def complete(self, names: Iterable[str], missing: Missing = "drop", *, ranked: Container[str] = ()) -> Table:
        """Drop the rows in which one of the named columns is null, or a text that means a missing cell.

        With `missing = "error"`, the first such row is an error instead; with "keep", a missing cell is a value of its
        own, however it was written; with "mean" it is so among numbers, and a row without another cell is dropped.
        Columns in `ranked` will be encoded as ranks, so their distinct cells are found now: checking those is faster
        than checking all.
        """

        def cells(name: str) -> pa.ChunkedArray:
            return self._dictionary(name) if name in ranked else self.cells(name)

        columns = dict(zip(names := tuple(names), self._all(cells, names), strict=True))
        words = self.origin.missing_values
        holes = {name: empty for name, cells in columns.items() if (empty := missing_rows(cells, words)) is not None}
        if not holes:
            return self
        if missing == "keep":
            return self._with_marked(holes)
        if missing == "mean":
            numbers = {name for name in holes if name in self.schema and self.schema[name].kind == "continuous"}
            kept = self.complete([name for name in holes if name not in numbers])
            return kept.complete(numbers, "keep")
        bad: NDArray[np.bool_] = np.logical_or.reduce(list(holes.values()))
        if missing == "error":
            row = int(np.argmax(bad))
            name = next(name for name, empty in holes.items() if empty[row])
            raise DataError(self.problem('the cell is missing, and missing = "error"', row, name))
        return self.take(np.flatnonzero(~bad))

    def _with_marked(self, holes: Mapping[str, NDArray[np.bool_]]) -> Table:
        """Return the table with the missing cells of these columns all written alike."""
        arrow = self.arrow
        for name, absent in holes.items():
            at = arrow.column_names.index(name)
            arrow = arrow.set_column(at, name, mark_missing(arrow.column(at), absent))
        table = type(self)(arrow, self.schema, origin=self.origin)
        table._dictionaries = {name: cells for name, cells in self._dictionaries.items() if name not in holes}
        table.source_rows, table.rows_read, table.keeps_missing = self.source_rows, self.rows_read, True
        return table

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Return the table of these rows, in this order."""
        chosen = pa.array(rows)
        table = type(self)(self.arrow.take(chosen), self.schema, origin=self.origin)
        table._dictionaries = {name: cells.take(chosen) for name, cells in self._dictionaries.items()}
        table.source_rows = rows if self.source_rows is None else self.source_rows[rows]
        table.rows_read, table.keeps_missing = self.rows_read, self.keeps_missing
        table._taken = {name: (column, rows) for name, column in self._columns.items()}
        return table

    def with_schema(self, schema: Schema) -> Table:
        """Return the same rows, whose columns mean something else."""
        table = type(self)(self.arrow, schema, origin=self.origin)
        table._dictionaries = dict(self._dictionaries)
        table.source_rows, table.rows_read, table.keeps_missing = self.source_rows, self.rows_read, self.keeps_missing
        return table

    def column(self, name: str) -> Column:
        """Encode an attribute as ranks."""
        if name not in self._columns:
            attribute, taken = self.schema[name], self._taken.pop(name, None)
            found = encoded_rows(attribute, *taken) if taken is not None else None
            if found is None:
                found = encode(attribute, self._dictionary(name), self.problem, keep_missing=self.keeps_missing)
            self._columns[name] = found
        return self._columns[name]

    def columns(self, names: Iterable[str]) -> tuple[Column, ...]:
        """Encode several attributes as ranks; the problems of all of them are reported at once."""
        return tuple(self._all(self.column, names))

    def coded(self, name: str) -> Coded:
        """Encode a column that is not generalised, or several as one (their product)."""
        key = name.names if isinstance(name, ProductColumn) else name
        if key not in self._coded:
            if isinstance(name, ProductColumn):
                self._coded[key] = coded_product(name, [self.coded(each) for each in name.names])
            else:
                self._coded[key] = code(name, self.cells(name))
        return self._coded[key]

    def _dictionary(self, name: str) -> pa.ChunkedArray:
        """Dictionary-encode a text column; return any other unchanged."""
        if name not in self._dictionaries:
            column = self.cells(name)
            self._dictionaries[name] = column.dictionary_encode() if is_text(column.type) else column
        return self._dictionaries[name]

    @staticmethod
    def _all(ask: Callable[[str], Answer], names: Iterable[str]) -> list[Answer]:
        """Return one answer per name, or raise one error with the problems of all of them."""
        answers, errors = list[Answer](), list[BadInput]()
        for name in names:
            try:
                answers.append(ask(name))
            except BadInput as error:
                errors.append(error)
        if gathered := DataError.gather(errors):
            raise gathered
        return answers


def infer_schema(arrow: pa.Table) -> Schema:
    """Treat numbers as continuous, dates as dates, and all else as categorical without a taxonomy."""

    def attribute(field: pa.Field) -> Attribute:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return Attribute(field.name, "continuous")
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return Attribute(field.name, "date")
        return Attribute(field.name)

    return Schema(attribute(field) for field in arrow.schema)


def _arrow(frame: Any) -> pa.Table:
    if not hasattr(frame, "__arrow_c_stream__"):
        raise ParameterError(
            "a table must offer __arrow_c_stream__, as pandas, polars, pyarrow and DuckDB frames do; "
            f"got {type(frame).__name__} instead"
        )
    try:
        arrow = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:  # a column of mixed objects, a series, …
        # Arrow's text shows the cell that it cannot convert; of its parts just the one about the column is repeated.
        columns = [str(part) for part in error.args if str(part).startswith("Conversion failed for column ")]
        reason = f" ({columns[0]})" if columns else ""
        raise DataError(f"the {type(frame).__name__} cannot become an Arrow table{reason}") from None
    # The unnamed index of a pandas frame is a row's position, not an attribute.
    index = [name for name in arrow.column_names if re.fullmatch(r"__index_level_[0-9]+__", name)]
    if index:
        arrow = arrow.drop_columns(index)
    for position, field in enumerate(arrow.schema):
        column = _without_views(arrow.column(position))
        if column.type != field.type:
            arrow = arrow.set_column(position, field.name, column)
    return arrow


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert string views (polars), which lack kernels that we use, and dictionaries of them to large strings."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.large_string()))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.large_string()))
    return column
