"""Read CSV files. Every cell is kept as text; the schema gives it its meaning."""

from __future__ import annotations

import codecs
import re
import time
import weakref
from collections.abc import Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from masquerade.data.reading import EXCEL, RawTable, check_names, chosen, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError, ParameterError, Problem

# --- csv encoding -------------------------------------------------------------------------------------------
# Guess a CSV file's encoding by its first bytes: a byte order mark, UTF-8, or what Windows writes in the
# West.

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LOOKED_AT = 1 << 22  # bytes


def likely_encoding(path: Path) -> str:
    """Return "utf-8", "utf-16", "cp1252" or, where even that has no sign for a byte, "latin-1"."""
    try:
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
    except (OSError, ValueError) as error:
        raise why_unreadable(path, error) from None
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(head)  # may end within a character
        except UnicodeError:
            continue
        return encoding
    return "latin-1"


# --- csv scan -----------------------------------------------------------------------------------------------
# A slow but exact CSV scanner that knows the line of every row.
#
# Arrow reads tables fast but does not report where an error is. This scan interprets a text as Arrow's
# parser does (quotes count at the start of a cell only; inside, a doubled quote is one; blank lines are no
# rows). It reads headers and locates errors. Python's own `csv` is not used because its limit on the size
# of a cell is a process-wide setting, and because it does not distinguish an unclosed quote from other
# irregularities.

_LINE = re.compile(rb"[^\r\n]*")
_BREAK = re.compile(rb"\r\n?|\n")


class Row(NamedTuple):
    """One row: the line it starts on (from 1), where it ends, its cells, whether its quotes are closed."""

    line: int
    end: int
    cells: list[bytes]
    closed: bool


def rows(text: bytes, separator: bytes, start: int = 0) -> Iterator[Row]:
    """Yield all rows from `start` on, including the header. UTF-8 allows searching any separator as bytes."""
    inside = rb"[^\r\n%s]*+" % re.escape(separator)
    if len(separator) > 1:
        inside = rb"(?:(?!%s)[^\r\n])*+" % re.escape(separator)
    cell = re.compile(rb'"((?:[^"]++|"")*+)("?)(%s)|(%s)' % (inside, inside))
    position, line = start, 1
    while position < len(text):
        plain = _LINE.match(text, position)
        assert plain is not None
        cells, end, closed, lines = plain[0].split(separator), plain.end(), True, 1
        if b'"' in plain[0]:
            cells, end, closed = _quoted_row(text, position, separator, cell)
            lines += len(_BREAK.findall(text, position, end))
        if end > position:
            yield Row(line, end, cells, closed)
        line += lines
        after = _BREAK.match(text, end)
        position = after.end() if after is not None else len(text)


def _quoted_row(text: bytes, position: int, separator: bytes, cell: re.Pattern[bytes]) -> tuple[list[bytes], int, bool]:
    cells = []
    while True:
        match = cell.match(text, position)
        assert match is not None
        quoted, quote, tail, bare = match.groups()
        closed = quoted is None or bool(quote)
        cells.append(bare if quoted is None else quoted.replace(b'""', b'"') + tail)
        position = match.end()
        if not closed or not text.startswith(separator, position):
            return cells, position, closed
        position += len(separator)


def line_at(text: bytes, offset: int) -> int:
    """Return the line number (from 1) of the byte at `offset`."""
    return 1 + sum(1 for _ in _BREAK.finditer(text, 0, offset))


# --- read csv -----------------------------------------------------------------------------------------------

_BOM = codecs.BOM_UTF8
SEPARATORS = ",;\t|"  # the usual ones, the most usual first
_SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx and .ods begin, and .xls
_BLOCK = 2 << 20  # bytes that Arrow parses at once; small files are also split, for several threads
_SMALL_BLOCK, _BLOCKS = 1 << 18, 8
_LARGEST_BLOCK = 2**31 - 1
_LETS_GO_WITHIN = 10.0  # seconds; takes microseconds on an idle processor


def read_csv(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    columns: Sequence[str] | None = None,
    coded: Container[str] = (),
) -> RawTable:
    """Read a CSV file with a header; only `columns`, if given.

    Cells keep every byte, without the quotes around them; names are stripped. A blank line is not a
    row. Columns in `coded` are dictionary-encoded, which makes ranking them fast.
    """
    if separator is not None:
        check_separator(separator)
    text = _load(path, encoding)
    start = len(_BOM) if text.startswith(_BOM) else 0
    separator = separator or likely_separator(text, start)
    origin = Origin(str(path), partial(_line_of, path, encoding, separator) if path.is_file() else None)
    cut = separator.encode()
    header = next(rows(text, cut, start), None)
    if header is None:
        raise DataError.about(path, "the file is empty; a header and rows are expected")
    if not header.closed:
        raise DataError.about(path, "a quote that opens in the header is never closed", line=header.line)
    names = [cell.decode().strip() for cell in header.cells]
    check_names(str(path), names)
    if len(names) == 1 and columns is not None and names[0] not in columns:
        likely = likely_separator(text, start)
        if likely not in (separator, ","):
            advice = 'set separator = "{}", or leave it out'.format(likely.replace("\t", "\\t"))
            raise DataError.about(path, f"the header is one column with that separator; {advice}")
    wanted = chosen(str(path), names, columns)
    if not text[header.end : header.end + 4096].strip(b"\r\n") and not text[header.end :].strip(b"\r\n"):
        raise DataError.about(path, "there is a header but no row of data")
    types = {name: pa.dictionary(pa.int32(), pa.string()) if name in coded else pa.string() for name in wanted}
    table = _parse(text, header.end, names, types, separator) if separator.isascii() else None
    if table is None:
        table = _parse_slowly(text, start, names, types, cut, origin)
    return RawTable(table, tuple(names), origin)


def likely_separator(text: bytes, start: int = 0) -> str:
    """Return the separator of the header: the first of the usual ones that makes more than one column of it."""
    for sign in SEPARATORS:
        header = next(rows(text, sign.encode(), start), None)
        if header is not None and len(header.cells) > 1:
            return sign
    return ","


def check_separator(separator: str) -> None:
    """Accept any single character as separator, except those with another meaning in CSV."""
    if len(separator) != 1 or separator in '"\r\n\0' or "\ud800" <= separator <= "\udfff":
        raise ParameterError(
            "the separator must be a single character other than a quote, a line break or NUL; "
            f"got {separator!r} instead"
        )


def _load(path: Path, encoding: str) -> bytes:
    """Read the file as valid UTF-8 without NUL."""
    try:
        codec = codecs.lookup(encoding).name
        "".encode(encoding)  # rejects codecs that are not text encodings, such as "hex"
    except (LookupError, ValueError):
        allowed = 'allowed are Python\'s names, such as "utf-8", "utf-16", "latin-1"'
        raise DataError.about(path, f'unknown encoding "{encoding}"; {allowed}') from None
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        raise why_unreadable(path, error) from None
    if raw.startswith(_SPREADSHEETS):
        raise DataError.about(path, f"the file begins as {EXCEL}")
    if codec == "utf-8-sig":  # the byte order mark is cut off later, for every encoding
        encoding = codec = "utf-8"
    text = raw if codec == "utf-8" and _is_utf8(raw) else _transcoded(path, raw, encoding)
    nul = text.find(b"\0")
    if nul >= 0:
        advice = "" if codec.startswith("utf-16") else '; for UTF-16 set encoding = "utf-16"'
        raise DataError.about(path, f"a NUL byte, which no text file holds{advice}", line=line_at(text, nul))
    return text


def _is_utf8(raw: bytes) -> bool:
    # One Arrow string over all bytes: its check is fast and copies nothing. (`pa.array` would import pandas.)
    offsets = pa.py_buffer(np.array([0, len(raw)], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(raw)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _transcoded(path: Path, raw: bytes, encoding: str) -> bytes:
    try:
        return raw.decode(encoding).encode()
    except UnicodeError as error:
        offset = error.start if isinstance(error, UnicodeDecodeError) else 0
        before = raw[:offset].decode(encoding, "ignore").encode("utf-8", "ignore")
        advice = "set encoding to the file's own"
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            advice = 'the file begins as UTF-16 does: set encoding = "utf-16"'
        text = f"the byte at offset {offset} (0x{raw[offset]:02x}) is not {encoding}; {advice}"
        raise DataError.about(path, text, line=line_at(before, len(before))) from None


def _parse(text: bytes, start: int, names: list[str], types: dict[str, pa.DataType], separator: str) -> pa.Table | None:
    """Parse the requested columns with Arrow; return None on any error that it finds."""
    body = pa.py_buffer(text).slice(start)
    quoted = text.find(b'"', start) >= 0
    if quoted:
        # Arrow takes a cell whose quote never closes as it is. A last row with one field too many, which
        # holds a NUL as no other row can, is either shown to the guard or swallowed by such a cell.
        body = pa.py_buffer(text[start:] + b"\n\0" + separator.encode() * len(names))
    block = min(max(body.size // _BLOCKS, _SMALL_BLOCK), _BLOCK)
    while True:
        guard = _Guard()
        seen, guards = guard.seen, weakref.ref(guard)
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(body),
                read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=block),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=separator, newlines_in_values=quoted, invalid_row_handler=guard
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=list(types) or names[:1], column_types=types, check_utf8=False
                ),
            )
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or block >= min(body.size, _LARGEST_BLOCK):
                return None
            block = min(block * 16, _LARGEST_BLOCK)  # a row was larger than a block
            continue
        finally:
            del guard
            _let_go(guards)
        if quoted and not seen:
            return None
        return table.select(list(types)).unify_dictionaries()


class _Guard:
    """Called for rows with a wrong number of fields; only our appended last row may be one, and sets `seen`."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def __call__(self, row: Any) -> str:
        if not row.text.startswith("\0"):
            return "error"
        self.seen.append(True)
        return "skip"


def _let_go(guards: weakref.ref[_Guard]) -> None:
    """Wait until Arrow has released the objects it was given, the guard last.

    Arrow releases them in its own thread, shortly after returning: an interpreter that exits in between, as after
    an error in a small file, would be aborted.
    """
    patience = time.monotonic() + _LETS_GO_WITHIN
    while guards() is not None and time.monotonic() < patience:
        time.sleep(0.0001)


def _parse_slowly(
    text: bytes, start: int, names: list[str], types: dict[str, pa.DataType], separator: bytes, origin: Origin
) -> pa.Table:
    """Parse the requested columns with our own scanner, which reports what is wrong and where."""
    found = rows(text, separator, start)
    next(found)
    columns: dict[str, list[bytes]] = {name: [] for name in types}
    places = [(names.index(name), cells) for name, cells in columns.items()]
    count = 0
    for count, row in enumerate(found, start=1):
        _check_row(row, count, len(names), origin.name)
        for place, cells in places:
            cells.append(row.cells[place])
    arrays = [pa.array(columns[name], pa.binary()).cast(pa.string()).cast(types[name]) for name in types]
    if not arrays:
        return pa.table({names[0]: pa.nulls(count)}).select([])
    return pa.table(arrays, names=list(types))


def _check_row(row: Row, number: int, width: int, name: str) -> None:
    problem = Problem(source=name, row=number, line=row.line)
    if not row.closed:
        raise DataError(problem.at(text="a quote that opens in this row is never closed"))
    if len(row.cells) != width:
        fields = "1 field" if len(row.cells) == 1 else f"{len(row.cells)} fields"
        raise DataError(problem.at(text=f"{fields}, where the header has {width}"))


def _line_of(path: Path, encoding: str, separator: str, number: int) -> int:
    """Return the line on which data row `number` (from 0) starts."""
    text = _load(path, encoding)
    found = rows(text, separator.encode(), len(_BOM) if text.startswith(_BOM) else 0)
    for position, row in enumerate(found):
        if position == number + 1:
            return row.line
    raise DataError.about(path, "the file has changed since it was read")
