"""Horizontal bars: a whole chart, and a small bar for a table cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from masquerade.report.charts.svg import chart, element, label, shorten
from masquerade.report.wording import figure

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
            label(
                _WIDTH, top + 13, shorten(written, _WIDTH * 0.38, 13), "value", anchor="end", tooltip=written
            ),
            element("rect", class_="track", x=0, y=top + 20, width=_WIDTH, height=8, rx=4),
            element(
                "rect",
                class_="bar",
                x=0,
                y=top + 20,
                width=_WIDTH * share,
                height=8,
                rx=min(4, _WIDTH * share / 2),
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
