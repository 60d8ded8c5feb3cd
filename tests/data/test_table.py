"""Tables: what comes in, missing cells, and errors that name the place."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import Attribute, Origin, Schema, Table, TableFile, Taxonomy, infer_schema
from masquerade.errors import DataError, ParameterError
from strategies import tables

PEOPLE = pa.table({"age": ["30", "?", "41", None], "job": ["Baker", "Baker", " ", "Clerk"], "id": [1, 2, 3, 4]})


def test_doubled_columns_are_refused() -> None:
    frame = pa.table([pa.array([1]), pa.array([2])], names=["age", "age"])
    with pytest.raises(DataError, match=r"^people\.csv: column age occurs more than once$"):
        Table(frame, origin=Origin("people.csv"))


def test_without_a_schema_types_tell_the_kind() -> None:
    noon = datetime.datetime(2000, 1, 1, 12)
    frame = pa.table({"n": [1], "x": [1.5], "day": [noon.date()], "at": [noon], "word": ["a"], "flag": [True]})
    kinds = [attribute.kind for attribute in infer_schema(frame)]
    assert kinds == ["continuous", "continuous", "date", "date", "categorical", "categorical"]
    encoded = pa.table({"n": pa.chunked_array([[1, 2, 1]]).dictionary_encode()})
    assert infer_schema(encoded)["n"].kind == "continuous"


def test_an_unknown_column_is_told_with_its_likely_meaning() -> None:
    table = Table(PEOPLE, origin=Origin("people.csv"))
    with pytest.raises(DataError) as caught:
        table.cells("jbo")
    assert str(caught.value) == ('people.csv: no column "jbo" (did you mean "job"?); the columns are: age, job, id')
    with pytest.raises(ParameterError, match='no attribute "jbo"'):
        table.column("jbo")


def test_rows_with_a_missing_cell_in_a_used_column_are_dropped_and_counted() -> None:
    table = Table(PEOPLE, Schema([Attribute("age", "continuous")]), origin=Origin("people.csv"))
    kept = table.complete(["age"])
    assert kept.arrow["id"].to_pylist() == [1, 3]
    assert (kept.rows_read, kept.dropped_rows, len(kept)) == (4, 2, 2)
    both = table.complete(["age", "job"])
    assert both.arrow["id"].to_pylist() == [1]
    assert both.dropped_rows == 3
    assert kept.complete(["job"]).dropped_rows == 3
    assert table.complete(["id"]) is table
    assert len(table) == 4
    assert kept.column("age").ranks.tolist() == [0, 1]


def test_missing_cells_as_an_error_name_the_first_row() -> None:
    table = Table(PEOPLE, origin=Origin("people.csv", line_of=lambda row: row + 2))
    with pytest.raises(DataError) as caught:
        table.complete(["job", "age"], "error")
    assert str(caught.value) == ('people.csv: row 2 (line 3), column age: the cell is missing, and missing = "error"')
    assert table.complete(["id"], "error") is table


def test_rows_are_named_by_their_place_in_the_source_after_others_were_dropped() -> None:
    frame = pa.table({"age": ["?", "30", "31", "old"], "job": ["a", "?", "c", "d"]})
    table = Table(frame, Schema([Attribute("age", "continuous")]), origin=Origin("people.csv"))
    with pytest.raises(DataError, match=r'^people\.csv: row 4, column age: "old" is not a number'):
        table.complete(["age"]).complete(["job"]).column("age")


def test_all_missing_columns_at_once() -> None:
    with pytest.raises(DataError) as caught:
        Table(PEOPLE).complete(["agee", "job", "jobb"])
    assert [line.split(";")[0] for line in caught.value.lines] == [
        'table: no column "agee" (did you mean "age"?)',
        'table: no column "jobb" (did you mean "job"?)',
    ]


def test_the_problems_of_all_columns_at_once() -> None:
    frame = pa.table({"age": ["x"], "job": ["*"], "born": ["never"]})
    schema = Schema([Attribute("age", "continuous"), Attribute("job"), Attribute("born", "date")])
    with pytest.raises(DataError) as caught:
        Table(frame, schema).columns(["age", "job", "born"])
    assert len(caught.value.lines) == 3
    assert '"x" is not a number' in caught.value.lines[0]
    assert "needs a taxonomy" in caught.value.lines[1]
    assert '"never" is not a date' in caught.value.lines[2]


@pytest.mark.parametrize("cells", [[[1]], [{"a": 1}], [b"x"]], ids=["list", "struct", "binary"])
def test_columns_that_hold_no_values_are_refused_when_used(cells: list[object]) -> None:
    table = Table(pa.table({"odd": cells, "n": [1]}), origin=Origin("people.parquet"))
    assert len(table.complete(["n"])) == 1
    with pytest.raises(DataError, match=r"^people\.parquet: column odd holds .*; allowed are text, numbers, dates"):
        table.complete(["odd"])


def test_a_table_without_rows() -> None:
    empty = pa.table({"n": pa.array([], pa.int64()), "w": pa.array([], pa.string())})
    table = Table(empty, Schema([Attribute("n", "continuous"), Attribute("w", taxonomy="flat")]))
    assert table.complete(["n", "w"]) is table
    assert table.column("n").ranks.size == 0
    assert table.column("w").ranks.size == 0
    assert table.column("n") is table.column("n")  # computed once
    assert table.coded("n") is table.coded("n")


class Compared(str):
    """A name that counts how often it is compared with another."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)


def test_the_work_on_a_schema_does_not_grow_with_the_square_of_its_columns() -> None:
    names = [Compared(f"c{number}") for number in range(1000)]
    schema = Schema(map(Attribute, names))
    assert all(name in schema and schema[name].name == name for name in names)
    assert Compared.times < 10 * len(names)


def test_schemas_are_checked() -> None:
    with pytest.raises(ParameterError, match=r"^attribute age: listed twice$"):
        Schema([Attribute("age"), Attribute("age")])
    with pytest.raises(ParameterError, match="an identifier is never released"):
        Schema([Attribute("ssn")], identifiers=["ssn"])
    with pytest.raises(ParameterError, match="bounds belong to continuous and date attributes"):
        Attribute("job", lower=0)
    with pytest.raises(ParameterError, match="min must be below max"):
        Attribute("age", "continuous", lower=5, upper=5)
    schema = Schema([Attribute("age", "continuous"), Attribute("job")])
    assert schema.names == ("age", "job")
    assert "job" in schema
    assert "ssn" not in schema
    with pytest.raises(
        ParameterError, match=r'^no attribute "jop" \(did you mean "job"\?\); the attributes are: age, job$'
    ):
        schema["jop"]


@settings(max_examples=examples(40), deadline=None)
@given(tables(min_rows=2), st.data())
def test_dropping_rows_keeps_the_others_as_they_were(table: Table, data: st.DataObject) -> None:
    holes = data.draw(st.sets(st.integers(0, len(table) - 1), max_size=len(table) - 1))
    mark = ["?" if row in holes else "x" for row in range(len(table))]
    marked = Table(table.arrow.append_column("mark", pa.array(mark)), table.schema)
    kept = marked.complete(["mark"])
    rows = [row for row in range(len(table)) if row not in holes]
    assert kept.arrow.select(table.arrow.column_names).to_pylist() == table.arrow.take(rows).to_pylist()
    assert [kept.problem("", row) for row in range(len(kept))] == [table.problem("", row) for row in rows]


def test_which_texts_mean_a_missing_cell(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,job\n1,NA\n2,?\n3,clerk\n4,\n5, NULL \n")
    found = TableFile("t.csv", base=tmp_path, missing_values=("NA", "NULL", "")).read()
    complete = Table(found.table, origin=found.origin).complete(["job"])
    assert complete.arrow["age"].to_pylist() == ["2", "3"]


def test_cells_as_others_read_them() -> None:
    frame = pa.table({"born": ["31/12/1999", "01/02/2000"], "pay": ["1,50", "2"], "job": ["a,b", "c"]})
    schema = Schema(
        [
            Attribute("born", "date", format="%d/%m/%Y"),
            Attribute("pay", "continuous", decimal=","),
            Attribute("job", taxonomy="flat"),
        ]
    )
    table = Table(frame, schema)
    assert table.standard_cells("born").to_pylist() == ["1999-12-31", "2000-02-01"]
    assert table.standard_cells("pay").to_pylist() == ["1.5", "2"]
    assert table.standard_cells("job").to_pylist() == ["a,b", "c"]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["clerk", "cook", "smith"])), min_size=1), st.data())
def test_rows_are_encoded_alike_before_and_after_they_are_taken(
    rows: list[tuple[int, str]], data: st.DataObject
) -> None:
    """What was encoded serves the rows that are taken, and gives what their cells give."""
    work = Taxonomy.flat(["clerk", "cook", "smith"])
    ages, jobs = map(list, zip(*rows, strict=True))
    schema = Schema(
        [
            Attribute("age", "continuous"),
            Attribute("half", "continuous"),
            Attribute("job", taxonomy=work),
            Attribute("flat", taxonomy="flat"),
        ]
    )
    arrow = pa.table({"age": ages, "half": [age / 2 for age in ages], "job": jobs, "flat": jobs})
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1)), np.intp)
    whole = Table(arrow, schema)
    for column in whole.columns(arrow.column_names):
        assert column.ranks.size == len(rows)
    for name in arrow.column_names:
        taken, fresh = whole.take(chosen).column(name), Table(arrow, schema).take(chosen).column(name)
        assert taken.ranks.tolist() == fresh.ranks.tolist()
        assert taken.ranks.dtype == fresh.ranks.dtype
        assert taken.domain.size == fresh.domain.size
        assert [taken.domain.label(at, at + 1) for at in range(taken.domain.size)] == [
            fresh.domain.label(at, at + 1) for at in range(fresh.domain.size)
        ]
