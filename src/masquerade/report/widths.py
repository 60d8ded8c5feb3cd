"""How wide a continuous attribute's intervals are, where there are too many to draw each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from typing import Any

import numpy as np

from masquerade.data.column import Generalised
from masquerade.data.continuum import Continuum, Kind, read_interval, write_number
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import value_counts
from masquerade.report.charts import share_bar
from masquerade.report.wording import count, counted, percent

_DATES = (1, 7, 31, 92, 183, 366, 731, 1827, 3653, 7306, 18263)
_DATE_WORDS = ("a day", "a week", "a month", "3 months", "6 months", "a year", "2 years", "5 years")
_DATE_NAMES = dict(zip(_DATES, (*_DATE_WORDS, "10 years", "20 years", "50 years"), strict=True))


@dataclass(frozen=True)
class Width:
    """The width of a released value in days or units; None where an end is open."""

    wide: float | None
    records: int


def widths_section(column: Generalised, total: int, few: int) -> dict[str, Any] | None:
    """Return the histogram of interval widths; None for a taxonomy, a few intervals, or cells that are none."""
    if isinstance(column.domain, Taxonomy) or len(column.labels) <= few:
        return None
    kind = _kind(column)
    found = None if kind is None else _widths(column, kind)
    if kind is None or found is None:
        return None
    closed = [each for each in found if each.wide is not None]
    edges = _edges(max((each.wide or 0.0 for each in closed), default=1.0), kind)
    bins = np.searchsorted(np.array(edges), [each.wide or 0.0 for each in closed], side="left") - 1
    weights = np.array([each.records for each in closed], np.int64)
    values = value_counts(bins, len(edges) - 1).tolist()
    records = [int(weights[bins == position].sum()) for position in range(len(edges) - 1)]
    rows = [
        _row(words, values[position], records[position], total)
        for position, words in enumerate(_words(edges, kind))
    ]
    while rows and rows[0]["values"] == "0":  # only the middle of the histogram may have gaps
        rows.pop(0)
    opened = [each for each in found if each.wide is None]
    if opened:
        rows.append(_row("open at one end", len(opened), sum(each.records for each in opened), total))
    return {"rows": rows, "kind": "dates" if kind == "date" else "numbers"}


def _row(words: str, values: int, records: int, total: int) -> dict[str, Any]:
    share = records / total if total else 0.0
    return {
        "words": words,
        "values": count(values),
        "records": counted(records, "record"),
        "share": percent(share),
        "bar": share_bar(share),
    }


def _kind(column: Generalised) -> Kind | None:
    """Return the kind of the intervals: who assembled parties' columns knows nothing but their cells."""
    if isinstance(column.domain, Continuum) and column.domain.size:
        return column.domain.kind
    kinds: tuple[Kind, ...] = ("continuous", "date")
    readable = (kind for kind in kinds if all(_ends(label, kind) is not None for label in column.labels))
    return next(readable, None)


def _ends(label: str, kind: Kind) -> tuple[float, float] | None:
    ends = read_interval(label, kind)
    if ends is not None:
        return float(ends[0]), float(ends[1])
    exact = read_interval(f"[{label}, inf)", kind)  # a cell that was not generalised
    return None if exact is None else (float(exact[0]), float(exact[0]))


def _widths(column: Generalised, kind: Kind) -> list[Width] | None:
    found = []
    for label, records in zip(column.labels, column.counts().tolist(), strict=True):
        ends = _ends(label, kind)
        if ends is None:
            return None
        wide = ends[1] - ends[0]
        if records:
            found.append(Width(wide if np.isfinite(wide) else None, records))
    return found


def _edges(widest: float, kind: Kind) -> list[float]:
    """Return the ends of bins, of which each holds its upper end: 1, 2, 5, 10, … or days, months, years."""
    if kind == "date":
        inner: list[float] = [float(each) for each in _DATES]
    else:
        top = floor(log10(widest)) + 1 if widest > 0 else 0
        inner = [digit * 10.0**power for power in range(top - 4, top + 1) for digit in (1, 2, 5)]
    used = [edge for position, edge in enumerate(inner) if not position or inner[position - 1] < widest]
    return [-1.0, *used, *([widest] if used[-1] < widest else [])]


def _words(edges: list[float], kind: Kind) -> list[str]:
    def end(edge: float) -> str:
        return _DATE_NAMES.get(int(edge), "more") if kind == "date" else write_number(float(f"{edge:g}"))

    words = [f"up to {end(edges[1])}"]
    for lower, upper in pairwise(edges[1:]):
        words.append(f"above {end(lower)}" if end(upper) == "more" else f"{end(lower)} to {end(upper)}")
    return words
