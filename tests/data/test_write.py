"""Writing: the exact bytes, the round trip, and all or nothing."""

from __future__ import annotations

import csv
import datetime
import decimal
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from examples import examples
from full_disk import no_file_above
from masquerade.data import count_formulas, csv_lines, escape_formulas, unescape_formulas, write_table
from masquerade.data.read_csv import read_csv
from masquerade.errors import ParameterError

cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(
    ["", " ", '"', '""', "\n", "\r\n", "\r", ",", ";", "NA", "\ufeff", "[1, 37)", "𝄞", '","', "x\ny"]
)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8)
)


def text_of(table: pa.Table, separator: str = ",") -> str:
    return b"".join(csv_lines(table, separator)).decode()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def coded(values: list[str | None]) -> pa.DictionaryArray:
    return pa.array(values, pa.string()).dictionary_encode()


def test_only_cells_that_need_quotes_have_them(tmp_path: Path) -> None:
    table = pa.table(
        {
            "age": coded(["[1, 37)", "[37, 99)", "any"]),
            "job": ["plain text", 'say "hi"', "two\nlines"],
            "note, too": ["", None, " spaced "],
        }
    )
    write_table(table, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes().decode() == (
        'age,job,"note, too"\n"[1, 37)",plain text,\n"[37, 99)","say ""hi""",\nany,"two\nlines", spaced \n'
    )


@pytest.mark.parametrize("separator", [";", "\t", "|", "^", "]", "\\", "-", ".", " ", "a", "§"])
def test_the_separator_decides_what_needs_quotes(separator: str) -> None:
    table = pa.table({"x": ["[1, 2)", f"p{separator}q"], "y": coded(["z", f"{separator}"])})
    first = f'"[1{","} 2)"' if separator == " " else "[1, 2)"
    assert text_of(table, separator) == (
        f'x{separator}y\n{first}{separator}z\n"p{separator}q"{separator}"{separator}"\n'
    )


def test_numbers_dates_and_booleans_are_plain_text() -> None:
    table = pa.table(
        {
            "i": [1, -2],
            "f": [1.0, 0.1],
            "big": [1e15, 1e300],
            "b": [True, None],
            "d": [datetime.date(2020, 1, 2), None],
            "t": [datetime.datetime(2020, 1, 2, 3, 4, 5), datetime.datetime(2020, 1, 2, 3, 4, 5, 250000)],
            "z": pa.array([datetime.datetime(2020, 1, 2)] * 2, pa.timestamp("us", "UTC")),
            "n": [decimal.Decimal("1.10"), decimal.Decimal("12345678901234567890.25")],
            "null": pa.nulls(2),
            "code": pa.array([7, 8]).dictionary_encode(),
        }
    )
    assert text_of(table).splitlines() == [
        "i,f,big,b,d,t,z,n,null,code",
        "1,1,1000000000000000,True,2020-01-02,2020-01-02 03:04:05,2020-01-02 00:00:00Z,1.10,,7",
        "-2,0.1,1e+300,,,2020-01-02 03:04:05.250000,2020-01-02 00:00:00Z,12345678901234567890.25,,8",
    ]


def test_an_empty_cell_that_is_a_whole_line_is_quoted(tmp_path: Path) -> None:
    for column in (["", None, "x"], coded(["", None, "x"])):
        write_table(pa.table({"a": column}), tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text() == 'a\n""\n""\nx\n'
        assert read_csv(tmp_path / "out.csv").table.to_pydict() == {"a": ["", "", "x"]}


def test_every_kind_of_text_and_dictionary() -> None:
    values = ["a,b", "c", None]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert text_of(pa.table({"x": pa.array(values, kind), "y": [1, 2, 3]})) == 'x,y\n"a,b",1\nc,2\n,3\n'
    holes = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.uint8()), pa.array(["a,b", None, ""]))
    assert text_of(pa.table({"x": holes, "y": [1, 2, 3, 4]})) == 'x,y\n"a,b",1\n,2\n,3\n,4\n'


def test_chunks_with_dictionaries_of_their_own() -> None:
    chunks = pa.chunked_array([coded(["a", "b,c"]), coded(["d", "a"]), coded([]), coded(["b,c"])])
    assert text_of(pa.table({"x": chunks, "y": range(5)})) == 'x,y\na,0\n"b,c",1\nd,2\na,3\n"b,c",4\n'
    assert text_of(pa.table({"x": chunks, "y": range(5)}).slice(1, 3)) == 'x,y\n"b,c",1\nd,2\na,3\n'


def test_many_rows_are_written_in_pieces(tmp_path: Path) -> None:
    table = pa.table({"n": range(200_000), "parity": coded(["even", "o,d"] * 100_000)})
    pieces = list(csv_lines(table))
    assert len(pieces) > 2
    assert max(len(piece) for piece in pieces) < 2_000_000
    write_table(table, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[1:] == [[str(number), "o,d" if number % 2 else "even"] for number in range(200_000)]


def test_a_table_without_rows_is_its_header(tmp_path: Path) -> None:
    write_table(pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())}), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "a,b\n"


@pytest.mark.parametrize("name", ["out.parquet", "out.pq", "OUT.PARQUET"])
def test_parquet(tmp_path: Path, name: str) -> None:
    table = pa.table({"age": coded(["[1, 37)", "any"]), "n": [1, 2]})
    write_table(table, tmp_path / name)
    assert pq.read_table(tmp_path / name).to_pydict() == table.to_pydict()
    assert left_in(tmp_path) == [name]


@given(table=tables, separator=st.sampled_from([",", ";", "\t", "^", "]", "§"]), as_codes=st.booleans())
@example([[""]], ",", False)
@settings(max_examples=examples(200), deadline=None)
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]], separator: str, as_codes: bool
) -> None:
    names = [f"c{number}" for number in range(len(table[0]))]
    columns = [coded(list(column)) if as_codes else pa.array(column) for column in zip(*table, strict=True)]
    path = tmp_path_factory.getbasetemp() / "round.csv"
    write_table(pa.table(columns, names=names), path, separator)
    source = read_csv(path, separator=separator)
    assert [list(row.values()) for row in source.table.to_pylist()] == table
    with path.open(newline="", encoding="utf-8") as file:  # and to others
        assert list(csv.reader(file, delimiter=separator)) == [names, *table]


@given(names=st.lists(cells.map(str.strip).filter(bool), min_size=1, max_size=4, unique=True))
@example(["\ufeffa"])
@settings(max_examples=examples(100), deadline=None)
def test_names_read_back_the_same(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "names.csv"
    write_table(pa.table([pa.array(["x"]) for _ in names], names=names), path)
    assert read_csv(path).all_columns == tuple(names)


# --- all or nothing ---


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_failure_leaves_what_was_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = pa.table({"n": range(100_000)})
    with no_file_above(4096), pytest.raises(ParameterError, match="cannot be written: File too large"):
        write_table(table, path)
    assert left_in(tmp_path) == []
    path.write_text("old")
    with no_file_above(4096), pytest.raises(ParameterError, match="cannot be written: File too large"):
        write_table(table, path)
    assert left_in(tmp_path) == [name]
    assert path.read_text() == "old"


def test_a_table_that_cannot_be_csv_leaves_nothing(tmp_path: Path) -> None:
    for table in (pa.table({"a": [[1]]}), pa.table({"a": [b"x"]}), pa.table({})):
        with pytest.raises(ParameterError, match="cannot be written as CSV"):
            write_table(table, tmp_path / "out.csv")
        assert left_in(tmp_path) == []


@pytest.mark.system
def test_a_killed_process_leaves_no_partial_file(tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("old")
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nimport pyarrow as pa\n"
        "import masquerade.data.write as write\n"
        "lines = write.csv_lines\n"
        "def dying(table, separator):\n    yield next(lines(table, separator))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "write.csv_lines = dying\nwrite.write_table(pa.table({'a': [1]}), Path(sys.argv[1]))\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path / "out.csv")], check=False)
    assert run.returncode == -signal.SIGKILL
    assert (tmp_path / "out.csv").read_text() == "old"
    assert list(tmp_path.glob("*.csv")) == [tmp_path / "out.csv"]


def test_a_new_file_has_the_rights_that_any_new_file_has(tmp_path: Path) -> None:
    write_table(pa.table({"a": [1]}), tmp_path / "out.csv")
    (tmp_path / "other.csv").write_text("")
    assert (tmp_path / "out.csv").stat().st_mode == (tmp_path / "other.csv").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "out.csv").symlink_to(tmp_path / "far" / "real.csv")
    write_table(pa.table({"a": [1]}), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").is_symlink()
    assert (tmp_path / "far" / "real.csv").read_text() == "a\n1\n"
    assert left_in(tmp_path / "far") == ["real.csv"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for path, reason in [
        (tmp_path / "no" / "out.csv", f"there is no folder {tmp_path / 'no'}"),
        (tmp_path / "folder.csv", "a folder"),
        (tmp_path / "pipe.csv", "not a file"),
        (tmp_path / "loop.csv", "loop"),
        (Path("/proc/out.csv"), "No such file or directory"),
        (tmp_path / "a\0.csv", "embedded null"),
        (tmp_path / ("n" * 300 + ".csv"), "File name too long"),
    ]:
        with pytest.raises(ParameterError) as caught:
            write_table(table, path)
        assert "\0" in str(path) or str(caught.value).startswith(f"{path}: cannot be written: ")
        assert reason in str(caught.value)
    assert left_in(tmp_path) == ["folder.csv", "loop.csv", "pipe.csv"]


def test_a_folder_that_may_not_be_written(without_rights: Path) -> None:
    for name in ("out.csv", "secret.csv"):
        with pytest.raises(ParameterError, match=f"{name}: cannot be written: Permission denied$"):
            write_table(pa.table({"a": [1]}), without_rights / name)
    assert left_in(without_rights) == ["secret.csv"]


def test_endings_and_separators_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r'cannot be written as ".xlsx"; allowed are .csv, .tsv, .*.parquet'):
        write_table(pa.table({"a": [1]}), tmp_path / "out.xlsx")
    with pytest.raises(ParameterError, match="separator must be a single character"):
        write_table(pa.table({"a": [1]}), tmp_path / "out.csv", ",,")
    assert left_in(tmp_path) == []


# --- cells that a spreadsheet would run ---


FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd", "\t=1", "\r=1", "=", "-"]
HARMLESS = ["", "a=b", "-5", "+3.5e-7", "1,234", "[-inf, 37)", "'tis", "O'Neil", "10%"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(cell: str) -> None:
    assert escape_formulas(pa.table({"note": [cell]}))["note"].to_pylist() == ["'" + cell]


@pytest.mark.parametrize("cell", HARMLESS)
def test_other_cells_stay_as_they_are(cell: str) -> None:
    assert escape_formulas(pa.table({"note": [cell]}))["note"].to_pylist() == [cell]


@settings(max_examples=examples(200))
@given(st.lists(st.none() | st.text("=+-@'\t\ra1 ", max_size=5), max_size=6))
def test_escaped_cells_are_given_back(cells: list[str | None]) -> None:
    plain = pa.table({"a": pa.array(cells, pa.string()), "n": list(range(len(cells)))})
    coded = plain.set_column(0, "a", plain["a"].dictionary_encode())
    for table in (plain, coded):
        escaped = escape_formulas(table)
        assert unescape_formulas(escaped).equals(table)
        assert not any(each and each[0] in "=@\t\r" for each in escaped["a"].to_pylist())


def test_formulas_are_counted_by_column() -> None:
    texts = pa.chunked_array([["=1", "b", None], ["=1", "-7", "@x"]])
    table = pa.table({"plain": texts, "coded": texts.dictionary_encode(), "n": range(6), "none": ["a"] * 6})
    assert count_formulas(table) == {"plain": 3, "coded": 3}
