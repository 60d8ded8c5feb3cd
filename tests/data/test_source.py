"""Which reader opens what."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade.data import TableFile
from masquerade.errors import DataError


def problem(source: str, base: Path = Path(), query: str | None = None) -> str:
    with pytest.raises(DataError) as caught:
        TableFile(source, query, base=base).read()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "t.tsv", "t.txt", "t.data"])
def test_text_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a;b\nx;é\n", encoding="latin-1")
    source = TableFile(name, None, ";", "latin-1", tmp_path).read(["b"], {"b"})
    assert source.table.to_pydict() == {"b": ["é"]}
    assert pa.types.is_dictionary(source.table.column("b").type)
    assert source.all_columns == ("a", "b")


@pytest.mark.parametrize("name", ["t.parquet", "t.pq"])
def test_parquet_files(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / name)
    source = TableFile(name, base=tmp_path).read(["b"], {"b"})
    assert source.table.to_pydict() == {"b": ["x"]}
    assert source.all_columns == ("a", "b")


def test_databases(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.executescript("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x')")
    source = TableFile("sqlite:///t.db", "SELECT * FROM t", base=tmp_path).read(["b"])
    assert source.table.to_pydict() == {"b": ["x"]}


def test_absolute_paths_need_no_base(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    assert TableFile(str(tmp_path / "t.csv"), base=Path("/nowhere")).read().table.num_rows == 1


def test_one_clear_line() -> None:
    allowed = (
        "allowed are .csv, .tsv, .txt, .data, .parquet, .pq, and the database URLs sqlite:///file.db, "
        "duckdb:///file.duckdb and postgresql://user:password@host/database"
    )
    assert problem("t.json") == f't.json: the ending ".json" is of no known kind; {allowed}'
    assert problem("t.xlsx") == (
        "t.xlsx: a spreadsheet, which is not read; save its sheet as CSV (UTF-8), and name that file"
    )
    assert problem("table") == f"table: a name without an ending is of no known kind; {allowed}"
    assert problem("t.db").endswith('; for SQLite write "sqlite:///t.db"')
    assert problem("mysql://ann:s3cret@host/db", query="SELECT 1") == (
        'a source cannot be a URL that begins with "mysql://"; allowed are sqlite:///file.db, '
        "duckdb:///file.duckdb and postgresql://user:password@host/database"
    )
    assert problem("t.csv", query="SELECT 1").startswith("t.csv: a query needs a database URL as its source;")
    assert problem("postgresql://ann:s3cret@host/db").startswith(
        "postgresql://ann:***@host/db: a database needs a query"
    )
