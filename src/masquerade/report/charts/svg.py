"""SVG elements safe from injection: plain text is escaped, only `Markup` is inserted unchanged."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup, escape

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
    inside = Markup("").join(
        child if isinstance(child, Markup) else escape(clean(child)) for child in children
    )
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


def label(
    x: float, y: float, text: str, class_: str, *, anchor: str | None = None, tooltip: str = ""
) -> Markup:
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
