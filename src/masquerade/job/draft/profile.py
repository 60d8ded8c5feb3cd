"""What a column looks like: numbers, dates, codes, categories or free text."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from masquerade.data.continuum import ISO_DATE, NUMBER, read_date
from masquerade.data.encode import Codes, distinct, is_text, texts
from masquerade.engine.counts import Counts, value_counts
from masquerade.job.draft.column_names import names_a_code, names_a_date

ColumnType = Literal["number", "date", "code", "category", "text"]

# Words that stand for a missing cell where the others are all numbers or dates.
MISSING_WORDS = ("NA", "N/A", "n/a", "na", "NULL", "null", "NaN", "nan", "None", "-", "--", ".", "#N/A")

_DATE_FORMATS = (
    ISO_DATE,
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d %B %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%d/%m/%Y %H:%M"),
)
_DIGITS_DATE = "%Y%m%d"
_YEARS = (1850, 2150)
_NUMBER = re.compile(NUMBER)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(,[0-9]+)?")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ./-]{0,14}")
_LONG_TEXT, _MANY_WORDS = 30, 4
_FEW = 10


@dataclass(frozen=True, eq=False)
class Profile:
    """A column: its different cells that are not missing, as text, with their rows."""

    name: str
    type: ColumnType
    cells: tuple[str, ...]  # different, sorted
    counts: Counts  # rows of each
    codes: Codes  # of each row: its cell's number, or −1 where it is missing
    format: str = ISO_DATE
    decimal: Literal[".", ","] = "."
    missing_words: tuple[str, ...] = ()  # beside the usual ones
    plain: bool = False  # the cells are texts, as in a CSV file
    order: tuple[int, ...] = ()  # the cells' numbers in the order that the table gives them, if it does

    @property
    def present(self) -> int:
        """The rows whose cell is not missing."""
        return int(self.counts.sum())

    @property
    def distinct_ratio(self) -> float:
        """Different cells / rows, of those that are not missing."""
        return len(self.cells) / self.present if self.present else 0.0


def profile(name: str, column: pa.ChunkedArray, missing_values: Sequence[str]) -> Profile:
    """Find out what a column holds; of times, the days count."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.date32(), safe=False)
    codes, values = distinct(column)
    labels: list[str] = texts(values).to_pylist()
    absent = {*missing_values, "", *(() if is_text(values.type) else ("nan",))}
    cells = sorted({label for label in labels if label not in absent})
    number_of = {cell: at for at, cell in enumerate(cells)}
    of_code = np.array([number_of.get(label, -1) for label in labels], np.int32)
    made = _of_cells(name, cells, values.type)
    extra: tuple[str, ...] = ()
    if made is None:  # perhaps all but a word for "missing" are numbers or dates
        words = tuple(word for word in MISSING_WORDS if word in number_of)
        rest = [cell for cell in cells if cell not in words]
        made = _of_cells(name, rest, values.type) if words and rest else None
        if made is not None:
            extra, cells = words, rest
            number_of = {cell: at for at, cell in enumerate(cells)}
            of_code = np.array([number_of.get(label, -1) for label in labels], np.int32)
    row_codes = of_code.take(codes)
    counts = value_counts(row_codes[row_codes >= 0], len(cells))
    kind, form, decimal = made if made is not None else (_of_words(name, cells, counts), ISO_DATE, ".")
    return Profile(
        name,
        kind,
        tuple(cells),
        counts,
        row_codes,
        form,
        decimal,
        extra,
        plain=is_text(values.type),
        order=_given_order(column, number_of),
    )


def _given_order(column: pa.ChunkedArray, number_of: Mapping[str, int]) -> tuple[int, ...]:
    """Return the order of an ordered dictionary, such as an ordered categorical of pandas or an enum of polars."""
    if not pa.types.is_dictionary(column.type) or not column.type.ordered or not column.num_chunks:
        return ()
    words = texts(column.unify_dictionaries().chunk(0).dictionary).to_pylist()
    order = tuple(number_of[word] for word in words if word in number_of)
    return order if len(order) == len(number_of) else ()


def _of_cells(
    name: str, cells: Sequence[str], kind: pa.DataType
) -> tuple[ColumnType, str, Literal[".", ","]] | None:
    """Return the type of cells that are all numbers or all dates, with how they are written."""
    if pa.types.is_date(kind):
        return "date", ISO_DATE, "."
    if not is_text(kind):
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if is_number and not {"inf", "-inf"} & set(cells):
            return "number", ISO_DATE, "."
        return None
    if not cells:
        return None
    if names_a_date(name) and (form := _date_format(cells, (_DIGITS_DATE,))) is not None:
        return "date", form, "."
    if all(map(_is_number, cells)):
        as_code = names_a_code(name) or any(re.match("0[0-9]", cell) for cell in cells)
        return None if as_code else ("number", ISO_DATE, ".")
    if all(map(_DECIMAL_COMMA.fullmatch, cells)):
        return "number", ISO_DATE, ","
    form = _date_format(cells, _DATE_FORMATS)
    return ("date", form, ".") if form is not None else None


def also_read_as(column: Profile) -> str | None:
    """Return another format in which all dates of a column of texts could be read."""
    others = [form for form in _DATE_FORMATS if form != column.format] if column.plain else []
    return _date_format(column.cells, others)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and math.isfinite(float(cell))


def _date_format(cells: Sequence[str], formats: Sequence[str]) -> str | None:
    """Return the first format in which all cells are plausible dates."""
    first = datetime.date(_YEARS[0], 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal()
    last = datetime.date(_YEARS[1], 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal()
    for form in formats:
        try:
            if all(first <= read_date(cell, form) < last for cell in cells):
                return form
        except ValueError:
            continue
    return None


def _of_words(name: str, cells: Sequence[str], counts: Counts) -> ColumnType:
    """Tell codes, categories and free text apart."""
    if not cells:
        return "category"
    longest = max(map(len, cells))
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    length = sum(map(len, cells)) / len(cells)
    many = len(cells) > _FEW and len(cells) > int(counts.sum()) / 2
    if many and (length > _LONG_TEXT or words > _MANY_WORDS):
        return "text"
    is_code = all(map(_CODE.fullmatch, cells)) and all(any(map(str.isdigit, cell)) for cell in cells)
    if is_code and longest > 1 and (names_a_code(name) or len(cells) > _FEW):
        return "code"
    return "category"
