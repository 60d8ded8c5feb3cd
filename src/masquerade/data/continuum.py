"""Numbers and dates whose tree of intervals grows at run time.

The distinct values, in order, are the leaf ranks; an interval is a range of them. It is written `[lo, hi)`, where
the inner ends are values at which an algorithm split, and the outer ends are the given bounds, or −inf and inf: the
smallest and largest value would be somebody's raw values.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["continuous", "date"]
Number = int | float

_INTERVAL = re.compile(r"\[\s*([^,\[\]()]+?)\s*,\s*([^,\[\]()]+?)\s*\)")
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def write_number(value: Number, kind: Kind = "continuous") -> str:
    """Whole numbers without `.0`, decimals as the shortest text that reads back the same; days as ISO dates."""
    if value in (float("-inf"), float("inf")):
        return "-inf" if value < 0 else "inf"
    if kind == "date":
        return datetime.date.fromordinal(int(value) + _EPOCH).isoformat()
    if float(value).is_integer() and abs(value) < 1e16:
        return str(int(value))
    return repr(value)


def read_number(text: str, kind: Kind = "continuous") -> Number:
    """The inverse of `write_number`; ValueError when it is neither."""
    if text in ("-inf", "inf"):
        return float(text)
    if kind == "date":
        return days(datetime.date.fromisoformat(text))
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not np.isfinite(number):
            raise ValueError(text) from None
        return number


def days(date: datetime.date) -> int:
    """A date as a number: days since 1970-01-01."""
    return date.toordinal() - _EPOCH


def write_interval(lo: Number, hi: Number, kind: Kind = "continuous") -> str:
    """`[lo, hi)`."""
    return f"[{write_number(lo, kind)}, {write_number(hi, kind)})"


def read_interval(text: str, kind: Kind = "continuous") -> tuple[Number, Number] | None:
    """The ends of `[lo, hi)`, or None when the text is no interval."""
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
    """The distinct values of a continuous attribute in order, and the outer ends of its intervals."""

    values: NDArray[np.int64] | NDArray[np.float64]
    kind: Kind = "continuous"
    lower: Number = float("-inf")
    upper: Number = float("inf")

    @property
    def size(self) -> int:
        """How many distinct values there are."""
        return int(self.values.size)

    def _end(self, rank: int) -> Number:
        if rank <= 0:
            return self.lower
        return self.upper if rank >= self.size else self.values[rank].item()

    def label(self, lo: int, hi: int) -> str:
        """How the interval that covers the ranks `[lo, hi)` is written in a release."""
        return write_interval(self._end(lo), self._end(hi), self.kind)

    def range_of(self, label: str) -> tuple[int, int] | None:
        """The ranks of the values inside a released interval, or None when it is no interval."""
        ends = read_interval(label, self.kind)
        if ends is None:
            return None
        lo, hi = (self._rank(end) for end in ends)
        return lo, hi

    def _rank(self, end: Number) -> int:
        """How many values lie below `end`."""
        if isinstance(end, float) and np.isinf(end):
            return 0 if end < 0 else self.size
        return int(np.searchsorted(self.values, end))

    def cuts(self, lo: int, hi: int) -> None:
        """Nothing is cut in advance: an algorithm chooses where."""
        return
