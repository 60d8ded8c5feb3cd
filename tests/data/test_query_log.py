"""Query logs: what a query reads, selects by and asks for; where a log is no SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.data import All, Compared, Condition, Not, Some, read_query_log
from masquerade.data.query_log import UNKNOWN, LoggedQuery, parse_query_log
from masquerade.errors import DataError, ParameterError

OVER_50 = Compared("age", ">", "50")


def only(text: str) -> LoggedQuery:
    (query,) = parse_query_log(text, "q.sql").queries
    return query


def roles(text: str) -> tuple[set[str], set[str]]:
    query = only(text)
    return {each.name for each in query.features}, {each.name for each in query.selections}


@pytest.mark.parametrize(
    ("text", "features", "selections"),
    [
        ("SELECT age FROM p WHERE job = 'x'", {"age"}, {"job"}),
        ("SELECT sex, AVG(age) FROM p GROUP BY sex, town", {"sex", "age", "town"}, set()),
        ("SELECT COUNT(*) FROM p WHERE age > 5 AND age < 9 OR NOT job = 'x'", set(), {"age", "job"}),
        ('SELECT "marital-status" FROM p JOIN q ON p.ssn = q.ssn', {"marital-status"}, {"ssn"}),
        ("SELECT a.age AS years FROM p a WHERE a.age > 3 ORDER BY years", {"age"}, {"age"}),
        ("WITH w AS (SELECT age AS a FROM p WHERE job = 'x') SELECT a FROM w", {"age"}, {"job"}),
        ("SELECT sex FROM p GROUP BY sex HAVING MAX(age) > 3", {"sex"}, {"age"}),
        ("SELECT age FROM p WHERE job IN (SELECT name FROM j WHERE pay > 3)", {"age", "name"}, {"job", "pay"}),
        ("SELECT age FROM p UNION SELECT pay FROM q WHERE sex = 'f'", {"age", "pay"}, {"sex"}),
        ("SELECT pay AS age FROM p WHERE age > 3", {"pay"}, {"age"}),
        ("SELECT age AS sex, sex AS age FROM p", {"age", "sex"}, set()),
        ("SELECT age AS A, COUNT(*) FROM p GROUP BY a", {"age"}, set()),
        ("SELECT job, AVG(age) AS m FROM p GROUP BY job HAVING m > 3", {"job", "age"}, {"age"}),
        ("SELECT x FROM (SELECT age AS X FROM p) WHERE x > 3", {"age"}, {"age"}),
        ("SELECT t.a FROM (SELECT age FROM p) AS t(a) WHERE t.a > 3", {"age"}, {"age"}),
        ("WITH t(a) AS (SELECT age FROM p UNION SELECT pay FROM p) SELECT a FROM t", {"age", "pay"}, set()),
        ("WITH RECURSIVE t AS (SELECT age FROM p UNION SELECT age + 1 FROM t) SELECT age FROM t", {"age"}, set()),
        ("SELECT p.age FROM p JOIN q USING (job)", {"age"}, {"job"}),
        ("SELECT age FROM p WHERE EXISTS (SELECT * FROM q WHERE q.job = p.job)", {"age"}, {"job"}),
    ],
)
def test_what_is_read_and_selected_by(text: str, features: set[str], selections: set[str]) -> None:
    assert roles(text) == (features, selections)


def test_everything_is_read_by_a_star_but_not_by_a_count() -> None:
    assert only("SELECT * FROM p").reads_everything
    assert only("SELECT p.* FROM p").reads_everything
    assert not only("SELECT COUNT(*) FROM p").reads_everything
    assert not only("SELECT * FROM (SELECT age FROM p) t").reads_everything
    assert not only("SELECT age FROM p WHERE EXISTS (SELECT * FROM q)").reads_everything


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("age > 50", OVER_50),
        ("50 < age", OVER_50),
        ("(age > -1.5)", Compared("age", ">", "-1.5")),
        ("age BETWEEN 3 AND 5", All((Compared("age", ">=", "3"), Compared("age", "<=", "5")))),
        ("job IN ('a', 'b')", Some((Compared("job", "=", "a"), Compared("job", "=", "b")))),
        ("job <> 'a' OR age > 50", Some((Not(Compared("job", "=", "a")), OVER_50))),
        ("NOT age > 50 AND job LIKE 'a%'", All((Not(OVER_50), Compared("job", "like", "a%")))),
        ("born >= DATE '1980-12-31'", Compared("born", ">=", "1980-12-31")),
        ("age IS NULL", Compared("age", "missing")),
        ("age > income AND age > 50", All((UNKNOWN, OVER_50))),
        ("ABS(age) > 50", UNKNOWN),
    ],
)
def test_which_records_are_asked_for(where: str, expected: Condition) -> None:
    assert only(f"SELECT job FROM p WHERE {where}").wanted == (expected,)


def test_conditions_are_about_the_columns_behind_names() -> None:
    inside = "SELECT * FROM (SELECT {} AS a FROM p) t WHERE a > 50"
    assert only(inside.format("age")).wanted == (OVER_50,)
    assert only(inside.format("AVG(age)")).wanted == (UNKNOWN,)
    assert only("SELECT AVG(pay) AS age FROM p WHERE age > 50").wanted == (OVER_50,)


def test_statements_end_with_a_semicolon_or_where_the_next_begins_a_line() -> None:
    log = parse_query_log(
        "SELECT age FROM p; SELECT job FROM p\nSELECT sex\nFROM p\nUNION\nSELECT town FROM p;\nCOMMIT;", "q.sql"
    )
    assert [[each.name for each in query.features] for query in log.queries] == [["age"], ["job"], ["sex", "town"]]
    assert [query.line for query in log.queries] == [1, 1, 2]
    assert log.passed_over == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "q.sql: no query; a log has SELECT statements"),
        ("-- nothing\n", "q.sql: no query; a log has SELECT statements"),
        ("SET a = 1; COMMIT", "q.sql: no query among 2 statements; a log has SELECT statements"),
        ("SELECT age FROM p;\nSELECT FROM p WHERE;", "q.sql: line 2: cannot be read as SQL"),
        ("SELECT age FROM p;\n\nage, job", "q.sql: line 3: cannot be read as SQL"),
        ("SELECT age\nFROM p WHERE job = 'HIV", "q.sql: line 2: cannot be read as SQL: a quotation does not end"),
        ("SELECT " + "(" * 5000, "q.sql: line 1: cannot be read as SQL"),
        ("SELECT * FROM p, p", "q.sql: line 1: cannot be read as SQL"),
        ("SELECT LATERAL .", "q.sql: line 1: cannot be read as SQL"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_log_is_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        parse_query_log(text, "q.sql")
    assert error.value.lines == (message,)


def test_columns_are_found_as_sql_finds_them() -> None:
    log = parse_query_log("SELECT AGE, job FROM p;\nSELECT agee FROM p;\nSELECT agee, x FROM p", "q.sql")
    with pytest.raises(DataError) as error:
        log.check_columns(["age", "job", "Job"])
    assert error.value.lines == (
        'q.sql: line 2: no column "agee" in the job (did you mean "age"?)',
        'q.sql: line 3: no column "x" in the job',
    )
    first = parse_query_log("SELECT AGE, job FROM p", "q.sql")
    assert first.check_columns(["age", "job", "Job"]) == {"AGE": "age", "job": "job"}


def test_names_that_may_be_something_else_are_left_out() -> None:
    joined = "SELECT p.age FROM p JOIN q ON p.id = q.person WHERE q.town = 'x'"
    given = "SELECT age + 1 AS older FROM p WHERE older > 50"
    for text in (joined, given):
        assert parse_query_log(text, "q.sql").check_columns(["age", "job"]) == {"age": "age"}
    with pytest.raises(DataError, match="agee"):
        parse_query_log("SELECT AVG(agee) AS agee FROM p", "q.sql").check_columns(["age"])


def test_files(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_bytes("\ufeffSELECT age FROM p".encode())
    assert read_query_log(tmp_path / "q.sql").queries
    (tmp_path / "q.sql").write_bytes(b"SELECT age\nFROM p WHERE job = '\xff'")
    with pytest.raises(DataError, match=r"q.sql: line 2: the text is not UTF-8"):
        read_query_log(tmp_path / "q.sql")
    with pytest.raises(DataError, match=r"no.sql: there is no such file"):
        read_query_log(tmp_path / "no.sql")
    with pytest.raises(DataError, match="a folder, where a file is expected"):
        read_query_log(tmp_path)
    with pytest.raises(ParameterError, match=r"The dialect parameter of weights must be one of .*postgres"):
        parse_query_log("SELECT 1", "q.sql", "pastgres")


def test_a_dialect_has_quotation_marks_of_its_own() -> None:
    log = parse_query_log("SELECT `marital-status` FROM p", "q.sql", "mysql")
    assert [each.name for each in log.queries[0].features] == ["marital-status"]
