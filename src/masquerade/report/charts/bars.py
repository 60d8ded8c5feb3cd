"""Horizontal bars: a whole chart, and a small bar for a table cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from masquerade.engine import value_counts
from masquerade.report.charts.svg import Scale, chart, element, label, log_ticks, nice_step, shorten, text_width, ticks
from masquerade.report.verdict import count, counted, figure

_WIDTH, _ROW, _TOP = 640.0, 40.0, 6.0


@dataclass(frozen=True)
class Bar:
    """One named value; `note` is shown after the value."""

    name: str
    value: float
    note: str = ""


def bar_chart(
    bars: Sequence[Bar],
    *,
    title: str,
    description: str = "",
    maximum: float | None = None,
    write: Callable[[float], str] = figure,
) -> Markup:
    """Draw one row per bar, name and value above it; bars run from 0 to `maximum` (default: the largest)."""
    full = maximum if maximum is not None else max((bar.value for bar in bars), default=0.0)
    rows = []
    for position, bar in enumerate(bars):
        top = _TOP + position * _ROW
        share = min(1.0, max(0.0, bar.value / full)) if full > 0 else 0.0
        written = f"{write(bar.value)} {bar.note}".rstrip()
        rows += [
            label(0, top + 13, shorten(bar.name, _WIDTH * 0.6, 13), "name", tooltip=bar.name),
            label(_WIDTH, top + 13, shorten(written, _WIDTH * 0.38, 13), "value", anchor="end", tooltip=written),
            element("rect", class_="track", x=0, y=top + 20, width=_WIDTH, height=8, rx=4),
            element(
                "rect", class_="bar", x=0, y=top + 20, width=_WIDTH * share, height=8, rx=min(4, _WIDTH * share / 2)
            ),
        ]
    said = description or "; ".join(f"{bar.name}: {write(bar.value)}" for bar in bars[:40])
    return chart("bars", _WIDTH, _TOP + max(1, len(bars)) * _ROW, *rows, title=title, description=said)


def share_bar(share: float, kind: str = "accent") -> Markup:
    """Draw a bar from 0 to 1 as wide as its cell; hidden from screen readers, as the next cell has the number."""
    percent = 100 * min(1.0, max(0.0, share))
    return element(
        "svg",
        element("rect", class_="track", width="100%", height="8", rx="4"),
        element("rect", class_="bar", width=f"{percent:.2f}%", height="8", rx="4"),
        class_=f"share {kind}",
        height="8",
        aria_hidden="true",
    )


# --- histogram ----------------------------------------------------------------------------------------------
# Histogram of group sizes, with lines for the required sizes.

_HISTOGRAM_WIDTH, _HEIGHT = 640.0, 306.0
_LEFT, _RIGHT, _HISTOGRAM_TOP, _BOTTOM = 2.0, 582.0, 50.0, 246.0  # the axis of group counts is on the right
_FEW = 24  # bins at most, about


@dataclass(frozen=True)
class SizeLine:
    """A required size; `exact` if it is required of exactly the groups that are drawn."""

    size: int
    name: str
    exact: bool = True


@dataclass(frozen=True)
class Bins:
    """Bin i holds the sizes from `edges[i]` up to, not including, `edges[i + 1]`."""

    edges: tuple[int, ...]
    counts: tuple[int, ...]
    log: bool

    def span(self, position: int) -> str:
        """Describe the sizes of one bin in words."""
        first, last = self.edges[position], self.edges[position + 1] - 1
        return count(first) if first == last else f"{count(first)} to {count(last)}"


def size_bins(sizes: NDArray[np.int64], marks: Sequence[int] = ()) -> Bins:
    """Choose round bins: one per size if there are few, else of equal width, on a linear or log scale.

    A bin begins at every mark in range, so that no bar straddles a line.
    """
    low, high = (int(sizes.min()), int(sizes.max())) if sizes.size else (1, 1)
    log = high > 10 * max(low, 1) and high - low > _FEW
    if log:
        step = 1
        edges = {round(edge) for edge in log_ticks(max(1, low / 2), high * 2, (1, 1.5, 2, 3, 5, 7))}
    else:
        step = max(1, round(nice_step((high - low + 1) / _FEW)))
        edges = set(range(low // step * step, high + step + 1, step))
    nice = {edge for edge in edges if all(abs(edge - m) > (m * 0.15 if log else step * 0.4) for m in marks)}
    ordered = np.array(sorted(nice | set(marks)), np.int64)
    if not ordered.size or ordered[0] > low:
        ordered = np.insert(ordered, 0, low)
    if ordered[-1] <= high:
        ordered = np.append(ordered, high + 1)
    first = int(np.searchsorted(ordered, low, side="right")) - 1
    last = int(np.searchsorted(ordered, high, side="right"))
    used = ordered[first : last + 1]
    counts = value_counts(np.searchsorted(used, sizes, side="right") - 1, used.size - 1)
    return Bins(tuple(used.tolist()), tuple(counts.tolist()), log)


def size_histogram(sizes: NDArray[np.int64], lines: Sequence[SizeLine] = (), *, title: str) -> Markup:
    """Draw the histogram and its lines, with the smallest and median group marked below the axis."""
    bins = size_bins(sizes, [line.size for line in lines])
    x = _sizes_at(bins, [line.size for line in lines])
    tallest = max(bins.counts)
    y = Scale(0, tallest, _BOTTOM, _HISTOGRAM_TOP)
    drawn: list[str] = [*_grid(y, tallest), *_bars(bins, x, y), *_size_axis(bins, x)]
    drawn.append(element("line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM))
    drawn += _required(lines, x)
    if sizes.size:
        half = 0.5 if not bins.log else 0.0  # a size is centred in its bin
        drawn.append(_marker(x(int(sizes.min()) + half), "smallest", "M0 0l5 9h-10z"))
        drawn.append(_marker(x(float(np.median(sizes)) + half), "median", "M0 0l5 5-5 5-5-5z"))
    return chart("histogram", _HISTOGRAM_WIDTH, _HEIGHT, *drawn, title=title, description=_said(sizes, bins, lines))


def _sizes_at(bins: Bins, marks: Sequence[int]) -> Scale:
    """Make room for all bins and lines; a line outside the bins is kept off the very edge."""
    low, high = float(bins.edges[0]), float(bins.edges[-1])
    room = (high - low) / 20
    for mark in marks:
        if mark <= low:
            low = mark * 0.85 if bins.log else mark - room
        if mark >= high:
            high = mark * 1.2 if bins.log else mark + room
    return Scale(max(low, 0.85) if bins.log else low, high, _LEFT, _RIGHT, "log" if bins.log else "linear")


def _grid(y: Scale, tallest: int) -> list[str]:
    drawn: list[str] = []
    for tick in ticks(0, tallest, 3):
        if tick == 0 or tick % 1:
            continue
        drawn.append(element("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y(tick), y2=y(tick)))
        drawn.append(label(_RIGHT + 6, y(tick) + 4, count(int(tick)), "tick"))
    drawn.append(label(_HISTOGRAM_WIDTH, _HISTOGRAM_TOP - 22, "groups", "axis-name", anchor="end"))
    drawn.append(label(_RIGHT, _HEIGHT - 5, "records in a group", "axis-name", anchor="end"))
    return drawn


def _bars(bins: Bins, x: Scale, y: Scale) -> list[str]:
    drawn: list[str] = []
    for position, (groups, (lo, hi)) in enumerate(zip(bins.counts, pairwise(bins.edges), strict=True)):
        if not groups:
            continue
        left, right = x(lo), x(hi)
        gap = min(1.0, (right - left) * 0.1)
        top = min(y(groups), _BOTTOM - 2)  # keep one group among thousands visible
        told = element("title", f"{bins.span(position)} records: {counted(groups, 'group')}")
        drawn.append(
            element("rect", told, class_="bar", x=left + gap, y=top, width=right - left - 2 * gap, height=_BOTTOM - top)
        )
    return drawn


def _size_axis(bins: Bins, x: Scale) -> list[str]:
    low, high = x.low, x.high
    if bins.log:
        values = log_ticks(low, high) if high / low < 2000 else log_ticks(low, high, (1,))
    else:
        values = tuple(tick for tick in ticks(low, high, 8) if tick % 1 == 0)
    # A bar of one size is labelled below its middle; otherwise labels mark where bins begin.
    single = not bins.log and all(hi - lo == 1 for lo, hi in pairwise(bins.edges))
    drawn: list[str] = []
    free = _LEFT
    for value in values:
        if single and value + 0.5 > high:
            break
        text = count(int(value))
        half = text_width(text, 12) / 2
        at = min(max(x(value + 0.5 if single else value), _LEFT + half), _RIGHT - half)
        if at - half < free:
            continue
        # On a narrow screen letters are larger, so only labels with enough room are kept there.
        class_ = "tick" if at - 1.8 * half >= free or not drawn else "tick spare"
        free = at + (1.8 if class_ == "tick" else 1) * half + 10
        if not single:
            drawn.append(element("line", class_="axis", x1=x(value), x2=x(value), y1=_BOTTOM, y2=_BOTTOM + 4))
        drawn.append(label(at, _BOTTOM + 29, text, class_, anchor="middle"))
    return drawn


def _required(lines: Sequence[SizeLine], x: Scale) -> list[str]:
    """Draw the required sizes; names that would overlap are put on different levels."""
    drawn: list[str] = []
    ends = [-1.0, -1.0, -1.0]
    for line in sorted(lines, key=lambda each: each.size):
        at, width = x(line.size), text_width(line.name, 16)
        flip = at + width + 8 > _RIGHT
        start = at - width - 6 if flip else at
        level = next((index for index, end in enumerate(ends) if end < start), 0)
        ends[level] = at + (0 if flip else width + 6)
        top = 16 + 13.0 * level
        class_ = "required" if line.exact else "required loose"
        drawn.append(element("line", class_=class_, x1=at, x2=at, y1=top - 10, y2=_BOTTOM))
        drawn.append(label(at + (-5 if flip else 5), top, line.name, "required-name", anchor="end" if flip else None))
    return drawn


def _marker(at: float, name: str, path: str) -> Markup:
    return element(
        "path", element("title", name), class_=f"marker {name}", d=path, transform=f"translate({at:.2f} {_BOTTOM + 2})"
    )


def _said(sizes: NDArray[np.int64], bins: Bins, lines: Sequence[SizeLine]) -> str:
    if not sizes.size:
        return "There is no group."
    told = [
        f"{counted(int(sizes.size), 'group')}; the smallest has {counted(int(sizes.min()), 'record')}, "
        f"the median {float(np.median(sizes)):g}, the largest {count(int(sizes.max()))}.",
        *(f"Required: {line.name}." for line in lines),
    ]
    told += [f"{bins.span(i)} records: {counted(groups, 'group')}." for i, groups in enumerate(bins.counts) if groups]
    return " ".join(told)


# --- signed bars --------------------------------------------------------------------------------------------
# Signed bars: values on both sides of a zero line, as coefficients are.

_SIGNED_WIDTH, _SIGNED_ROW, _NAMES, _VALUES = 640.0, 26.0, 210.0, 90.0


def signed_bar_chart(bars: Sequence[Bar], *, title: str) -> Markup:
    """Draw one row per bar: its name, a bar to the left or right of the zero line, its value."""
    full = max((abs(bar.value) for bar in bars), default=0.0) or 1.0
    middle = _NAMES + (_SIGNED_WIDTH - _NAMES - _VALUES) / 2
    half = (_SIGNED_WIDTH - _NAMES - _VALUES) / 2
    drawn: list[str] = []
    for row, bar in enumerate(bars):
        y = row * _SIGNED_ROW + 4
        length = half * abs(bar.value) / full
        kind = "bar negative" if bar.value < 0 else "bar"
        x = middle - length if bar.value < 0 else middle
        written = f"{figure(bar.value)} {bar.note}".rstrip()
        drawn += [
            label(0, y + 13, shorten(bar.name, _NAMES - 12, 13), "name", tooltip=bar.name),
            element("rect", class_=kind, x=x, y=y + 4, width=length, height=10, rx=2),
            label(_SIGNED_WIDTH, y + 13, written, "value", anchor="end"),
        ]
    bottom = max(1, len(bars)) * _SIGNED_ROW + 4
    drawn.append(element("line", class_="axis", x1=middle, x2=middle, y1=0, y2=bottom))
    said = "; ".join(f"{bar.name}: {figure(bar.value)}" for bar in bars[:40])
    return chart("bars signed", _SIGNED_WIDTH, bottom, *drawn, title=title, description=said)
