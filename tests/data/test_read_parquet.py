"""Parquet files: projection, types, damage."""

from __future__ import annotations

import datetime
import decimal
import io
import re
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from data.reading import EVERY_COLUMN
from examples import examples
from masquerade.data import Table, TableFile, is_partitioned, partitioned_files
from masquerade.data.read_parquet import read_parquet, read_partitioned
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


# --- folders and globs of files as one table ---


def write(path: Path, numbers: list[int], row_group_size: int = 2, **more: list[object]) -> None:
    path.parent.mkdir(exist_ok=True)
    table = pa.table({"number": pa.array(numbers, pa.int64()), "word": [f"w{n}" for n in numbers], **more})
    pyarrow.parquet.write_table(table, path, row_group_size=row_group_size)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "people" / "b.parquet", [3, 4, 5])
    write(tmp_path / "people" / "a.parquet", [0, 1, 2])
    write(tmp_path / "people" / "_temporary.parquet", [9])
    write(tmp_path / "people" / ".hidden.parquet", [9])
    (tmp_path / "people" / "_SUCCESS").touch()
    return tmp_path


@pytest.mark.parametrize("source", ["people", "people/*.parquet", "peop*/[ab].parquet"])
def test_the_files_are_one_table_in_the_order_of_their_names(folder: Path, source: str) -> None:
    assert is_partitioned(source, folder)
    found = TableFile(source, base=folder).read(["number"])
    assert found.table.column("number").to_pylist() == [0, 1, 2, 3, 4, 5]
    assert found.all_columns == ("number", "word")


def test_parts_are_row_groups_up_to_a_size(folder: Path) -> None:
    parts = partitioned_files("people", folder).parts(2)
    assert [(Path(each.path).name, each.row_groups, each.first_row, each.rows) for each in parts] == [
        ("a.parquet", (0,), 0, 2),
        ("a.parquet", (1,), 2, 1),
        ("b.parquet", (0,), 0, 2),
        ("b.parquet", (1,), 2, 1),
    ]
    assert [part.rows for part in partitioned_files("people", folder).parts(100)] == [3, 3]
    assert parts[2].read(["number"])["number"].to_pylist() == [3, 4]


def test_a_file_that_changed_is_noticed(folder: Path) -> None:
    part = partitioned_files("people", folder).parts(2)[0]
    write(folder / "people" / "a.parquet", [7, 7, 7, 7])
    with pytest.raises(DataError, match=r"a\.parquet: the file has changed while it was in use"):
        part.read(["number"])


def test_a_column_of_some_files_is_known_and_not_read_without_being_named(folder: Path) -> None:
    """An identifier that only a later file has must not go unnoticed."""
    write(folder / "people" / "c.parquet", [6], ssn=["123"])
    assert partitioned_files("people", folder, ["number"]).columns == ("number", "word", "ssn")
    with pytest.raises(DataError, match=r'a\.parquet: no column "ssn", which c\.parquet has'):
        partitioned_files("people", folder)


def test_files_must_have_the_same_columns(folder: Path) -> None:
    write(folder / "people" / "c.parquet", [6], more=[1])
    read_partitioned("people", folder, columns=["number"])
    with pytest.raises(DataError, match=re.escape('no column "age"')):
        partitioned_files("people", folder, ["age"])
    pyarrow.parquet.write_table(pa.table({"number": ["six"]}), folder / "people" / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: column number is of type string, and in a\.parquet int64"):
        partitioned_files("people", folder, ["number"])
    with pytest.raises(DataError, match=r'c\.parquet: no column "word", which a\.parquet has'):
        partitioned_files("people", folder, ["word"])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("empty", "the folder holds no Parquet file"),
        ("people/x*.parquet", "no file fits the pattern"),
        ("broken", "bad.parquet: not a sound Parquet file"),
        ("nobody", "there is no row of data"),
    ],
)
def test_what_cannot_be_read_says_why(folder: Path, source: str, said: str) -> None:
    (folder / "empty").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "bad.parquet").write_bytes(b"PAR1 no")
    write(folder / "nobody" / "none.parquet", [])
    with pytest.raises(DataError, match=re.escape(said)):
        partitioned_files(source, folder)


@pytest.mark.parametrize("source", ["people.csv", "sqlite:///a?b=[1]", "a[1].csv", "missing"])
def test_other_sources_are_no_parts(folder: Path, source: str) -> None:
    assert not is_partitioned(source, folder)
