"""Folders and globs of Parquet files as one table."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from masquerade.data import TableFile, is_partitioned, partitioned_files
from masquerade.data.read_parquet import read_partitioned
from masquerade.errors import DataError


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
