"""Query results from SQLite: columns, one clear line for every mistake, and no query that writes."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from data.reading import EVERY_COLUMN, problem
from examples import examples
from masquerade.data.read_sql import read_sql
from masquerade.errors import MasqueradeError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with people.db: two people."""
    with closing(sqlite3.connect(tmp_path / "people.db")) as connection:
        connection.executescript(
            "CREATE TABLE people(name TEXT, age INTEGER, salary REAL, photo BLOB);"
            "INSERT INTO people VALUES ('Ann', 30, 1.5, x'ff'), ('Bo', NULL, 2, NULL);"
        )
    return tmp_path


def test_sqlite(folder: Path) -> None:
    source = read_sql("sqlite:///people.db", "SELECT name, age, salary FROM people;", folder)
    assert source.table.to_pydict() == {"name": ["Ann", "Bo"], "age": [30, None], "salary": [1.5, 2.0]}
    assert source.table.schema.types == [pa.string(), pa.int64(), pa.float64()]
    assert source.all_columns == ("name", "age", "salary")
    assert source.origin.problem("", 1).place == "sqlite:///people.db: row 2"


def test_sqlite_by_an_absolute_path_with_odd_signs(folder: Path) -> None:
    odd = folder / "100% a?b#c.db"
    (folder / "people.db").rename(odd)
    source = read_sql(f"sqlite:///{odd}", "-- who?\n/* all */ SELECT name FROM people", Path("/nowhere"))
    assert source.table.to_pydict() == {"name": ["Ann", "Bo"]}


def test_only_the_asked_columns(folder: Path) -> None:
    source = read_sql(
        "sqlite:///people.db", "SELECT * FROM people", folder, columns=["age", "name"], coded=EVERY_COLUMN
    )
    assert source.table.to_pydict() == {"age": [30, None], "name": ["Ann", "Bo"]}
    assert pa.types.is_dictionary(source.table.column("name").type)
    assert source.all_columns == ("name", "age", "salary", "photo")


def test_sqlite_columns_of_mixed_types_come_as_text_however_late_they_mix(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "people.db")) as connection:
        connection.execute("CREATE TABLE codes(code)")
        connection.executemany("INSERT INTO codes VALUES (?)", [(number,) for number in range(140_000)])
        connection.execute("INSERT INTO codes VALUES ('late')")
        connection.commit()
    codes = read_sql("sqlite:///people.db", "SELECT code FROM codes", folder).table.column("code")
    assert (len(codes), codes[0].as_py(), codes[139_999].as_py(), codes[140_000].as_py()) == (
        140_001,
        "0",
        "139999",
        "late",
    )


def test_a_missing_sqlite_file_is_not_made(folder: Path) -> None:
    assert problem("sqlite:///peple.db", "SELECT 1", folder) == (
        f'{folder / "peple.db"}: there is no such file (did you mean "people.db"?)'
    )
    assert sorted(path.name for path in folder.iterdir()) == ["people.db"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("SELEC 1", 'the query begins with "SELEC"; allowed are SELECT, WITH, VALUES and TABLE', id="typo"),
        pytest.param("SELECT FROM people", 'near "FROM": syntax error', id="syntax"),
        pytest.param("SELECT * FROM nobody", "no such table: nobody", id="table"),
        pytest.param("SELECT agee FROM people", "no such column: agee", id="column"),
        pytest.param("", "the query is empty", id="empty"),
        pytest.param(" \n-- nothing", "the query is empty", id="a comment alone"),
        pytest.param("SELECT '\0'", "the query holds a NUL character", id="NUL"),
        pytest.param("SELECT name FROM people WHERE age > 99", "the query's result has no rows", id="no rows"),
        pytest.param(
            "SELECT a.name, b.name FROM people a JOIN people b ON a.name = b.name",
            "the query's result: column name occurs more than once",
            id="doubled columns",
        ),
        pytest.param(
            "SELECT photo FROM people",
            "column photo is of type binary; allowed are text, numbers, dates, times and booleans; "
            "cast it in the query, as in CAST(x AS text)",
            id="blob",
        ),
        pytest.param(
            "SELECT CAST(photo AS text) AS photo FROM people",
            "column photo holds text that is not UTF-8, or is damaged",
            id="broken text",
        ),
    ],
)
def test_one_clear_line_from_sqlite(folder: Path, query: str, expected: str) -> None:
    assert problem("sqlite:///people.db", query, folder) == f"sqlite:///people.db: {expected}"


def test_a_missing_column_of_a_result(folder: Path) -> None:
    assert problem("sqlite:///people.db", "SELECT name, age FROM people", folder, columns=["agee"]) == (
        'sqlite:///people.db: the query\'s result: no column "agee" (did you mean "age"?); the columns are: name, age'
    )


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM people",
        "INSERT INTO people(name) VALUES ('Cy') RETURNING name",
        "WITH gone AS (SELECT 1) DELETE FROM people RETURNING name",
        "WITH new(name) AS (VALUES ('Cy')) INSERT INTO people(name) SELECT name FROM new RETURNING name",
        "SELECT 1; DELETE FROM people",
        "ATTACH 'other.db' AS other",
        "PRAGMA user_version = 5",
        "CREATE TABLE new(x)",
        "VACUUM INTO 'copy.db'",
    ],
)
def test_a_query_cannot_write_to_sqlite(folder: Path, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = (folder / "people.db").read_bytes()
    if query.startswith("SELECT 1;"):  # SQLite runs the first statement alone
        assert read_sql("sqlite:///people.db", query, folder).table.to_pydict() == {"1": [1]}
    else:
        assert problem("sqlite:///people.db", query, folder)
    assert (folder / "people.db").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["people.db"]


@pytest.mark.parametrize("url", ["sqlite://people.db", "sqlite://", "sqlite:///"])
def test_a_malformed_sqlite_url(url: str) -> None:
    assert problem(url, "SELECT 1").startswith(f"{url}: not of the form sqlite:///file.db (three slashes;")


def test_a_file_that_is_no_database(folder: Path) -> None:
    (folder / "text.db").write_text("name,age\n" * 1000)
    assert problem("sqlite:///text.db", "SELECT * FROM t", folder) == "sqlite:///text.db: file is not a database"
    assert problem("sqlite:///.", "SELECT 1", folder) == f"{folder}: a folder, where a file is expected"


def test_a_column_name_that_is_not_utf8_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t(colour TEXT); INSERT INTO t VALUES ('x');")
    path.write_bytes(path.read_bytes().replace(b"colour", b"\x80olour"))
    assert problem(f"sqlite:///{path}", "SELECT * FROM t", tmp_path).endswith(
        "damaged.db: the name of a column is not UTF-8"
    )


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_damaged_databases_read_or_are_explained(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.db"
    if data.draw(st.booleans(), label="any bytes"):
        content = bytearray(b"SQLite format 3\0" + data.draw(st.binary(max_size=300)))
    else:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                "PRAGMA page_size=512; CREATE TABLE t(a TEXT, b INT);"
                "INSERT INTO t VALUES ('x', 1), ('y', 2), (NULL, NULL), ('long' || hex(zeroblob(700)), 4);"
            )
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 6))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        source = read_sql(f"sqlite:///{path}", "SELECT * FROM t", Path())
    except MasqueradeError as error:
        explained = error.lines
    else:
        assert source.table.num_rows > 0
        return
    assert explained
    assert all("\n" not in line for line in explained)


@pytest.mark.parametrize("system", ["sqlite", "postgresql"])
def test_without_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setitem(sys.modules, f"adbc_driver_{system}.dbapi", None)
    url = "sqlite:///people.db" if system == "sqlite" else "postgresql://host/db"
    assert problem(url, "SELECT 1", folder) == (
        f'reading from {system} needs the extra "sql": pip install "masquerade[sql]"'
    )
