"""One self-contained HTML file about a release: no script, and nothing from the network."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from masquerade.anonymize.release import Release
from masquerade.files import write_whole
from masquerade.report.charts.svg import chart_style, clean, clip
from masquerade.report.contents import contents

_LONGEST = 300  # characters of one external text; charts shorten further


def write_report(release: Release, path: Path) -> None:
    """Write the report atomically."""
    write_whole(path, render_report(release))


def render_report(release: Release, table_sha256: str = "") -> str:
    """Return the report's HTML, which is deterministic for a release; it may name the file that holds the table."""
    return render("release.html", **contents(release, table_sha256))


def render(template: str, **values: Any) -> str:
    """Return a page of this room with the values in it, all of them escaped, and the style of every page."""
    return pages().get_template(template).render(style=page_style(), **values)


def framed(page: str) -> str:
    """Return a page in a frame of its own, for notebooks."""
    source = escape(page, quote=True)
    return f'<iframe srcdoc="{source}" style="width: 100%; height: 36rem; border: 0" sandbox></iframe>'


@cache
def pages() -> Environment:
    """Return the templates of this room; each extends `page.html`, which has what a page may load: nothing."""
    return Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_presentable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def page_style() -> Markup:
    """Return the style of every page and of the charts in it."""
    return Markup(chart_style() + _file("style.css"))  # noqa: S704 # our own files


def _file(name: str) -> str:
    return resources.files("masquerade.report").joinpath(name).read_text("utf-8")


def _presentable(value: Any) -> Any:
    """Shorten external texts and remove characters that are not allowed in a document."""
    return clean(clip(value, _LONGEST)) if isinstance(value, str) and not isinstance(value, Markup) else value
