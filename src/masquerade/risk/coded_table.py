"""A table as the search for keys sees it: for each column, an integer code per row. Only equality matters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from masquerade.data.encode import Codes, distinct, is_text, texts
from masquerade.data.table import Table
from masquerade.engine.counts import Rows
from masquerade.engine.numbering import first_rows, group_rows, renumber


@dataclass(frozen=True, eq=False)
class CodedTable:
    """The columns of a table, each as codes below a bound; equal codes are equal cells."""

    names: tuple[str, ...]
    codes: tuple[Codes, ...]
    bounds: tuple[int, ...]
    rows: int

    @classmethod
    def of(cls, table: Table, columns: Sequence[str] | None = None) -> CodedTable:
        """Code the columns named, or all. A missing cell is a value like any other."""
        names = tuple(table.arrow.column_names if columns is None else columns)
        coded = [_codes(table.cells(name)) for name in names]
        return cls(
            names,
            tuple(codes for codes, _ in coded),
            tuple(bound for _, bound in coded),
            len(table),
        )

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names)

    def take(self, rows: Rows) -> CodedTable:
        """The table of these rows, each column's codes numbered anew."""
        numbered = [
            renumber(codes.take(rows), bound) for codes, bound in zip(self.codes, self.bounds, strict=True)
        ]
        return CodedTable(
            self.names,
            tuple(codes.astype("int32", copy=False) for codes, _ in numbered),
            tuple(int(found.size) for _, found in numbered),
            int(rows.size),
        )

    def select(self, columns: Iterable[int]) -> CodedTable:
        """The table of these columns, by number."""
        kept = tuple(columns)
        return CodedTable(
            tuple(self.names[at] for at in kept),
            tuple(self.codes[at] for at in kept),
            tuple(self.bounds[at] for at in kept),
            self.rows,
        )

    def different_rows(self) -> Rows:
        """One row, the first, of each group of rows that are equal in all columns."""
        labels, n_groups = group_rows(zip(self.codes, self.bounds, strict=True), self.rows)
        return first_rows(labels, n_groups)


def _codes(column: pa.ChunkedArray) -> tuple[Codes, int]:
    """Code a column's cells; texts that differ only in surrounding space are one value."""
    codes, values = distinct(column)
    if is_text(values.type):
        once = texts(values).dictionary_encode()
        if len(once.dictionary) < len(values):
            codes, values = once.indices.to_numpy().astype("int32", copy=False).take(codes), once.dictionary
    return codes, len(values)
