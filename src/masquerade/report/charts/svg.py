"""SVG elements safe from injection: plain text is escaped, only `Markup` is inserted unchanged."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from markupsafe import Markup, escape

# --- scales -------------------------------------------------------------------------------------------------
# Axis scales: the positions of numbers, and the choice of tick labels.

ScaleKind = Literal["linear", "log"]


@dataclass(frozen=True)
class Scale:
    """Maps values in `[low, high]` to positions from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float
    kind: ScaleKind = "linear"

    def __call__(self, value: float) -> float:
        """Return the position of a value, clamped to the ends of the axis."""
        low, high, value = (self._measure(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

    def _measure(self, value: float) -> float:
        return math.log(value) if self.kind == "log" else value


def ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Return about `about` round numbers in `[low, high]`, 1, 2 or 5 times a power of ten apart."""
    if not high > low:
        return (low,)
    step = nice_step((high - low) / about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))


def nice_step(rough: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def log_ticks(low: float, high: float, digits: Sequence[float] = (1, 2, 5)) -> tuple[float, ...]:
    """Return the given digits times powers of ten in `[low, high]`; `low` must be above 0."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = (float(f"{digit * 10.0**power:.12g}") for power in powers for digit in digits)
    return tuple(value for value in values if low <= value <= high)


# --- svg ----------------------------------------------------------------------------------------------------

_ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010fffd]")
_SPACE = "http://www.w3.org/2000/svg"


def clean(text: str) -> str:
    """Remove the characters that are not allowed in XML or HTML."""
    return _ILLEGAL.sub("\ufffd", text)


def clip(text: str, limit: int = 200) -> str:
    """Truncate a text to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def number(value: float) -> str:
    """Format a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def element(tag: str, *children: str, **attributes: Any) -> Markup:
    """Return `<tag …>children</tag>`; None attributes are left out, and `text_anchor` becomes text-anchor."""
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _attribute(value))
        for name, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), written, inside)  # noqa: S704 # tags are ours


def _attribute(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else clean(str(value))


def chart(
    kind: str, width: float, height: float, *children: str, title: str, description: str, fixed: bool = False
) -> Markup:
    """Return the outer element. A chart stretches to the available width, unless it is `fixed` in size."""
    return element(
        "svg",
        element("title", clip(title)),
        element("desc", clip(description, 2000)),
        *children,
        class_=f"chart {kind}",
        role="img",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width if fixed else None,
        height=height if fixed else None,
    )


def label(x: float, y: float, text: str, class_: str, *, anchor: str | None = None, tooltip: str = "") -> Markup:
    """Draw one line of text, isolated from the text direction of its neighbours."""
    parts: list[str] = [element("title", clip(tooltip))] if tooltip else []
    return element("text", *parts, text, x=x, y=y, class_=class_, text_anchor=anchor)


def text_width(text: str, size: float) -> float:
    """Estimate the width of a line of text in the wider common sans-serif fonts."""
    return sum(_em(character) for character in text) * size


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.2
    if character in "iljtfrI.,:;'|!()[] -":
        return 0.39
    if character in "mwMW@%":
        return 0.97
    return 0.72 if character.isupper() else 0.63


def shorten(text: str, width: float, size: float) -> str:
    """Cut the text with an ellipsis if it is wider than `width`."""
    text = clip(" ".join(clean(text).split()), 400)
    if text_width(text, size) <= width:
        return text
    room = width - text_width("…", size)
    for end, character in enumerate(text):
        room -= _em(character) * size
        if room < 0:
            return text[:end].rstrip() + "…"
    return text


@cache
def chart_style() -> str:
    """Return the style sheet of all charts."""
    return resources.files("masquerade.report.charts").joinpath("charts.css").read_text("utf-8")


def standalone(svg: str) -> str:
    """Return a chart as the text of an .svg file, style included."""
    style = element("style", Markup(chart_style()))  # noqa: S704 # our own file
    opening, rest = svg.split(">", 1)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{opening} xmlns="{_SPACE}">{style}{rest}\n'
