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

from masquerade.data import (
    ISO_DATE,
    ISO_TIMES,
    NUMBER,
    USUAL_NUMBERS,
    Codes,
    NumberStyle,
    distinct,
    is_text,
    read_date,
    texts,
)
from masquerade.engine import Counts, value_counts
from masquerade.jobs.drafts.column_names import CODES, DATES, has_word

ColumnType = Literal["number", "date", "code", "category", "text"]

# Words that stand for a missing cell, in small letters; they are looked for in every column.
_SURE = r"""
na|n/a|#n/a|n.a.|null|(null)|nil|nan|<na>|\n|-|--|---|–|—|.|..|...|?|??|missing|not available|#null!|#value!|#ref!
"""
# These may be values, too: they count as missing only where others are left to tell people apart.
_PERHAPS = """
none|unknown|unk|not known|not recorded|not stated|unspecified|not specified|keine angabe|k.a.|k. a.|unbekannt
inconnu|non renseigné|nd|n.d.|n/d|s/d|desconocido|sin datos|sconosciuto|desconhecido|onbekend|nieznany|nieznane
brak danych|brak|okänd|uppgift saknas|ukendt|ukjent|uoplyst|tuntematon|ei tietoa|neznámý|neuvedeno|ismeretlen
nincs adat|bilinmiyor|agnosto
"""
_NO_VALUE, _PERHAPS_NO_VALUE = (frozenset(re.split(r"[|\n]", text)) - {""} for text in (_SURE, _PERHAPS))

_DATE_FORMATS = (
    ISO_DATE,
    ISO_TIMES,
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d %B %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d. %m. %Y"),
    *("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%d-%m-%Y %H:%M", "%Y/%m/%d %H:%M"),
    *("%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d-%m-%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S"),
    *("%m/%d/%Y %I:%M %p", "%d/%m/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%d-%b-%Y %H:%M", "%d %b %Y %H:%M"),
)
_DIGITS_DATE = "%Y%m%d"
_YEARS = (1850, 2150)
_NUMBER = re.compile(NUMBER)
# What stands before or after numbers; letters that might be part of a code are no unit.
_UNITS = "$ € £ ¥ ₹ US$ EUR USD GBP CHF DKK NOK SEK PLN CZK HUF kr zł Kč Ft % kg cm mm mg ml mmHg"
_AROUND = re.compile(r"[+-]?([^0-9+.,-]*)[+-]?[0-9.,' \u00a0\u202f]*[0-9]([^0-9]*)")
_STYLES = ((".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", " "), (".", "'"))
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ./-]{0,14}")
_LONG_TEXT, _MANY_WORDS = 30, 4
_MOSTLY = 0.9  # of the different cells
_LONGEST_MISSING, _PEEKED = 20, 1000
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
    numbers: NumberStyle = USUAL_NUMBERS
    missing_words: tuple[str, ...] = ()  # beside the usual ones
    plain: bool = False  # the cells are texts, as in a CSV file
    order: tuple[int, ...] = ()  # the cells' numbers in the order that the table gives them, if it does

    @property
    def alike(self) -> tuple[tuple[str, ...], ...]:
        """The values of a column of words that differ only in capitals and spaces, as `M` and `m` do."""
        if self.type not in ("category", "code"):
            return ()
        same = dict[str, list[str]]()
        for cell in self.cells:
            same.setdefault(" ".join(cell.casefold().split()), []).append(cell)
        return tuple(tuple(cells) for cells in same.values() if len(cells) > 1)

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
    words = _missing_words(cells) if is_text(values.type) else ()
    cells = [cell for cell in cells if cell not in words]
    number_of = {cell: at for at, cell in enumerate(cells)}
    row_codes = np.array([number_of.get(label, -1) for label in labels], np.int32).take(codes)
    counts = value_counts(row_codes[row_codes >= 0], len(cells))
    reading = _of_cells(name, cells, values.type) or CellFormat(_of_words(name, cells, counts))
    return Profile(
        name,
        reading.type,
        tuple(cells),
        counts,
        row_codes,
        reading.format,
        reading.numbers,
        words,
        plain=is_text(values.type),
        order=_given_order(column, number_of),
    )


def _missing_words(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the cells that say that there is no value."""
    small = {cell: " ".join(cell.lower().split()) for cell in cells if len(cell) <= _LONGEST_MISSING}
    sure = {cell for cell, word in small.items() if word in _NO_VALUE}
    others = [cell for cell in cells if cell not in sure]
    if "NA" in sure and len(others) >= _FEW and all(len(cell) == 2 and cell.isupper() for cell in others):
        sure.remove("NA")  # a country among countries
    perhaps = {cell for cell, word in small.items() if word in _PERHAPS_NO_VALUE}
    if len(cells) - len(sure) - len(perhaps) >= 2:
        sure |= perhaps
    return tuple(cell for cell in cells if cell in sure)


def _given_order(column: pa.ChunkedArray, number_of: Mapping[str, int]) -> tuple[int, ...]:
    """Return the order of an ordered dictionary, such as an ordered categorical of pandas or an enum of polars."""
    if not pa.types.is_dictionary(column.type) or not column.type.ordered or not column.num_chunks:
        return ()
    words = texts(column.unify_dictionaries().chunk(0).dictionary).to_pylist()
    order = tuple(number_of[word] for word in words if word in number_of)
    return order if len(order) == len(number_of) else ()


@dataclass(frozen=True)
class CellFormat:
    """What the cells are, and how numbers and dates are written."""

    type: ColumnType
    format: str = ISO_DATE
    numbers: NumberStyle = USUAL_NUMBERS


def _of_cells(name: str, cells: Sequence[str], kind: pa.DataType) -> CellFormat | None:
    """Return the type of cells that are all numbers or all dates."""
    if pa.types.is_date(kind):
        return CellFormat("date")
    if not is_text(kind):
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        return CellFormat("number") if is_number and not {"inf", "-inf"} & set(cells) else None
    if not cells:
        return None
    if has_word(name, DATES) and (form := _date_format(cells, (_DIGITS_DATE,))) is not None:
        return CellFormat("date", form)
    if all(map(_is_number, cells)):
        as_code = has_word(name, CODES) or any(re.match("0[0-9]", cell) for cell in cells)
        return None if as_code else CellFormat("number")
    if (form := _date_format(cells, _DATE_FORMATS)) is not None:
        return CellFormat("date", form)
    style = None if has_word(name, CODES) else _number_style(cells)
    return None if style is None else CellFormat("number", numbers=style)


def _number_style(cells: Sequence[str]) -> NumberStyle | None:
    """Return the style in which all cells are numbers; None if there is none."""
    around = {part.strip() for cell in cells[:: 1 + len(cells) // _PEEKED] for part in _around(cell)} - {""}
    if len(around) > 1 or not around <= {*_UNITS.split()}:
        return None
    unit = next(iter(around), "")
    for decimal, thousands in _STYLES:
        style = NumberStyle(decimal, thousands, unit)  # type: ignore[arg-type] # one of the two signs
        if thousands == "" and _are_thousands(cells, decimal, least=1 if unit or decimal == "," else 2):
            continue
        if thousands and not any(sign in cell for cell in cells for sign in style.between):
            continue
        pattern = re.compile(style.pattern)
        if all(map(pattern.fullmatch, cells)):
            return None if any(re.match("0[0-9]", cell) for cell in cells) else style
    return None


def _around(cell: str) -> Sequence[str]:
    """Return what stands before and after the digits of a cell; of one without digits, the cell."""
    found = _AROUND.fullmatch(cell)
    return (cell,) if found is None else found.groups()


def _are_thousands(cells: Sequence[str], sign: str, *, least: int) -> bool:
    """Return whether a sign stands before three digits wherever it occurs, and so often in some cell: 1,234,567."""
    held = [re.sub(r"[^0-9.,]", "", cell) for cell in cells if sign in cell]
    grouped = re.compile(rf"[1-9][0-9]{{0,2}}(?:{re.escape(sign)}[0-9]{{3}})+")
    return bool(held) and all(map(grouped.fullmatch, held)) and max(cell.count(sign) for cell in held) >= least


def also_read_as(column: Profile) -> str | None:
    """Return another format in which all dates of a column of texts could be read."""
    if not column.plain or column.format == ISO_TIMES:
        return None
    others = [form for form in _DATE_FORMATS if form != column.format]
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
    codes = [cell for cell in cells if is_code(cell)]
    if len(codes) == len(cells):
        return "code" if longest > 1 and (has_word(name, CODES) or len(cells) > _FEW) else "category"
    # A few words among codes, such as "abroad" among postcodes; numbers of any length may be anything.
    lengths = {len(code) for code in codes}
    alike = has_word(name, CODES) or (len(lengths) == 1 and min(lengths) > 2)
    return "code" if alike and len(codes) > _FEW and len(codes) >= _MOSTLY * len(cells) else "category"


def is_code(cell: str) -> bool:
    """Return whether a cell looks like a code: short, of letters and digits, and not of letters alone."""
    return _CODE.fullmatch(cell) is not None and any(map(str.isdigit, cell))
