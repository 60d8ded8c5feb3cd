"""CSV files: what is read, byte for byte, and the one line for everything that can be wrong with them."""

from __future__ import annotations

import csv
import io
import weakref
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

from data.reading import EVERY_COLUMN
from examples import examples
from masquerade.data import RawTable, read_csv as module, rows
from masquerade.data.read_csv import read_csv
from masquerade.errors import DataError, MasqueradeError, ParameterError

ADULT = Path(__file__).parents[2] / "../shared/data/adult/adult.data"
CODED = pa.dictionary(pa.int32(), pa.string())

cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.sampled_from(
    [
        *("", " ", '"', '""', "\n", "\r\n", "\r", ",", ";", '","', "x\ny"),
        *("NA", "null", "NaN", "\ufeff", "?", "007", "é", "𝄞"),
    ]
)
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=8)
)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return tmp_path / "people.csv"


def read(path: Path, content: bytes | str, **options: object) -> RawTable:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_csv(path, **options)  # type: ignore[arg-type]


def rows_of(source: RawTable) -> list[list[str]]:
    return [list(row.values()) for row in source.table.to_pylist()]


def problem(path: Path, content: bytes | str, **options: object) -> str:
    """The one line, without the folder."""
    with pytest.raises(DataError) as caught:
        read(path, content, **options)
    assert len(caught.value.lines) == 1
    message = caught.value.lines[0]
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_every_cell_is_the_text_it_is(people: Path) -> None:
    source = read(people, 'name,age,note\nAnn, 007 ,NA\n"Bo ""B"" Lee",,"a, b"\n?,null,"two\nlines"\n')
    assert rows_of(source) == [["Ann", " 007 ", "NA"], ['Bo "B" Lee', "", "a, b"], ["?", "null", "two\nlines"]]
    assert source.all_columns == ("name", "age", "note")
    assert set(source.table.schema.types) == {pa.string()}
    assert all(column.null_count == 0 for column in source.table.columns)


def test_only_the_asked_columns_are_read_in_the_asked_order(people: Path) -> None:
    source = read(people, "a,b,c\n1,2,3\n", columns=["c", "a", "c"])
    assert source.table.to_pydict() == {"c": ["3"], "a": ["1"]}
    assert source.all_columns == ("a", "b", "c")


def test_no_column_asked_still_counts_the_rows(people: Path) -> None:
    source = read(people, "a,b\n1,2\n3,4\n", columns=[])
    assert (source.table.num_rows, source.table.num_columns) == (2, 0)


def test_coded_columns_share_one_dictionary(people: Path) -> None:
    lines = "".join(f"{number % 7},{number}\n" for number in range(600_000))  # more than one of Arrow's blocks
    table = read(people, "digit,number\n" + lines, coded={"digit"}).table
    assert table.schema.types == [CODED, pa.string()]
    digits = table.column("digit")
    assert digits.num_chunks > 1
    assert all(chunk.dictionary.equals(digits.chunk(0).dictionary) for chunk in digits.chunks)
    assert sorted(digits.chunk(0).dictionary.to_pylist()) == list("0123456")
    assert digits.cast(pa.string()).to_pylist() == [str(number % 7) for number in range(600_000)]


def test_coded_cells_are_as_literal_as_others(people: Path) -> None:
    source = read(people, 'a\nNA\n""\nnull\n', coded=EVERY_COLUMN)
    assert source.table.schema.types == [CODED]
    assert source.table.column("a").to_pylist() == ["NA", "", "null"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("a,b\r\n1,2\r\n3,4\r\n", id="CRLF"),
        pytest.param("a,b\n1,2\n3,4", id="no final newline"),
        pytest.param("a,b\n1,2\n3,4\n\n\r\n\n", id="blank lines at the end"),
        pytest.param("\n\na,b\n\n1,2\n\n3,4", id="blank lines anywhere"),
        pytest.param("a,b\r1,2\r3,4\r", id="CR"),
        pytest.param('"a","b"\n"1","2"\n"3","4"\n', id="all quoted"),
        pytest.param(" a ,\tb\n1,2\n3,4\n", id="names with space around them"),
        pytest.param("\ufeffa,b\n1,2\n3,4\n", id="BOM"),
        pytest.param('\ufeff"a",b\n1,2\n3,4\n', id="BOM before a quote"),
    ],
)
def test_shapes_of_one_table(people: Path, content: str) -> None:
    assert read(people, content).table.to_pydict() == {"a": ["1", "3"], "b": ["2", "4"]}


@pytest.mark.parametrize("separator", [";", "\t", "|", " ", "^", "]", "\\", "-", ".", "a", "§", "→", "𝄞"])
def test_any_single_character_separates(people: Path, separator: str) -> None:
    content = f'x{separator}"y"\n1{separator}"2{separator}3"\n4{separator}\n'
    for coded in ((), EVERY_COLUMN):
        source = read(people, content, separator=separator, coded=coded)
        assert source.table.to_pydict() == {"x": ["1", "4"], "y": [f"2{separator}3", ""]}


@pytest.mark.parametrize("separator", ["", ",,", '"', "\n", "\r", "\0", "\ud800"])
def test_a_separator_that_cannot_be(people: Path, separator: str) -> None:
    with pytest.raises(ParameterError, match="separator must be a single character"):
        read(people, "a\n1\n", separator=separator)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "UTF8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1"]
)
def test_encodings(people: Path, encoding: str) -> None:
    source = read(people, "nom,Âge\nZoé,7\n".encode(encoding), encoding=encoding)
    assert source.table.to_pydict() == {"nom": ["Zoé"], "Âge": ["7"]}


def test_a_byte_order_mark_is_no_part_of_a_name(people: Path) -> None:
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        assert read(people, "\ufeffa\n1\n".encode(encoding), encoding=encoding).all_columns == ("a",)


def test_long_cells(people: Path) -> None:
    long = "x" * 200_000  # more than Python's csv takes
    longer = "y\n" * 3_000_000  # more than one of Arrow's blocks
    source = read(people, f'a,"{long}"\n1,{long}\n2,"{longer}"\n', columns=["a", long])
    assert source.table.column(long).to_pylist() == [long, longer]
    assert source.origin.problem("", 1).place.endswith("row 2 (line 3)")


def test_arrow_has_let_go_of_everything_when_the_table_is_there(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one of its threads aborts a process that ends at once, as a command does after a mistake."""
    made: list[weakref.ref[module._Guard]] = []

    class Noted(module._Guard):
        def __init__(self) -> None:
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(module, "_Guard", Noted)
    for number in range(100):
        read(people, f'a,b\n{number},x\n2,"y"\n')
        assert made[-1]() is None
    assert len(made) == 100


def test_the_line_of_a_row(people: Path) -> None:
    source = read(people, '\n"na\nme",b\r\n\r\n1,"x\r\ny"\r2,z\n\n3,w')
    assert [source.origin.line_of(row) for row in range(3)] == [5, 7, 9]  # type: ignore[misc]
    assert source.origin.problem("", 2).place == f"{people}: row 3 (line 9)"


def test_the_line_of_a_row_after_the_file_was_cut(people: Path) -> None:
    source = read(people, "a\n1\n2\n")
    people.write_text("a\n1\n")
    with pytest.raises(DataError, match="changed since it was read"):
        source.origin.problem("", 1)


def test_adult(people: Path) -> None:
    if not ADULT.exists():
        pytest.skip("the Adult data set is not beside the project (../shared/data/adult)")
    text = ADULT.read_text()
    names = ",".join(f"c{number}" for number in range(15))
    source = read(people, f"{names}\n{text}", coded=EVERY_COLUMN)
    assert source.table.num_rows == 32_561
    assert rows_of(source) == [row for row in csv.reader(io.StringIO(text)) if row]


# --- what can be wrong ---

NEVER_CLOSED = "a quote that opens in this row is never closed"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", "the file is empty; a header and rows are expected", id="0 bytes"),
        pytest.param("\ufeff\n\n", "the file is empty; a header and rows are expected", id="only blank lines"),
        pytest.param("a,b\n\n\r\n", "there is a header but no row of data", id="no rows"),
        pytest.param("a,b", "there is a header but no row of data", id="a header without newline"),
        pytest.param("a,,c\n1,2,3\n", "column 2 has no name", id="no name"),
        pytest.param("a, \n1,2\n", "column 2 has no name", id="a name of spaces"),
        pytest.param("a,b, a\n1,2,3\n", "column a occurs more than once", id="doubled"),
        pytest.param("a,b\n1,2\n3\n", "row 2 (line 3): 1 field, where the header has 2", id="too few"),
        pytest.param("a,b\n1,2\n\n3,4,5\n6\n", "row 2 (line 4): 3 fields, where the header has 2", id="too many"),
        pytest.param('a,b\n1,"x\ny"\n3\n', "row 2 (line 4): 1 field, where the header has 2", id="after a long row"),
        pytest.param('a,b\n1,2\n3,"x\n4,5\n', f"row 2 (line 3): {NEVER_CLOSED}", id="open"),
        pytest.param('a,b\n1,"x', f"row 1 (line 2): {NEVER_CLOSED}", id="open at the end"),
        pytest.param('a,b\n1,"x"",5\n', f"row 1 (line 2): {NEVER_CLOSED}", id="doubled end"),
        pytest.param('a,b\ni"j,"x""\n', f"row 1 (line 2): {NEVER_CLOSED}", id="even quotes"),
        pytest.param('a,"b\n1,2\n', "line 1: a quote that opens in the header is never closed", id="open header"),
        pytest.param(
            "a,b\n1,x\0y\n",
            'line 2: a NUL byte, which no text file holds; for UTF-16 set encoding = "utf-16"',
            id="NUL",
        ),
    ],
)
@pytest.mark.parametrize("columns", [None, ["a"]])
def test_one_clear_line(people: Path, content: str, expected: str, columns: list[str] | None) -> None:
    assert problem(people, content, columns=columns) == expected


def test_ragged_rows_far_into_a_file(people: Path) -> None:
    lines = [f"{number},{number}" for number in range(400_000)]
    lines[399_000] += ",x"
    assert problem(people, "a,b\n" + "\n".join(lines)) == "row 399001 (line 399002): 3 fields, where the header has 2"


@pytest.mark.parametrize(
    ("content", "encoding", "place", "advice"),
    [
        (b"a,b\n1,2\r\nZo\xe9,3\n", "utf-8", "line 3: the byte at offset 11 (0xe9)", "set encoding to the file's"),
        (b"\xef\xbb\xbfa\n\xff\n", "utf-8-sig", "line 2: the byte at offset 5 (0xff)", "set encoding"),
        ("a\n1\n".encode("utf-16"), "utf-8", "line 1: the byte at offset 0 (0xff)", 'set encoding = "utf-16"'),
        (b"a\n1\n\x81\n", "cp1252", "line 3: the byte at offset 4 (0x81) is not cp1252", "set encoding"),
        (b"a\n\xe9\n", "ascii", "line 2: the byte at offset 2 (0xe9) is not ascii", "set encoding"),
        ("a\n1\n".encode("utf-16") + b"x", "utf-16", "line 3: the byte at offset 10", "UTF-16"),
    ],
)
def test_broken_encoding(people: Path, content: bytes, encoding: str, place: str, advice: str) -> None:
    told = problem(people, content, encoding=encoding)
    assert told.startswith(place)
    assert advice in told


def test_broken_encoding_in_a_column_that_nobody_asked_for(people: Path) -> None:
    told = problem(people, b"a,b\n1,\xff\n", columns=["a"])
    assert told.startswith("line 2: the byte at offset 6 (0xff) is not utf-8")


@pytest.mark.parametrize("encoding", ["utf-9", "hex", "undefined", "", "a\0b", "ä"])
def test_unknown_encodings(people: Path, encoding: str) -> None:
    line = problem(people, "a\n1\n", encoding=encoding)
    assert line.startswith('unknown encoding "')
    assert "\0" in encoding or f'"{encoding}"; allowed are Python\'s names' in line


def test_missing_columns_are_named_together(people: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(people, "age,job,sex\n1,2,3\n", columns=["Age", "sex", "zip-code"])
    assert caught.value.lines == (
        f'{people}: no column "Age" (did you mean "age"?); the columns are: age, job, sex',
        f'{people}: no column "zip-code"; the columns are: age, job, sex',
    )


def test_all_doubled_columns_are_named(people: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(people, "b,a,b,a,c\n1,2,3,4,5\n")
    assert caught.value.lines == (
        f"{people}: column b occurs more than once",
        f"{people}: column a occurs more than once",
    )


def test_names_with_line_breaks_do_not_break_the_line(people: Path) -> None:
    assert problem(people, '"a\nb","a\nb"\n1,2\n') == "column a\\nb occurs more than once"
    assert problem(people, '"a\r\nb"\n1\n', columns=["x\ny"]) == 'no column "x\\ny"; the columns are: a\\r\\nb'


def test_files_that_do_not_open(people: Path, tmp_path: Path) -> None:
    people.write_text("a\n1\n")
    for path, told in (
        (tmp_path / "peoples.csv", r"peoples.csv: there is no such file \(did you mean \"people.csv\"\?\)$"),
        (tmp_path / "no" / "people.csv", "there is no such file, and no such folder"),
        (tmp_path, "a folder, where a file is expected"),
        (people / "below.csv", "cannot be read"),
        (tmp_path / "a\0b.csv", "cannot be read"),
    ):
        with pytest.raises(DataError, match=told):
            read_csv(path)


def test_a_file_that_may_not_be_read(without_rights: Path) -> None:
    with pytest.raises(DataError, match=r"secret.csv: the file may not be read \(permission denied\)$"):
        read_csv(without_rights / "secret.csv")


# --- properties ---


@given(table=tables, separator=st.sampled_from([",", ";", "\t", "§"]), coded=st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_what_python_writes_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]], separator: str, coded: bool
) -> None:
    written = io.StringIO()
    names = [f"c{number}" for number in range(len(table[0]))]
    csv.writer(written, delimiter=separator).writerows([names, *table])
    path = tmp_path_factory.getbasetemp() / "written.csv"
    source = read(path, written.getvalue(), separator=separator, coded=EVERY_COLUMN if coded else ())
    assert rows_of(source) == table
    for row in range(len(table)):  # the named line is where Python's reader, too, sees the row begin
        reader = csv.reader(io.StringIO(written.getvalue(), newline=""), delimiter=separator)
        for _ in range(row + 1):
            next(reader)
        assert source.origin.line_of is not None
        assert source.origin.line_of(row) == reader.line_num + 1


@given(text=st.text(st.sampled_from('"",,\n\rxy'), max_size=16), width=st.integers(1, 3), coded=st.booleans())
@example('1,"a"b"c",x\n', 3, False)
@settings(max_examples=examples(400), deadline=None)
def test_arrow_and_the_scan_agree(tmp_path_factory: pytest.TempPathFactory, text: str, width: int, coded: bool) -> None:
    """The fast way and the exact way take every text, however odd, as the same cells or both as wrong."""
    header = ",".join(f"c{number}" for number in range(width))
    content = f"{header}\n{text}".encode()
    expected = list(rows(content, b","))[1:]
    path = tmp_path_factory.getbasetemp() / "odd.csv"
    sound = bool(expected) and all(row.closed and len(row.cells) == width for row in expected)
    if sound:
        source = read(path, content, coded=EVERY_COLUMN if coded else ())
        assert rows_of(source) == [[cell.decode() for cell in row.cells] for row in expected]
    else:
        assert problem(path, content)


@given(data=st.data(), table=tables)
@settings(max_examples=examples(150), deadline=None)
def test_damaged_files_read_or_are_explained(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, table: list[list[str]]
) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([[f"c{number}" for number in range(len(table[0]))], *table])
    content = bytearray(written.getvalue().encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"\xff"])
        )
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    try:
        source = read(path, bytes(content))
    except MasqueradeError as error:
        explained = str(error)
    else:
        assert source.table.num_rows > 0
        assert source.table.num_columns == len(source.all_columns)
        return
    assert explained.startswith(str(path))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_header_shows_the_separator(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'"a,;|b"{separator}c\n"1"{separator}"x;y"\n')
    assert read_csv(path).table.to_pydict() == {"a,;|b": ["1"], "c": ["x;y"]}


def test_a_wrong_separator_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age\tjob\n1\tx\n")
    with pytest.raises(DataError, match=r'one column with that separator; set separator = "\\t", or leave it out'):
        read_csv(path, separator=",", columns=["age"])
    assert read_csv(path, separator=",").table.column_names == ["age\tjob"]  # nobody asked for another


@pytest.mark.parametrize("begin", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
def test_a_spreadsheet_under_another_name(tmp_path: Path, begin: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(begin + bytes(100))
    with pytest.raises(DataError, match="begins as a spreadsheet, which is not read; save its sheet as CSV"):
        read_csv(path)
