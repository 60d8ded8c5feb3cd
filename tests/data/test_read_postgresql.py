"""Query results from a PostgreSQL that the tests start themselves, and passwords that are never shown."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from data.reading import EVERY_COLUMN, problem
from examples import examples
from masquerade.data import Table
from masquerade.data.read_sql import hide_password, read_sql
from masquerade.errors import DataError

if TYPE_CHECKING:
    from conftest import Postgres

PASSWORD = "Zw3i/Herzen@7"  # the fixture's
PASSWORD_IN_URL = "Zw3i%2FHerzen%407"


@pytest.fixture
def people(postgres: Postgres) -> Iterator[str]:
    """A URL of a database with a table of people in all kinds of types."""
    postgres.sql(
        """
        CREATE TYPE mood AS ENUM ('sad', 'glad');
        CREATE TABLE people(
            name text, town varchar(20), age int, points bigint, rank smallint, weight double precision,
            height real, income numeric, debt numeric(10, 2), visits numeric, odd numeric, huge numeric,
            member boolean, born date, seen timestamp, sent timestamptz, rises time, id uuid, note jsonb,
            feeling mood, tags int[], photo bytea, span interval, cash money);
        INSERT INTO people VALUES
            ('Ann', 'Bonn', 30, 9007199254740993, 1, 1.5, 0.5, 1234.5, 1.10, 12, 1.5, 1e40, true,
             '1990-01-02', '2020-01-02 03:04:05', '2020-01-02 03:04:05+02', '06:30',
             '00000000-0000-0000-0000-000000000007',
             '{"a": 1}', 'glad', '{1,2}', '\\xff', '1 day', 5),
            ('Bo', NULL, NULL, NULL, NULL, NULL, NULL, -0.25, NULL, NULL, 'NaN', 0.5, NULL, NULL,
             NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        GRANT ALL ON people TO guest, steward;
        """
    )
    yield postgres.trusted
    postgres.sql("DROP TABLE people; DROP TYPE mood;")


def test_a_password_is_looked_up_where_the_database_is_read(
    people: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whatever signs it has; errors show neither it nor a wrong one."""
    url = postgres.as_steward("${HOSPITAL_PASSWORD}")
    with pytest.raises(DataError, match="the environment variable HOSPITAL_PASSWORD is not set where"):
        read_sql(url, "SELECT name FROM people", Path())
    monkeypatch.setenv("HOSPITAL_PASSWORD", PASSWORD)
    assert read_sql(url, "SELECT name FROM people", Path()).table.num_rows == 2
    assert hide_password(url) == postgres.as_steward("***")
    monkeypatch.setenv("HOSPITAL_PASSWORD", "wrong@secret")
    with pytest.raises(DataError, match='password authentication failed for user "steward"') as refused:
        read_sql(url, "SELECT name FROM people", Path())
    assert "secret" not in str(refused.value)


def test_postgresql_types(people: str) -> None:
    query = (
        "SELECT name, town, age, points, rank, weight, height, member, born, seen, sent, rises, id, note, "
        "feeling FROM people ORDER BY name"
    )
    source = read_sql(people, query, Path())
    assert source.table.slice(0, 1).to_pylist() == [
        {
            "name": "Ann",
            "town": "Bonn",
            "age": 30,
            "points": 9007199254740993,
            "rank": 1,
            "weight": 1.5,
            "height": 0.5,
            "member": True,
            "born": datetime.date(1990, 1, 2),
            "seen": datetime.datetime(2020, 1, 2, 3, 4, 5),
            "sent": datetime.datetime(2020, 1, 2, 1, 4, 5, tzinfo=datetime.UTC),
            "rises": datetime.time(6, 30),
            "id": "00000000-0000-0000-0000-000000000007",
            "note": '{"a": 1}',
            "feeling": "glad",
        }
    ]
    assert set(source.table.slice(1).to_pylist()[0].values()) == {"Bo", None}
    kinds = {attribute.name: attribute.kind for attribute in Table(source.table).schema}
    assert {name for name, kind in kinds.items() if kind == "continuous"} == {
        "age",
        "points",
        "rank",
        "weight",
        "height",
    }
    assert {name for name, kind in kinds.items() if kind == "date"} == {"born", "seen", "sent"}


def test_postgresql_numeric_is_a_number(people: str) -> None:
    table = read_sql(
        people, "SELECT income, debt, visits, odd, huge FROM people ORDER BY name", Path(), coded=EVERY_COLUMN
    ).table
    assert table.column("income").to_pylist() == [decimal.Decimal("1234.50"), decimal.Decimal("-0.25")]
    assert table.column("debt").to_pylist() == [decimal.Decimal("1.10"), None]
    assert table.column("visits").to_pylist() == [12, None]
    assert table.column("visits").type == pa.int64()
    assert str(table.column("odd").to_pylist()) == "[1.5, nan]"
    assert table.column("huge").to_pylist() == [1e40, 0.5]
    assert {attribute.kind for attribute in Table(table).schema} == {"continuous"}
    assert Table(table).column("income").ranks.tolist() == [1, 0]


def test_postgresql_numeric_without_any_value(people: str) -> None:
    table = read_sql(people, "SELECT name, NULL::numeric AS nothing FROM people", Path()).table
    assert table.column("nothing").to_pylist() == [None, None]


def test_a_large_result_in_one_piece(people: str) -> None:
    table = read_sql(
        people, "SELECT i, (i % 3)::text AS r FROM generate_series(1, 300000) i", Path(), coded={"r"}
    ).table
    assert table.num_rows == 300_000
    assert Table(table).coded("r").labels == ("0", "1", "2")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("tags", "list<"),
        ("photo", "binary"),
        ("span", "month_day_nano_interval"),
        ("cash", "money"),
        ("'1.2.3.4'::inet", "inet"),
    ],
)
def test_postgresql_types_that_are_no_cells(people: str, column: str, kind: str) -> None:
    line = problem(people, f"SELECT name, {column} AS x FROM people", Path())
    assert line.startswith(f"{people}: column x is of type {kind}")
    assert line.endswith("cast it in the query, as in CAST(x AS text)")
    assert read_sql(people, f"SELECT CAST({column} AS text) AS x FROM people", Path()).table.num_rows == 2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("SELECT FROM WHERE", 'syntax error at or near "WHERE"', id="syntax"),
        pytest.param("SELECT * FROM nobody", 'relation "nobody" does not exist', id="table"),
        pytest.param("SELECT agee FROM people", 'column "agee" does not exist', id="column"),
        pytest.param("SELECT 1/0 AS x", "division by zero", id="arithmetic"),
        pytest.param("SELECT 1/(i - 200000) AS x FROM generate_series(1, 200000) i", "division by zero", id="late"),
        pytest.param("", "the query is empty", id="empty"),
        pytest.param("SELECT name FROM people WHERE false", "the query's result has no rows", id="no rows"),
        pytest.param(
            "SELECT a.name, b.name FROM people a JOIN people b USING (name)",
            "the query's result: column name occurs more than once",
            id="doubled columns",
        ),
        pytest.param(
            "SELECT 'infinity'::date AS d", "column d holds a date outside the years 1 to 9999", id="infinity"
        ),
    ],
)
def test_one_clear_line_from_postgresql(people: str, query: str, expected: str) -> None:
    assert problem(people, query) == f"{people}: {expected}"


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO people(name) VALUES ('Cy') RETURNING name",
        "DELETE FROM people",
        "WITH gone AS (DELETE FROM people RETURNING name) SELECT * FROM gone",
        "SELECT 1; DELETE FROM people",
        "SELECT 1); DELETE FROM people; COMMIT; SELECT (1",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('counter')",
        "SELECT wipe()",
        "CREATE TABLE copy AS SELECT * FROM people",
    ],
)
def test_a_query_cannot_write_to_postgresql(postgres: Postgres, people: str, query: str) -> None:
    postgres.sql(
        "CREATE SEQUENCE counter; GRANT ALL ON counter TO guest;"
        "CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM people; SELECT 1';"
    )
    try:
        assert problem(people, query)
        assert postgres.sql("SELECT count(*) FROM people").strip() == "2"
        assert postgres.sql("SELECT is_called FROM counter").strip() == "f"
    finally:
        postgres.sql("DROP FUNCTION wipe; DROP SEQUENCE counter;")


# --- passwords and URLs ---


def test_a_password_opens_the_door(postgres: Postgres, people: str) -> None:
    source = read_sql(postgres.as_steward(PASSWORD_IN_URL), "SELECT name FROM people", Path())
    assert source.table.num_rows == 2
    assert source.origin.name == postgres.as_steward("***")


def test_both_spellings_of_the_scheme(people: str) -> None:
    for url in (people.replace("postgresql://", "postgres://"), people.replace("postgresql://", "PostgreSQL://")):
        assert read_sql(url, "SELECT name FROM people", Path()).table.num_rows == 2


def shows_no_part(line: str, secret: str) -> bool:
    return not any(secret[start : start + 3] in line for start in range(len(secret) - 2))


def test_a_wrong_password_is_not_shown(postgres: Postgres) -> None:
    line = problem(postgres.as_steward("gEheimXy"), "SELECT 1")
    assert line == f'{postgres.as_steward("***")}: password authentication failed for user "steward"'
    line = problem(postgres.as_steward("100%gEheimXy"), "SELECT 1")  # the driver quotes what it cannot decode
    assert shows_no_part(line, "gEheimXy")
    in_parameters = f"{postgres.trusted.replace('guest', 'steward')}?password=gEheimXy&connect_timeout=5"
    line = problem(in_parameters, "SELECT 1")
    assert shows_no_part(line, "gEheimXy")
    assert "?password=***&connect_timeout=5: password authentication failed" in line


@pytest.mark.parametrize("password", [PASSWORD, "12/34gEheim", "gEh/eim", "gEh@eim", "gEheim@@/x"])
def test_a_password_that_should_have_been_encoded_is_not_shown(postgres: Postgres, password: str) -> None:
    line = problem(postgres.as_steward(password), "SELECT 1")
    assert line.startswith("postgresql://…: not of the form postgresql://user:password@host:port/database;")
    assert shows_no_part(line, password)


def test_servers_that_do_not_answer(postgres: Postgres) -> None:
    line = problem("postgresql://ann:gEheimXy@127.0.0.1:1/db", "SELECT 1")
    assert line.startswith("postgresql://ann:***@127.0.0.1:1/db: ")
    assert line.endswith("Connection refused")
    assert "does not exist" in problem(postgres.trusted.replace("/masquerade", "/nothing"), "SELECT 1")
    assert problem("postgresql://127.0.0.1:99999/db", "SELECT 1").endswith('invalid port number: "99999"')
    assert "not of the form" in problem("postgresql://127.0.0.1:abc/db", "SELECT 1")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://ann@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:s3cret@host:5432/db?sslmode=require", "postgresql://ann:***@host:5432/db?sslmode=require"),
        ("postgres://ann:s?c#et@[::1]:5432,b:1/db", "postgresql://ann:***@[::1]:5432,b:1/db"),
        ("postgresql:///db?host=/tmp&sslpassword=s3cret", "postgresql:///db?host=/tmp&sslpassword=***"),
        ("postgresql://ann:@host", "postgresql://ann:***@host"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_urls_for_people(url: str, shown: str) -> None:
    assert hide_password(url) == shown


@given(url=st.from_regex(r"postgres(ql)?://[a-z]*:[a-zA-Z0-9/@?#:%&=]{0,3}gEheim[a-zA-Z0-9/@?#:%&=,]*", fullmatch=True))
@settings(max_examples=examples(200), deadline=None)
def test_no_url_shows_what_stands_before_its_at_sign(url: str) -> None:
    try:
        shown = hide_password(url)
    except DataError as error:
        shown = str(error)
    if "@" in url.partition("gEheim")[2].partition("/")[0]:
        assert "gEheim" not in shown
