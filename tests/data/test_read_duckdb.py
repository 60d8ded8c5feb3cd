"""Query results from DuckDB: columns, one clear line for every mistake, and no query that writes or leaves the file."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from data.reading import problem
from masquerade.data.read_sql import read_sql
from masquerade.errors import DataError

URL = "duckdb:///people.duckdb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with people.duckdb: two people."""
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people(name TEXT, age INTEGER, salary DECIMAL(9,2), born DATE)")
        connection.execute("INSERT INTO people VALUES ('Ann', 30, 1.5, '1990-01-02'), ('Bo', NULL, 2, NULL)")
    return tmp_path


def test_duckdb(folder: Path) -> None:
    source = read_sql(URL, "SELECT * FROM people ORDER BY name", folder, columns=["name", "age"])
    assert source.table.to_pydict() == {"name": ["Ann", "Bo"], "age": [30, None]}
    assert source.all_columns == ("name", "age", "salary", "born")
    assert source.origin.name == URL


@pytest.mark.parametrize(
    "query", ["DELETE FROM people", "SELECT 1; DELETE FROM people", "COPY people TO 'out.csv'", "ATTACH 'other.duckdb'"]
)
def test_a_query_cannot_write(folder: Path, query: str) -> None:
    with pytest.raises(DataError):
        read_sql(URL, query, folder)
    assert read_sql(URL, "SELECT * FROM people", folder).table.num_rows == 2
    assert [path.name for path in folder.iterdir()] == ["people.duckdb"]


def test_a_query_sees_no_other_file(folder: Path) -> None:
    (folder / "secret.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match=r"duckdb:///people\.duckdb: .*disabled"):
        read_sql(URL, f"SELECT * FROM '{folder / 'secret.csv'}'", folder)


def test_one_clear_line(folder: Path) -> None:
    assert "people.dukdb: there is no such file" in problem("duckdb:///people.dukdb", "SELECT 1", folder)
    assert "nobody" in problem(URL, "SELECT * FROM nobody", folder)
    (folder / "text.duckdb").write_text("not a database")
    assert problem("duckdb:///text.duckdb", "SELECT 1", folder).startswith("duckdb:///text.duckdb: ")
