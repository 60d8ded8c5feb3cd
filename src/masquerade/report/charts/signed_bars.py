"""Signed bars: values on both sides of a zero line, as coefficients are."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from masquerade.report.charts.bars import Bar
from masquerade.report.charts.svg import chart, element, label, shorten
from masquerade.report.wording import figure

_WIDTH, _ROW, _NAMES, _VALUES = 640.0, 26.0, 210.0, 90.0


def signed_bar_chart(bars: Sequence[Bar], *, title: str) -> Markup:
    """Draw one row per bar: its name, a bar to the left or right of the zero line, its value."""
    full = max((abs(bar.value) for bar in bars), default=0.0) or 1.0
    middle = _NAMES + (_WIDTH - _NAMES - _VALUES) / 2
    half = (_WIDTH - _NAMES - _VALUES) / 2
    drawn: list[str] = []
    for row, bar in enumerate(bars):
        y = row * _ROW + 4
        length = half * abs(bar.value) / full
        kind = "bar negative" if bar.value < 0 else "bar"
        x = middle - length if bar.value < 0 else middle
        written = f"{figure(bar.value)} {bar.note}".rstrip()
        drawn += [
            label(0, y + 13, shorten(bar.name, _NAMES - 12, 13), "name", tooltip=bar.name),
            element("rect", class_=kind, x=x, y=y + 4, width=length, height=10, rx=2),
            label(_WIDTH, y + 13, written, "value", anchor="end"),
        ]
    bottom = max(1, len(bars)) * _ROW + 4
    drawn.append(element("line", class_="axis", x1=middle, x2=middle, y1=0, y2=bottom))
    said = "; ".join(f"{bar.name}: {figure(bar.value)}" for bar in bars[:40])
    return chart("bars signed", _WIDTH, bottom, *drawn, title=title, description=said)
