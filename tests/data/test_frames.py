"""Any frame in, any frame out, and the frame that came in stays as it was."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from masquerade.data import Attribute, Schema, Table
from masquerade.errors import DataError, ParameterError

PEOPLE: dict[str, list[Any]] = {
    "age": [30, 41, 7, 41],
    "job": ["nurse", "smith", None, "nurse"],
    "income": [1.5, 2.0, 3.25, -4.0],
    "born": [datetime.date(1990, 1, day) for day in (1, 2, 3, 4)],
    "member": [True, False, True, True],
}


def pandas_frame() -> pd.DataFrame:
    return pd.DataFrame(PEOPLE)


def arrow_table() -> pa.Table:
    return pa.table(PEOPLE)


def duckdb_relation() -> Any:
    people = arrow_table()
    return duckdb.connect().from_arrow(people)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": pandas_frame,
    "pandas category": lambda: pandas_frame().astype({"job": "category"}),
    "pandas object": lambda: pandas_frame().astype({"job": object}),
    "pandas with an index": lambda: pandas_frame().set_index(np.array([9, 8, 8, 5])),
    "polars": lambda: pl.DataFrame(PEOPLE),
    "polars categorical": lambda: pl.DataFrame(PEOPLE).with_columns(pl.col("job").cast(pl.Categorical)),
    "polars enum": lambda: pl.DataFrame(PEOPLE).with_columns(pl.col("job").cast(pl.Enum(["smith", "nurse", "x"]))),
    "polars in chunks": lambda: pl.concat([pl.DataFrame(PEOPLE).head(1), pl.DataFrame(PEOPLE).tail(3)], rechunk=False),
    "pyarrow": arrow_table,
    "pyarrow views": lambda: arrow_table().set_column(1, "job", pa.array(PEOPLE["job"], pa.string_view())),
    "pyarrow batch": lambda: arrow_table().to_batches()[0],
    "pyarrow reader": lambda: arrow_table().to_reader(),
    "duckdb": duckdb_relation,
    "a Table": lambda: Table(arrow_table()),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_work_as_tables(kind: str) -> None:
    schema = Schema([Attribute("age", "continuous"), Attribute("job", taxonomy="flat"), Attribute("born", "date")])
    table = Table(FRAMES[kind](), schema).complete(["age", "job"])
    assert (len(table), table.dropped_rows) == (3, 1)
    assert table.column("age").ranks.tolist() == [0, 1, 1]
    assert table.column("job").ranks.tolist() == [0, 1, 0]
    assert table.column("born").ranks.tolist() == [0, 1, 2]
    assert table.coded("job").labels == ("nurse", "smith")
    assert table.coded("member").codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("kind", [kind for kind in FRAMES if kind not in ("pyarrow reader", "duckdb")])
def test_the_frame_stays_as_it_was(kind: str) -> None:
    frame = FRAMES[kind]()
    before = copy.deepcopy(pa.table(frame).to_pydict()), pa.table(frame).schema
    Table(frame, Schema([Attribute("job", taxonomy="flat")])).complete(["job"]).column("job")
    assert (pa.table(frame).to_pydict(), pa.table(frame).schema) == before


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_come_in_and_go_out(kind: str) -> None:
    table = Table(FRAMES[kind]())
    kinds = [attribute.kind for attribute in table.schema]
    assert kinds == ["continuous", "categorical", "continuous", "date", "categorical"]
    assert pl.DataFrame(table).with_columns(pl.col("job").cast(pl.String)).to_dict(as_series=False) == PEOPLE
    assert pa.table(table).to_pydict() == PEOPLE
    assert pa.RecordBatchReader.from_stream(table).read_all().to_pydict() == PEOPLE
    frame = pa.table(table).to_pandas()
    assert frame["age"].tolist() == PEOPLE["age"]
    assert [None if pd.isna(job) else job for job in frame["job"]] == PEOPLE["job"]


def test_a_named_index_is_a_column() -> None:
    table = Table(pandas_frame().set_index(pd.Index(["w", "x", "y", "z"], name="ssn")))
    assert table.arrow.column("ssn").to_pylist() == ["w", "x", "y", "z"]


@pytest.mark.skipif(not hasattr(pd.DataFrame, "from_arrow"), reason="pandas before 3 takes no Arrow streams")
def test_pandas_takes_a_table_itself() -> None:
    frame = pd.DataFrame.from_arrow(Table(arrow_table()))
    assert frame["income"].tolist() == PEOPLE["income"]


def test_duckdb_queries_what_came_out() -> None:
    people = pa.table(Table(pl.DataFrame(PEOPLE)))
    relation = duckdb.connect().from_arrow(people)
    result = relation.aggregate("job, sum(age)::bigint AS years", "job").order("job NULLS LAST").fetchall()
    assert result == [("nurse", 71), ("smith", 41), (None, 7)]


def test_a_dropped_row_stays_out() -> None:
    table = Table(pandas_frame()).complete(["job"])
    assert pl.DataFrame(table)["age"].to_list() == [30, 41, 41]


@pytest.mark.parametrize("frame", [PEOPLE, [1, 2], "people.csv", None, pl.LazyFrame(PEOPLE)], ids=type)
def test_what_is_no_frame(frame: object) -> None:
    with pytest.raises(ParameterError) as caught:
        Table(frame)
    assert str(caught.value) == (
        "a table must offer __arrow_c_stream__, as pandas, polars, pyarrow and DuckDB frames do; "
        f"got {type(frame).__name__} instead"
    )


@pytest.mark.parametrize(
    "frame",
    [pl.Series("age", [1, 2]), pa.chunked_array([[1]]), pd.DataFrame({"x": pd.Series([1, "a", None], dtype=object)})],
    ids=["a series", "an array", "a column of mixed objects"],
)
def test_frames_that_are_no_table(frame: object) -> None:
    with pytest.raises(DataError, match=rf"^the {type(frame).__name__} cannot become an Arrow table( \(.*\))?$"):
        Table(frame)
