"""Parquet files: projection, types, damage."""

from __future__ import annotations

import datetime
import decimal
import io
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from data.reading import EVERY_COLUMN
from examples import examples
from masquerade.data import Table
from masquerade.data.read_parquet import read_parquet
from masquerade.errors import DataError, MasqueradeError

PEOPLE = pa.table(
    {
        "name": ["Ann", "Bo", None],
        "age": pa.array([30, 41, 7], pa.int16()),
        "salary": [1.5, None, 2.0],
        "born": [datetime.date(1990, 1, 2)] * 3,
        "seen": [datetime.datetime(2020, 1, 2, 3, 4, 5)] * 3,
        "member": [True, False, None],
        "debt": [decimal.Decimal("1.10"), decimal.Decimal("2.25"), None],
    }
)


def stored(tmp_path: Path, table: pa.Table, **options: object) -> Path:
    path = tmp_path / "people.parquet"
    pq.write_table(table, path, **options)
    return path


def problem(path: Path, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        read_parquet(path, **options)  # type: ignore[arg-type]
    assert len(caught.value.lines) == 1
    assert "\n" not in str(caught.value)
    return caught.value.lines[0].removeprefix(f"{path}: ")


def test_a_file_comes_with_its_types(tmp_path: Path) -> None:
    source = read_parquet(stored(tmp_path, PEOPLE))
    assert source.table.schema.types == PEOPLE.schema.types
    assert source.table.to_pydict() == PEOPLE.to_pydict()
    assert source.all_columns == tuple(PEOPLE.column_names)
    assert source.origin.problem("", 0).place == f"{tmp_path / 'people.parquet'}: row 1"


def test_only_the_asked_columns_in_the_asked_order(tmp_path: Path) -> None:
    source = read_parquet(stored(tmp_path, PEOPLE), columns=["age", "name"])
    assert source.table.to_pydict() == {"age": [30, 41, 7], "name": ["Ann", "Bo", None]}
    assert source.all_columns == tuple(PEOPLE.column_names)


def test_a_dot_in_a_name_means_nothing(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.table({"a": [1], "a.b": [2]}))
    assert read_parquet(path, columns=["a"]).table.to_pydict() == {"a": [1]}
    assert read_parquet(path, columns=["a.b"]).table.to_pydict() == {"a.b": [2]}


def test_coded_text_shares_one_dictionary_over_row_groups(tmp_path: Path) -> None:
    table = pa.table({"town": ["Bonn", "Ulm", "Bonn", "Jena"] * 100, "n": range(400)})
    path = stored(tmp_path, table, row_group_size=37)
    town = read_parquet(path, coded=EVERY_COLUMN).table.column("town")
    assert pa.types.is_dictionary(town.type)
    assert all(chunk.dictionary.equals(town.chunk(0).dictionary) for chunk in town.chunks)
    assert town.to_pylist() == table.column("town").to_pylist()
    assert read_parquet(path, coded=EVERY_COLUMN).table.column("n").type == pa.int64()


def test_what_arrow_wraps_comes_plain(tmp_path: Path) -> None:
    identity = uuid.UUID(int=7)
    path = stored(tmp_path, pa.table({"id": pa.array([identity.bytes, None], pa.uuid())}))
    assert read_parquet(path).table.to_pydict() == {"id": [str(identity), None]}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([[1], [2]]), "list<"),
        (pa.array([{"x": 1}, {"x": 2}]), "struct<"),
        (pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())), "map<"),
        (pa.array([b"\x00", b"\xff"]), "binary"),
    ],
    ids=["list", "struct", "map", "binary"],
)
def test_cells_that_are_no_cells(tmp_path: Path, column: pa.Array, kind: str) -> None:
    path = stored(tmp_path, pa.table({"age": [1, 2], "visits": column}))
    assert problem(path).startswith(f"column visits is of type {kind}")
    assert problem(path, columns=["visits"]).startswith(f"column visits is of type {kind}")
    assert read_parquet(path, columns=["age"]).table.to_pydict() == {"age": [1, 2]}


def test_one_clear_line(tmp_path: Path) -> None:
    path = stored(tmp_path, PEOPLE)
    assert problem(path, columns=["agee"]).startswith('no column "agee" (did you mean "age"?); the columns are: name,')
    assert problem(stored(tmp_path, PEOPLE.slice(0, 0))) == "there is no row of data"
    doubled = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    assert problem(stored(tmp_path, doubled)) == "column a occurs more than once"
    assert problem(stored(tmp_path, pa.table({"": [1]}))) == "column 1 has no name"
    path.write_bytes(b"")
    assert problem(path).startswith("not a sound Parquet file")
    path.write_text("name,age\nAnn,30\n")
    assert problem(path).startswith("not a sound Parquet file")
    assert "there is no such file" in problem(tmp_path / "nobody.parquet")
    assert problem(tmp_path) == "a folder, where a file is expected"


def test_text_that_is_no_text(tmp_path: Path) -> None:
    broken = pa.array([b"ok", b"\xff"]).view(pa.string())
    assert problem(stored(tmp_path, pa.table({"name": broken}))) == (
        "column name holds text that is not UTF-8, or is damaged"
    )


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC")], ids=str
)
def test_dates_that_no_calendar_has(tmp_path: Path, kind: pa.DataType) -> None:
    first, last = datetime.date.min, datetime.date.max
    outside = pa.array([(last - datetime.date(1970, 1, 1)).days + 1], pa.int32()).cast(pa.date32()).cast(kind)
    path = stored(
        tmp_path, pa.table({"born": pa.concat_arrays([pa.array([first, None], pa.date32()).cast(kind), outside])})
    )
    assert problem(path) == "column born holds a date outside the years 1 to 9999"
    path = stored(tmp_path, pa.table({"born": pa.array([first, last, None], pa.date32()).cast(kind)}))
    assert read_parquet(path).table.num_rows == 3


def test_a_table_from_a_file_is_ready_for_use(tmp_path: Path) -> None:
    source = read_parquet(stored(tmp_path, PEOPLE), coded=EVERY_COLUMN)
    table = Table(source.table, origin=source.origin)
    assert table.complete(["name"]).coded("name").labels == ("Ann", "Bo")
    assert len(table.complete(["name", "salary"])) == 1


@given(content=st.binary(max_size=120))
@settings(max_examples=examples(60), deadline=None)
def test_any_bytes_are_explained(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.parquet"
    for shape in (content, b"PAR1" + content + b"PAR1"):
        path.write_bytes(shape)
        assert problem(path)


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_damaged_files_read_or_are_explained(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    written = io.BytesIO()
    pq.write_table(PEOPLE, written, compression="none")
    content = bytearray(written.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.parquet"
    path.write_bytes(content)
    try:
        source = read_parquet(path, coded=EVERY_COLUMN)
    except MasqueradeError as error:
        explained = str(error)
    else:
        assert len(source.table.to_pylist()) > 0
        return
    assert explained.startswith(str(path))
