"""Line charts of several named series: how a figure changes with a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from masquerade.errors import ParameterError
from masquerade.report.charts.svg import Scale, ScaleKind, chart, element, label, log_ticks, shorten, text_width, ticks
from masquerade.report.verdict import figure

_WIDTH, _PLOT = 640.0, 230.0
_LEFT, _RIGHT = 2.0, 632.0
_STYLES = 12  # different colours, and as many markers: 144 series differ in one of them at least
_MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.4l4.2 7.4h-8.4z",
    "M0-4.6l4.6 4.6-4.6 4.6-4.6-4.6z",
    "M0 4.4l4.2-7.4h-8.4z",
    "M-4-1.3h2.7v-2.7h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7z",
    "M-3.8-2l1.8-1.8 2 2 2-2 1.8 1.8-2 2 2 2-1.8 1.8-2-2-2 2-1.8-1.8 2-2z",
    "M-4.4 0l7.4-4.2v8.4z",
    "M4.4 0l-7.4-4.2v8.4z",
    "M0-4.8l1.2 3.2 3.4.1-2.7 2.1 1 3.3-2.9-1.9-2.9 1.9 1-3.3-2.7-2.1 3.4-.1z",
    "M-2.2-4h4.4l2.2 4-2.2 4h-4.4l-2.2-4z",
    "M-4.4-1.7h8.8v3.4h-8.8z",
)


def _style(position: int) -> tuple[str, str]:
    """Return a series' class, which has its colour, and its marker."""
    return f"s{position % _STYLES}", _MARKERS[(position + position // _STYLES) % len(_MARKERS)]


@dataclass(frozen=True)
class Series:
    """A named line through (x, y) points; a y of None leaves a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True)
class Reference:
    """A reference level, drawn across the whole chart."""

    value: float
    name: str


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    description: str = "",
    x_name: str = "",
    y_name: str = "",
    references: Sequence[Reference] = (),
    x_scale: ScaleKind = "linear",
    from_zero: bool = False,
    write: Callable[[float], str] = figure,
) -> Markup:
    """Draw lines through points whose x need not be evenly spaced. `write` formats the y values."""
    points = [(x, y) for each in series for x, y in each.points if y is not None]
    if not points:
        raise ParameterError("line_chart: give at least one series with at least one point")
    if x_scale == "log" and min(x for x, _ in points) <= 0:
        raise ParameterError("line_chart: a logarithmic axis needs x values above 0")
    legend, top = _legend(series)
    top += 34
    bottom = top + _PLOT
    levels = [y for _, y in points] + [reference.value for reference in references]
    y_low, y_high = (min(levels), max(levels))
    y_ticks = ticks(0 if from_zero else y_low, y_high, 5)
    step = y_ticks[1] - y_ticks[0] if len(y_ticks) > 1 else max(abs(y_high), 1.0) / 5
    # Beside the lines, never below them; as wide as the larger letters of a narrow screen.
    left = _LEFT + max(text_width(write(tick), 18) for tick in y_ticks) + 8
    x_at = Scale(min(x for x, _ in points), max(x for x, _ in points), left + 8, _RIGHT - 8, x_scale)
    y_at = Scale(min(0, y_low) if from_zero else y_low - step / 2, y_high + step / 4, bottom, top)

    drawn: list[str] = [*legend]
    drawn += _axes(x_at, y_at, y_ticks, (left, top, bottom), (x_name, y_name), write)
    drawn += [part for reference in references for part in _reference(reference, left, y_at, write)]
    drawn += [part for position, each in enumerate(series) for part in _line(each, position, x_at, y_at, write)]
    said = description or _said(series, references, write)
    return chart("lines", _WIDTH, bottom + 50, *drawn, title=title, description=said)


def _legend(series: Sequence[Series]) -> tuple[list[str], float]:
    drawn: list[str] = []
    left, base = 0.0, 14.0
    for position, each in enumerate(series):
        name = shorten(each.name, 260, 13)
        width = text_width(name, 18) + 40  # 18: the larger letters of a narrow screen
        if left and left + width > _WIDTH:
            left, base = 0.0, base + 24
        style, marker = _style(position)
        drawn += [
            element("line", class_=f"line {style}", x1=left, x2=left + 22, y1=base - 4, y2=base - 4),
            element("path", class_=f"dot {style}", d=marker, transform=f"translate({left + 11:.2f} {base - 4})"),
            label(left + 28, base, name, "name", tooltip=each.name),
        ]
        left += width
    return drawn, base


def _axes(
    x_at: Scale,
    y_at: Scale,
    y_ticks: Sequence[float],
    corner: tuple[float, float, float],
    names: tuple[str, str],
    write: Callable[[float], str],
) -> list[str]:
    left, top, bottom = corner
    drawn: list[str] = []
    for tick in y_ticks:
        drawn.append(element("line", class_="grid", x1=left, x2=_RIGHT, y1=y_at(tick), y2=y_at(tick)))
        drawn.append(label(left - 6, y_at(tick) + 4, write(tick), "tick", anchor="end"))
    values = log_ticks(x_at.low, x_at.high) if x_at.kind == "log" else ticks(x_at.low, x_at.high, 7)
    free = left
    for tick in values or (x_at.low, x_at.high):
        half = text_width(figure(tick), 18) / 2
        at = min(max(x_at(tick), left + half), _RIGHT - half)
        drawn.append(element("line", class_="axis", x1=x_at(tick), x2=x_at(tick), y1=bottom, y2=bottom + 4))
        if at - half >= free:
            drawn.append(label(at, bottom + 20, figure(tick), "tick", anchor="middle"))
            free = at + half + 8
    drawn.append(element("line", class_="axis", x1=left, x2=_RIGHT, y1=bottom, y2=bottom))
    drawn.append(label(_LEFT, top - 10, shorten(names[1], 500, 13), "axis-name"))
    drawn.append(label(_RIGHT, bottom + 42, shorten(names[0], 500, 13), "axis-name", anchor="end"))
    return drawn


def _reference(reference: Reference, left: float, y_at: Scale, write: Callable[[float], str]) -> list[str]:
    y = y_at(reference.value)
    name = f"{shorten(reference.name, 300, 13)} {write(reference.value)}"
    return [
        element("line", class_="required", x1=left, x2=_RIGHT, y1=y, y2=y),
        label(_RIGHT, y - 5, name, "required-name", anchor="end", tooltip=reference.name),
    ]


def _line(series: Series, position: int, x_at: Scale, y_at: Scale, write: Callable[[float], str]) -> list[str]:
    style, marker = _style(position)
    ordered = sorted(series.points, key=lambda point: point[0])
    pieces = [
        f"M{x_at(x0):.2f} {y_at(y0):.2f}L{x_at(x1):.2f} {y_at(y1):.2f}"
        for (x0, y0), (x1, y1) in pairwise(ordered)
        if y0 is not None and y1 is not None
    ]
    drawn: list[str] = [element("path", class_=f"line {style}", d="".join(pieces))] if pieces else []
    for x, y in ordered:
        if y is not None:
            told = element("title", f"{series.name}, {figure(x)}: {write(y)}")
            at = f"translate({x_at(x):.2f} {y_at(y):.2f})"
            drawn.append(element("path", told, class_=f"dot {style}", d=marker, transform=at))
    return drawn


def _said(series: Sequence[Series], references: Sequence[Reference], write: Callable[[float], str]) -> str:
    told = [
        f"{each.name}: " + ", ".join(f"{write(y)} at {figure(x)}" for x, y in each.points if y is not None) + "."
        for each in series
    ]
    told += [f"For comparison, {reference.name}: {write(reference.value)}." for reference in references]
    return " ".join(told)
