"""Numbers and dates whose tree of intervals grows at run time.

The distinct values, in order, are the leaf ranks; an interval is a range of them. It is written `[lo, hi)`,
where the inner ends are values at which an algorithm split, and the outer ends are the given bounds, or −inf
and inf: the smallest and largest value would be somebody's raw values.

Where missing cells are kept, rank 0 is theirs: a category of its own beside the numbers, never inside an interval. Both
lie below one root.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["continuous", "date"]
Number = int | float

# Accepted spellings of numbers and dates, here and in the cells of a table.
NUMBER = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
ISO_DATE = "%Y-%m-%d"
ISO_TIMES = "iso"  # a format: dates, and times with or without seconds and zone, as ISO 8601 writes them

MISSING_CELL = "?"  # how a kept missing cell is written
ANYTHING = "*"  # a number, or none

_NUMBER, _DATE = re.compile(NUMBER), re.compile(DATE)
_INTERVAL = re.compile(r"\[\s*([^,\[\]()]+?)\s*,\s*([^,\[\]()]+?)\s*\)")
_ISO_TIME = re.compile(
    DATE + r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?( ?(Z|[+-][0-9]{2}(:?[0-9]{2})?))?)?"
)
_SPACES = " \u00a0\u202f"
_WHOLE_LIMIT = 1 << 63  # integer columns have 64 bits; larger numbers count as decimals
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def write_number(value: Number, kind: Kind = "continuous") -> str:
    """Write integers without `.0`, decimals as the shortest text that round-trips, days as ISO dates."""
    if value in (float("-inf"), float("inf")):
        return "-inf" if value < 0 else "inf"
    if kind == "date":
        return datetime.date.fromordinal(int(value) + _EPOCH).isoformat()
    if isinstance(value, int | np.integer) or (value.is_integer() and abs(value) < _WHOLE_LIMIT):
        return str(int(value))
    return repr(float(value))


def read_number(text: str, kind: Kind = "continuous") -> Number:
    """Invert `write_number`; raise ValueError if the text is not a number or date that a cell can hold."""
    if text in ("-inf", "inf"):
        return float(text)
    if not (_DATE if kind == "date" else _NUMBER).fullmatch(text):
        raise ValueError(text)
    if kind == "date":
        return days(datetime.date.fromisoformat(text))
    try:
        whole = int(text)
    except ValueError:  # a decimal, or more digits than Python reads
        whole = None
    if whole is not None and -_WHOLE_LIMIT <= whole < _WHOLE_LIMIT:
        return whole
    number = float(text)
    if not np.isfinite(number):
        raise ValueError(text)
    return number


def read_date(text: str, format: str) -> int:  # as in the job file
    """Parse a date written in a format of `strptime`; raise ValueError if it is not one."""
    if format == ISO_DATE:
        number = read_number(text, "date")
        if isinstance(number, float):  # an end of an interval, which no day is
            raise ValueError(text)
        return number
    if format == ISO_TIMES:
        if not _ISO_TIME.fullmatch(text):
            raise ValueError(text)
        return read_date(text[:10], ISO_DATE)  # the day as it is written, whatever the zone
    try:
        return days(datetime.datetime.strptime(text, format).date())  # a day has no zone
    except re.error:  # strptime makes a pattern of the format: a field that stands in it twice breaks it
        raise ValueError(format) from None


@dataclass(frozen=True)
class NumberStyle:
    """How a table writes numbers: the sign before decimals, the one between thousands, and a unit at either end."""

    decimal: Literal[".", ","] = "."
    thousands: str = ""
    unit: str = ""

    @property
    def is_usual(self) -> bool:
        """Whether it is that of `NUMBER`."""
        return self == USUAL_NUMBERS

    @property
    def between(self) -> str:
        """The signs that may stand between thousands: of spaces, those that do not break, too."""
        return _SPACES if self.thousands == " " else self.thousands

    @cached_property
    def pattern(self) -> str:
        """A regular expression of its numbers, for Python's `re` and for Arrow's."""
        whole, point = "[0-9]+", re.escape(self.decimal)
        if self.thousands:
            whole = f"(?:[0-9]{{1,3}}(?:[{self.between}][0-9]{{3}})+|[0-9]+)"
        unit = f"(?:{re.escape(self.unit)})" if self.unit else ""
        before, after = (f"(?:{unit}[{_SPACES}]?)?", f"(?:[{_SPACES}]?{unit})?") if unit else ("", "")
        digits = f"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        return f"(?:[+-]?{before}|{before}[+-]){digits}{after}"

    @cached_property
    def clutter(self) -> str:
        """A regular expression of all that is in its numbers beside signs, digits and the decimal sign."""
        parts = [re.escape(self.unit)] if self.unit else []
        return "|".join([*parts, f"[{_SPACES}{self.thousands}]"])

    def usual(self, text: str) -> str:
        """Write a number of this style in the usual way; raise ValueError if it is none."""
        if self.is_usual:
            return text
        if not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        return re.sub(self.clutter, "", text).replace(self.decimal, ".")


USUAL_NUMBERS = NumberStyle()


def days(date: datetime.date) -> int:
    """Return the number of days since 1970-01-01."""
    return date.toordinal() - _EPOCH


def write_interval(lo: Number, hi: Number, kind: Kind = "continuous") -> str:
    """Write an interval as `[lo, hi)`."""
    return f"[{write_number(lo, kind)}, {write_number(hi, kind)})"


def read_interval(text: str, kind: Kind = "continuous") -> tuple[Number, Number] | None:
    """Parse the ends of `[lo, hi)`; return None if the text is not an interval."""
    match = _INTERVAL.fullmatch(text.strip())
    if match is None:
        return None
    try:
        lo, hi = (read_number(end, kind) for end in match.groups())
    except ValueError:
        return None
    return (lo, hi) if lo < hi else None


@dataclass(frozen=True, eq=False)
class Continuum:
    """The distinct values of a continuous attribute in order, and the outer ends of its intervals.

    With `missing`, rank 0 is a missing cell and the values follow.
    """

    values: NDArray[np.int64] | NDArray[np.float64]
    kind: Kind = "continuous"
    lower: Number = float("-inf")
    upper: Number = float("inf")
    missing: bool = False

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.first + int(self.values.size)

    @property
    def first(self) -> int:
        """The rank of the smallest value."""
        return int(self.missing)

    def label(self, lo: int, hi: int) -> str:
        """Write the value that covers the ranks `[lo, hi)` as it appears in a release."""
        if lo < self.first:
            return MISSING_CELL if hi <= self.first else ANYTHING
        lower = self.lower if lo <= self.first else self.values[lo - self.first].item()
        upper = self.upper if hi >= self.size else self.values[hi - self.first].item()
        return write_interval(lower, upper, self.kind)

    def range_of(self, label: str) -> tuple[int, int] | None:
        """Return the ranks of the values inside a released interval, or None if it is not a value of this domain."""
        if self.missing and label in (MISSING_CELL, ANYTHING):
            return (0, 1) if label == MISSING_CELL else (0, self.size)
        ends = read_interval(label, self.kind)
        if ends is None:
            return None
        lo, hi = (self.first + self._below(end) for end in ends)
        return lo, hi

    def _below(self, end: Number) -> int:
        """Count the values below `end`."""
        if isinstance(end, float) and np.isinf(end):
            return 0 if end < 0 else int(self.values.size)
        if isinstance(end, float) and self.values.dtype.kind == "i":
            # Rounding up leaves the count of smaller integers unchanged; numpy would round large ones to compare.
            end = math.ceil(end)
            if not -_WHOLE_LIMIT <= end < _WHOLE_LIMIT:
                return 0 if end < 0 else int(self.values.size)
        return int(np.searchsorted(self.values, end))

    def cuts(self, lo: int, hi: int) -> tuple[int, ...] | None:
        """Return None: there are no predefined cuts, the algorithm chooses where to split.

        A missing cell, however, is cut off the numbers first, and is no interval to split.
        """
        if lo >= self.first:
            return None
        return (0, self.first, hi) if hi > self.first else ()
