"""Taxonomies made for columns that have none, as paths from each leaf to the root.

One function a kind of column: prefixes for codes, a calendar for dates, round intervals for numbers, and trees in which
the halves have about as many rows for categories.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

from masquerade.data.continuum import read_date
from masquerade.engine.counts import Counts
from masquerade.job.draft.profile import Profile

Paths = list[list[str]]

ROOT = "*"
_LEAF_INTERVALS = 60
_MOST_DAYS, _MOST_MONTHS = 400, 1800
_NAMED_LEAVES = 4


def prefixes(column: Profile) -> Paths:
    """Generalise a code by its prefixes: 94103, 9410*, 941**, … A shorter code counts as if it were filled up."""
    longest, root = max(map(len, column.cells)), _root(column)
    return [
        [
            cell,
            *(cell[:kept].ljust(longest, "*") for kept in range(longest - 1, 0, -1) if kept < len(cell)),
            root,
        ]
        for cell in column.cells
    ]


def round_intervals(column: Profile) -> Paths:
    """Cut the range of the numbers into intervals with round ends, each level's within those of the next."""
    numbers = [Decimal(cell.replace(",", ".") if column.decimal == "," else cell) for cell in column.cells]
    least, most = min(numbers), max(numbers)
    whole = all(number == number.to_integral_value() for number in numbers)
    width = _round_width((most - least) / _LEAF_INTERVALS, least=Decimal(1) if whole else None)
    first, last = _floor(least, width), _floor(most, width) + width
    levels = [_cut(first, last, width)]
    while width < last - first:  # then 0 may still be between two intervals; the root covers both
        width *= 5 if width.scaleb(-width.adjusted()).normalize() == 1 else 2  # 1, 5, 10, 50, 100, …
        levels.append(_cut(first, last, width))
    return _nested([[_written(edge) for edge in level] for level in levels], levels)


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
    """Generalise a date to its day (where there are few), month, year and decade."""
    epoch = datetime.date(1970, 1, 1).toordinal()
    dates = [datetime.date.fromordinal(read_date(cell, column.format) + epoch) for cell in column.cells]
    first, last = min(dates), max(dates)
    levels: list[list[datetime.date]] = []
    if (last - first).days < _MOST_DAYS:
        days = range(first.replace(day=1).toordinal(), _next_month(last).toordinal() + 1)
        levels.append([datetime.date.fromordinal(day) for day in days])
    months = [first.replace(day=1)]
    while months[-1] <= last:
        months.append(_next_month(months[-1]))
    if len(months) <= _MOST_MONTHS:
        levels.append(months)
    for years in (1, 10, 100):
        levels.append(
            [months[0], *(month for month in months[1:-1] if month.month == 1 and month.year % years == 0)]
        )
        levels[-1].append(months[-1])
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

    They are in order of their `likeness` (to a class, say), or of the alphabet.
    """
    order = sorted(
        range(len(column.cells)),
        key=lambda at: (likeness[at] if likeness is not None else 0.0, column.cells[at]),
    )
    paths: dict[int, list[str]] = {at: [column.cells[at]] for at in order}
    root = _root(column)
    used = {root, *column.cells}

    def halve(group: list[int], is_root: bool = False) -> None:
        if len(group) == 1:
            return
        cut = _middle(column.counts, group)
        halve(group[:cut])
        halve(group[cut:])
        name = root if is_root else _unused(_group_name([column.cells[at] for at in group]), used)
        used.add(name)
        for at in group:
            paths[at].append(name)

    halve(order, is_root=True)
    return [paths[at] if len(order) > 1 else [*paths[at], root] for at in order]


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


def _group_name(cells: list[str]) -> str:
    if len(cells) <= _NAMED_LEAVES:
        return " | ".join(cells)
    return f"{cells[0]} | {cells[1]} | … | {cells[-1]} ({len(cells)})"


def _unused(name: str, used: set[str]) -> str:
    at, found = 2, name
    while found in used:
        found, at = f"{name} #{at}", at + 1
    return found
