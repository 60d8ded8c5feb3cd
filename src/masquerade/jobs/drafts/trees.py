"""Taxonomies made for columns that have none, as paths from each leaf to the root.

One function a kind of column: prefixes for codes, a calendar for dates, round intervals or quantiles for numbers, and
trees in which the halves have about as many rows for categories. Where it can be, a node has about two children: a
method that splits it then gives away no more than it must.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from masquerade.data import Taxonomy, read_date, read_taxonomy
from masquerade.engine import Counts, value_counts, weighted_counts
from masquerade.errors import TaxonomyError
from masquerade.jobs.drafts.profile import Profile, is_code

# --- hierarchies --------------------------------------------------------------------------------------------
# Taxonomies that lie beside a table already, such as ARX's hierarchies, where they fit its cells.

_FOLDERS = (".", "hierarchies", "taxonomies")
_SUFFIXES = (".csv", ".yaml", ".yml", ".txt")


@dataclass(frozen=True)
class FoundTaxonomy:
    """A file for a column; `misfit` says why it cannot be used."""

    path: Path
    kind: str  # "categorical" or, where its leaves are intervals, the column's own
    misfit: str = ""


def beside(table: Path, column: Profile) -> FoundTaxonomy | None:
    """Return the taxonomy of a column: `COLUMN.csv`, or as ARX calls it `TABLE_hierarchy_COLUMN.csv`."""
    found = None
    for path in _candidates(table, column.name):
        found = _fits(path, column)
        if not found.misfit:
            return found
    return found


def _candidates(table: Path, name: str) -> Iterator[Path]:
    if "/" in name or "\0" in name:
        return
    for folder in _FOLDERS:
        for stem in (name, f"{table.stem}_hierarchy_{name}", f"{table.stem}_int_hierarchy_{name}"):
            for suffix in _SUFFIXES:
                path = table.parent / folder / f"{stem}{suffix}"
                if path != table and path.is_file():
                    yield path


def _fits(path: Path, column: Profile) -> FoundTaxonomy:
    if column.type in ("number", "date"):
        kind = "continuous" if column.type == "number" else "date"
        try:
            if read_taxonomy(path, kind).edges is not None:  # type: ignore[arg-type] # one of the two
                return FoundTaxonomy(path, kind)
        except TaxonomyError:
            pass  # perhaps of categories
    try:
        taxonomy: Taxonomy = read_taxonomy(path)
    except TaxonomyError as error:
        return FoundTaxonomy(path, "categorical", error.problems[0].text)
    lacking = [cell for cell in column.cells if cell not in taxonomy.rank]
    if lacking:
        words = "a value of the column is" if len(lacking) == 1 else f"{len(lacking):,} values of the column are"
        return FoundTaxonomy(path, "categorical", f"{words} no leaf of it")
    return FoundTaxonomy(path, "categorical")


# --- category order -----------------------------------------------------------------------------------------
# The order that categories have of their own: that of their numbers, of a scale such as low, medium, high,
# or none.

_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_BELOW = re.compile(r"(?:<|≤|under |below |less than |up to |unter |bis |moins de )", re.IGNORECASE)
_ABOVE = re.compile(r"(?:>|≥|over |above |more than |über |ab |plus de )", re.IGNORECASE)
_SCALES = tuple(
    {word.casefold(): place for place, words in enumerate(scale.split(", ")) for word in words.split("/")}
    for scale in (
        "none/no/keine, very low/minimal/sehr niedrig, low/mild/slight/light/niedrig/gering/leicht/faible,"
        " medium/moderate/middle/normal/average/mittel/mäßig/moyen,"
        " high/severe/strong/heavy/hoch/schwer/stark/élevé, very high/critical/extreme/sehr hoch",
        "very poor, poor/bad, fair, good/gut, very good, excellent",
        "never/nie, rarely/seldom/selten, sometimes/manchmal, often/oft, always/immer",
        "strongly disagree, disagree, neutral/undecided, agree, strongly agree",
        "xxs, xs, s, m, l, xl, xxl, xxxl",
        "tiny, small/klein, medium/mittel, large/big/groß, huge",
        "i, ii, iii, iv, v, vi, vii, viii, ix, x",
        "january/jan/januar, february/feb/februar, march/mar/märz, april/apr, may/mai, june/jun/juni, july/jul/juli,"
        " august/aug, september/sep/sept, october/oct/oktober/okt, november/nov, december/dec/dezember/dez",
        "monday/mon/montag/mo, tuesday/tue/dienstag/di, wednesday/wed/mittwoch/mi, thursday/thu/donnerstag/do,"
        " friday/fri/freitag/fr, saturday/sat/samstag/sa, sunday/sun/sonntag/so",
    )
)


def natural_order(cells: Sequence[str]) -> list[int] | None:
    """Return the positions of the cells in the order of their numbers or of a scale; None if they have neither."""
    for scale in _SCALES:
        places = [scale.get(" ".join(cell.casefold().split()), -1) for cell in cells]
        if cells and min(places) >= 0 and len({*places}) == len(places):
            return sorted(range(len(cells)), key=places.__getitem__)
    bands = [_band(cell) for cell in cells]
    found = [each for each in bands if each is not None]
    # Only numbers and what stands around them in all cells: bands of ages, stages, quarters.
    if not found or len(found) < len(cells) or len({words for _, words in found}) > 1:
        return None
    return sorted(range(len(cells)), key=lambda at: (found[at][0], cells[at]))


def _band(cell: str) -> tuple[tuple[float, ...], str] | None:
    """Return the place of a cell such as `10-19`, `<10`, `90+` or `stage 2`, and the words beside the numbers."""
    numbers = [float(number.replace(",", ".")) for number in _NUMBER.findall(cell)]
    if not numbers:
        return None
    side = -1.0 if _BELOW.match(cell) else 1.0 if _ABOVE.match(cell) or cell.endswith("+") else 0.0
    words = _ABOVE.sub("", _BELOW.sub("", cell))
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", words)
    return (numbers[0], side, *numbers[1:]), " ".join(re.findall(r"[^\W\d_]+", plain.casefold().replace(" to ", " ")))


def alphabetical(cells: Sequence[str]) -> list[int]:
    """Return the positions of the cells as a person sorts them: capitals beside small letters, 2 before 10."""

    def key(at: int) -> tuple[list[tuple[str, int]], str]:
        parts = re.split(r"(\d+)", cells[at].casefold())
        return [(part, 0) if not part.isdecimal() else ("", int(part)) for part in parts], cells[at]

    return sorted(range(len(cells)), key=key)


# --- trees --------------------------------------------------------------------------------------------------

Paths = list[list[str]]
Edge = TypeVar("Edge", Decimal, datetime.date)
_Order = Literal["own", "likeness", "alphabet"]

ROOT = "*"
_LEAF_INTERVALS = 60
_MOST_DAYS, _MOST_MONTHS = 400, 1800
_PERIODS = (1, 3, 6, 12, 60, 120, 240, 480, 960)  # months; each divides the next
_PARTS_OF_MONTHS = ((1, 8, 16, 24), (1, 16))  # the days on which a part begins
_CROWDED, _TIMES_FAIR = (0.125, 4)  # an interval with more than this share of rows, and than this many times its due
_HALVINGS, _LEAST_ROWS = 6, 20  # of rows in quantiles
_NEAR_MIDDLE = 0.1  # how far from half of the rows a rounder number may cut
_NAMED_LEAVES, _LABEL, _CELL = 4, 40, 30  # values, and characters, that a label names
_WORDS: dict[_Order, str] = {
    "own": "ranges of values in their order, each level in two",
    "likeness": "values grouped into balanced categories with similar class rates",
    "alphabet": "ranges of values in alphabetical order, each level in two",
}


def prefixes(column: Profile) -> Paths:
    """Generalise a code by its prefixes: 94103, 9410*, 941**, … A shorter code counts as if it were filled up.

    A word among the codes has no prefix: only the root is above it.
    """
    codes = {cell for cell in column.cells if is_code(cell)} or {*column.cells}
    longest, root = max(map(len, codes)), _root(column)
    return [
        [
            cell,
            *(
                cell[:kept].ljust(longest, "*")
                for kept in range(longest - 1, 0, -1)
                if kept < len(cell) and cell in codes
            ),
            root,
        ]
        for cell in column.cells
    ]


def round_intervals(column: Profile) -> Paths:
    """Cut the range of the numbers into intervals with round ends, each level's twice as wide as those of the last.

    Where most rows would be in a few of them, the rows are halved instead of the range.
    """
    numbers = [Decimal(column.numbers.usual(cell)) for cell in column.cells]
    least, most = min(numbers), max(numbers)
    whole = all(number == number.to_integral_value() for number in numbers)
    width = _round_width((most - least) / _LEAF_INTERVALS, least=Decimal(1) if whole else None)
    first, last = _floor(least, width), _floor(most, width) + width
    levels = [_cut(first, last, width)]
    if _is_skewed(numbers, column.counts, levels[0]):
        return _quantiles(numbers, column.counts, first, last)
    while width < last - first:  # then 0 may still be between two intervals; the root covers both
        width *= 2
        # A narrow rest at an end would be a branch of few rows, which keeps its neighbours from being told apart.
        levels.append([first, *_cut(first + width / 2, last - width / 2, width)[1:-1], last])
    levels = _below_root(levels)
    return _nested([[_written(edge) for edge in level] for level in levels], levels)


def _below_root(levels: Sequence[list[Edge]]) -> list[list[Edge]]:
    """Leave out levels of a single interval, which the root is, and add one of two where the top has more."""
    kept: list[list[Edge]] = [levels[0]]
    kept += [level for level in levels[1:] if len(level) > 2]
    top = kept[-1]
    if len(top) > 3:
        kept.append([top[0], top[len(top) // 2], top[-1]])
    return kept


def _is_skewed(numbers: Sequence[Decimal], counts: Counts, edges: Sequence[Decimal]) -> bool:
    """Return whether one interval has far more than its share of the rows, and of different numbers."""
    leaf = np.searchsorted(np.array(edges, np.float64), np.array(numbers, np.float64), side="right")
    rows = weighted_counts(leaf, counts, len(edges) + 1)
    crowded = rows > max(_CROWDED, _TIMES_FAIR / (len(edges) - 1)) * rows.sum()
    return bool((crowded & (value_counts(leaf, len(edges) + 1) > 1)).any())


def _quantiles(numbers: Sequence[Decimal], counts: Counts, first: Decimal, last: Decimal) -> Paths:
    """Halve the rows again and again, each time at the roundest number near the middle."""
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    values = [numbers[at] for at in order]
    before = np.concatenate([[0], np.cumsum(counts[order])])

    def halve(lo: int, hi: int, left: Decimal, right: Decimal, level: int) -> Paths:
        name = f"[{_written(left)}, {_written(right)})" if level else ROOT
        rows = int(before[hi] - before[lo])
        if hi - lo < 2 or level > _HALVINGS or (level and rows < _LEAST_ROWS):
            return [[name]]
        inside = before[lo + 1 : hi]
        best = lo + 1 + int(np.abs(2 * inside - before[lo] - before[hi]).argmin())
        from_half = np.abs((inside - before[lo]) / rows - 0.5)
        near = [best, *(lo + 1 + np.flatnonzero(from_half <= _NEAR_MIDDLE)).tolist()]
        edge = _roundest(values[min(near) - 1], values[max(near)])
        cut = next(at for at in range(min(near), max(near) + 1) if values[at] >= edge)
        below = [*halve(lo, cut, left, edge, level + 1), *halve(cut, hi, edge, right, level + 1)]
        return [[*path, name] for path in below]

    paths = halve(0, len(values), first, last, 0)
    return paths if len(paths[0]) > 1 else [[f"[{_written(first)}, {_written(last)})", ROOT]]


def _roundest(above: Decimal, upto: Decimal) -> Decimal:
    """Return the number above the one and up to the other that is a multiple of the largest 1, 2 or 5 times 10^n."""
    exponent = max(above.adjusted(), upto.adjusted()) + 1
    smallest = (upto - above).adjusted() - 1
    for unit in range(exponent, smallest - 1, -1):
        for factor in (5, 2, 1):
            found = _floor(upto, Decimal(factor).scaleb(unit))
            if found > above:
                return found
    return upto


def _round_width(width: Decimal, least: Decimal | None) -> Decimal:
    """Return the next of 1, 5, 10, 50, … (or 0.5, 0.1, …) that is at least this wide."""
    if least is not None and width <= least:
        return least
    if width <= 0:
        return Decimal(1)
    unit = Decimal(1).scaleb(width.adjusted())
    return next(unit * factor for factor in (1, 5, 10) if unit * factor >= width)


def _floor(number: Decimal, width: Decimal) -> Decimal:
    return (number / width).to_integral_value(ROUND_FLOOR) * width


def _cut(first: Decimal, last: Decimal, width: Decimal) -> list[Decimal]:
    """Return the edges: the two ends, and all multiples of the width between them."""
    edges, edge = [first], _floor(first, width) + width
    while edge < last:
        edges.append(edge)
        edge += width
    return [*edges, last]


def _written(edge: Decimal) -> str:
    return f"{edge.normalize():f}" if edge else "0"


def calendar(column: Profile) -> Paths:
    """Generalise a date to its day and parts of months (where there are few), month, quarter, half-year, year, …"""
    epoch = datetime.date(1970, 1, 1).toordinal()
    dates = [datetime.date.fromordinal(read_date(cell, column.format) + epoch) for cell in column.cells]
    first, last = min(dates), max(dates)
    levels: list[list[datetime.date]] = []
    if (last - first).days < _MOST_DAYS:
        span = range(first.replace(day=1).toordinal(), _next_month(last).toordinal() + 1)
        days = [datetime.date.fromordinal(day) for day in span]
        levels += [days, *([day for day in days if day.day in parts] for parts in _PARTS_OF_MONTHS)]
    months = [first.replace(day=1)]
    while months[-1] <= last:
        months.append(_next_month(months[-1]))
    for period in _PERIODS:
        if period > 1 or len(months) <= _MOST_MONTHS:
            near = period // 2
            inside = months[max(near, 1) : len(months) - max(near, 1)]
            inner = [month for month in inside if (month.year * 12 + month.month - 1) % period == 0]
            levels.append([months[0], *inner, months[-1]])
    levels = _below_root(levels)
    return _nested([[day.isoformat() for day in level] for level in levels], levels)


def _next_month(day: datetime.date) -> datetime.date:
    return (day.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)


def _nested(names: Sequence[Sequence[str]], edges: Sequence[Sequence[object]]) -> Paths:
    """Return the paths of intervals, level by level from the leaves, where each level's edges are among the last's."""
    paths: Paths = []
    at = [0] * len(edges)
    for leaf in range(len(edges[0]) - 1):
        path = list[str]()
        for level, ends in enumerate(edges):
            while ends[at[level] + 1] <= edges[0][leaf]:  # type: ignore[operator] # all of one kind
                at[level] += 1
            name = f"[{names[level][at[level]]}, {names[level][at[level] + 1]})"
            if name not in path:
                path.append(name)
        paths.append([*path, ROOT])
    return paths


def balanced(column: Profile, likeness: Sequence[float] | None = None) -> Paths:
    """Halve the categories again and again, so that each half has about as many rows.

    They are in their own order where they have one (`trees.py`), else in that of their `likeness` (to a class,
    say) or of the alphabet.
    """
    order, kind = _order(column, likeness)
    paths: dict[int, list[str]] = {at: [column.cells[at]] for at in order}
    root = _root(column)
    used = {root, *column.cells}
    label = _short_name if kind == "likeness" else _range_name

    def halve(group: list[int], is_root: bool = False) -> None:
        if len(group) == 1:
            return
        cut = _middle(column.counts, group)
        halve(group[:cut])
        halve(group[cut:])
        name = root if is_root else _unused(label(column, group), used)
        used.add(name)
        for at in group:
            paths[at].append(name)

    halve(order, is_root=True)
    return [paths[at] if len(order) > 1 else [*paths[at], root] for at in order]


def words_of_order(column: Profile, likeness: Sequence[float] | None) -> str:
    """Say what the branches of the column's balanced tree are."""
    return _WORDS[_order(column, likeness)[1]]


def has_short_names(column: Profile, likeness: Sequence[float] | None) -> bool:
    """Return whether labels of the column's balanced tree leave out values that a reader cannot guess."""
    order, kind = _order(column, likeness)
    if kind != "likeness" or len(order) <= 2:
        return False
    cut = _middle(column.counts, order)
    return any(_is_short(column, half) for half in (order[:cut], order[cut:]))


def _order(column: Profile, likeness: Sequence[float] | None) -> tuple[list[int], _Order]:
    """Return the categories in an order, and which that is."""
    own = column.order or natural_order(column.cells)
    if own:
        return list(own), "own"
    if likeness is None:
        return alphabetical(column.cells), "alphabet"
    return sorted(range(len(column.cells)), key=lambda at: (likeness[at], column.cells[at])), "likeness"


def _root(column: Profile) -> str:
    """Return a name for the root that is no value of the column."""
    return _unused(ROOT, set(column.cells))


def _middle(counts: Counts, group: list[int]) -> int:
    """Return where the rows before and after differ least."""
    total = sum(int(counts[at]) for at in group)
    before, best, cut = 0, total + 1, 1
    for position, at in enumerate(group[:-1], start=1):
        before += int(counts[at])
        if abs(total - 2 * before) < best:
            best, cut = abs(total - 2 * before), position
    return cut


def _range_name(column: Profile, group: Sequence[int]) -> str:
    """Name neighbours in the column's order by the first and the last: `a – d`."""
    ends = [column.cells[group[0]], column.cells[group[-1]]]
    return " – ".join(map(_cell, ends)) if len(group) > 2 else " | ".join(map(_cell, ends))


def _short_name(column: Profile, group: Sequence[int]) -> str:
    """Name values that belong together for another reason: all of a few, else the most common and how many more."""
    if not _is_short(column, group):
        return " | ".join(column.cells[at] for at in sorted(group))
    most = max(group, key=lambda at: (int(column.counts[at]), -at))
    return f"{_cell(column.cells[most])} + {len(group) - 1} more"


def _is_short(column: Profile, group: Sequence[int]) -> bool:
    return len(group) > _NAMED_LEAVES or sum(len(column.cells[at]) + 3 for at in group) > _LABEL


def _cell(cell: str) -> str:
    return cell if len(cell) <= _CELL else f"{cell[: _CELL - 1].rstrip()}…"


def _unused(name: str, used: set[str]) -> str:
    name = f"values {name}" if len(name) > 1 and name[0] == name[-1] == "*" else name  # asterisks are marks in a file
    at, found = 2, name
    while found in used:
        found, at = f"{name} #{at}", at + 1
    return found
