"""A query's result in parts, each read by whoever counts it: ranges of a key column.

The database numbers nothing for us, so rows need a key: a column whose values are all different. Ranges of it with
about equally many rows are found once (`ntile`); a part is the query with a condition on its range, in the order of the
key. So a part that is read again, by another worker or for its other columns, has the same rows in the same order.
Rows that come or go meanwhile are an error. Cells that change meanwhile are not noticed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from masquerade.data.database_url import FILE_SCHEMES, database_path, database_scheme
from masquerade.data.encode import is_text
from masquerade.data.read_sql import check_query, hide_password, read_sql
from masquerade.data.reading import chosen
from masquerade.data.table import Origin
from masquerade.errors import DataError, Problem

_LOOK = 1000  # rows by which the types of the columns are known
_PARTITION = ("data", "partition")


@dataclass(frozen=True, repr=False)
class QueryPart:
    """The rows of a query's result with keys from `lo` to `hi`. Its text shows no password."""

    url: str
    query: str
    base: str
    key: str
    lo: Any
    hi: Any
    first_row: int
    rows: int
    types: tuple[tuple[str, pa.DataType], ...]  # of the columns, where they are known

    def __repr__(self) -> str:
        return f"QueryPart({self.rows} rows)"

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""
        key = _quoted(self.key)
        selected = ", ".join(_quoted(name) for name in columns) or key
        condition = f"{key} >= {_literal(self.lo)} AND {key} <= {_literal(self.hi)}"
        text = f"SELECT {selected} FROM {_result(self.query)} WHERE {condition} ORDER BY {key}"  # noqa: S608 # see _result
        table = read_sql(self.url, text, Path(self.base), columns=columns, coded=coded).table
        if table.num_rows != self.rows:
            raise DataError.about(
                hide_password(self.url),
                "rows came or went while the query's result was in use; run the job again",
            )
        return pa.table({name: self._typed(name, table.column(name)) for name in columns})

    def _typed(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column in the type that it has in all parts: SQLite types cells, not columns."""
        wanted = dict(self.types).get(name)
        found = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if wanted is None or found == wanted or (is_text(found) and is_text(wanted)):
            return column
        try:
            plain = column.cast(found) if found != column.type else column
            return plain.cast(wanted)
        except pa.ArrowException:
            text = f"holds cells of type {wanted} and of type {found}; cast it in the query, as in CAST(x AS text)"
            raise DataError(Problem(text, source=hide_password(self.url), column=name)) from None

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows: by their place in the result, in the order of the key."""
        return Origin(hide_password(self.url), missing_values=tuple(missing_values), first_row=self.first_row)


@dataclass(frozen=True, repr=False)
class PartedQuery:
    """A query's result, to be read in parts: what `PartedFiles` is for files."""

    url: str
    query: str
    base: str
    key: str
    columns: tuple[str, ...]
    types: tuple[tuple[str, pa.DataType], ...]
    rows: int

    @property
    def name(self) -> str:
        """The database, without its password."""
        return hide_password(self.url)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The file that whoever reads must see; none where the database is a server."""
        if database_scheme(self.url) not in FILE_SCHEMES:
            return ()
        return (database_path(self.url, Path(self.base)).absolute(),)

    @property
    def largest_group(self) -> tuple[int, str]:
        """No rows have to be read at once."""
        return 0, ""

    def parts(self, most_rows: int) -> list[QueryPart]:
        """Cut the result into parts of at most `most_rows` rows; raise unless the key is unique."""
        n_parts = -(-self.rows // max(most_rows, 1))
        key = _quoted(self.key)
        number = f"ntile({n_parts}) OVER (ORDER BY {key})"
        numbered = f"(SELECT {key} AS k, {number} AS part FROM {_result(self.query)}) AS numbered"  # noqa: S608 # see _result
        figures = "min(k) AS lo, max(k) AS hi, count(*) AS n, count(DISTINCT k) AS different"
        text = f"SELECT part, {figures} FROM {numbered} GROUP BY part ORDER BY part"  # noqa: S608 # see _result
        found = read_sql(self.url, text, Path(self.base)).table.to_pylist()
        shared = any(before["hi"] == after["lo"] for before, after in pairwise(found))
        if shared or any(each["n"] != each["different"] for each in found):
            raise DataError(
                Problem(
                    f"column {self.key} must have another value in every row, and no missing one",
                    key=_PARTITION,
                )
            )
        ends = np.cumsum([each["n"] for each in found]).tolist()
        return [
            QueryPart(
                self.url,
                self.query,
                self.base,
                self.key,
                each["lo"],
                each["hi"],
                end - each["n"],
                each["n"],
                self.types,
            )
            for each, end in zip(found, ends, strict=True)
        ]


def parted_query(url: str, query: str, base: Path, key: str, columns: Sequence[str] = ()) -> PartedQuery:
    """Look at a query's result; raise unless it has these columns, and a key by whose ranges it can be read."""
    query = query.strip().rstrip(";")
    check_query(hide_password(url), query)
    look = read_sql(url, f"SELECT * FROM {_result(query)} LIMIT {_LOOK}", base)  # noqa: S608 # see _result
    chosen(f"{look.origin.name}: the query's result", look.all_columns, [*columns, key])
    kind = look.table.schema.field(key).type
    if not (pa.types.is_integer(kind) or is_text(kind)):
        text = f"column {key} is of type {kind}; it must hold whole numbers or texts, as in CAST(x AS text)"
        raise DataError(Problem(text, key=_PARTITION))
    counted = read_sql(url, f"SELECT count(*) AS n FROM {_result(query)}", base).table  # noqa: S608 # see _result
    schema = look.table.schema
    types = tuple((each.name, each.type) for each in schema if not pa.types.is_null(each.type))
    return PartedQuery(
        url, query, str(base.absolute()), key, look.all_columns, types, counted.column("n")[0].as_py()
    )


def _result(query: str) -> str:
    """Return a query as a table of another: it is the job's own text, and the database only lets us read."""
    return f"(\n{query}\n) AS whole_result"  # a comment at its end ends with its line


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
