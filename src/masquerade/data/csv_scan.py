"""A slow but exact CSV scanner that knows the line of every row.

Arrow reads tables fast but does not report where an error is. This scan interprets a text as Arrow's
parser does (quotes count at the start of a cell only; inside, a doubled quote is one; blank lines are no
rows). It reads headers and locates errors. Python's own `csv` is not used because
its limit on the size of a cell is a process-wide setting, and because it does not distinguish an unclosed
quote from other irregularities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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


def _quoted_row(
    text: bytes, position: int, separator: bytes, cell: re.Pattern[bytes]
) -> tuple[list[bytes], int, bool]:
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
