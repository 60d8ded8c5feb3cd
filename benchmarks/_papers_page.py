"""The page of `masquerade bench papers`: one self-contained HTML file, drawn like the report of a release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from _exhibits.exhibit import BETTER, NOT_REPRODUCED, REPRODUCED
from _exhibits.seen import Seen
from _figures import duration
from masquerade.files import write_whole
from masquerade.report.release import page_style, pages

_MARKS = {REPRODUCED: "good", BETTER: "good", NOT_REPRODUCED: "bad"}
_TEMPLATE = Path(__file__).with_name("_papers_page.html")


def write_page(seen: Sequence[Seen], folder: Path, real: bool, seconds: float) -> None:
    """Write papers.html into the folder, with the charts that the experiments saved there."""
    whole = pages().overlay(finalize=None, bytecode_cache=None)  # no text is cut: compiled otherwise than a report's
    template = whole.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    papers: dict[str, list[dict[str, Any]]] = {}
    for each in seen:
        papers.setdefault(each.paper.title, []).append(_shown(each, folder))
    counts = Counter(each.verdict.word for each in seen)
    page = template.render(
        style=page_style(),
        papers=papers,
        counts=counts.most_common(),
        total=len(seen),
        real=real,
        quick=any(each.quick for each in seen),
        seconds=duration(seconds),
    )
    write_whole(folder / "papers.html", page)


def _shown(seen: Seen, folder: Path) -> dict[str, Any]:
    return {
        "name": seen.exhibit.name,
        "shows": seen.exhibit.shows,
        "word": seen.verdict.word,
        "mark": _MARKS.get(seen.verdict.word, ""),
        "why": seen.verdict.why,
        "rows": seen.rows,
        "charts": [_chart(folder / f"{name}.svg") for name in seen.exhibit.charts],
        "settings": seen.settings,
        "command": f"masquerade bench {seen.experiment.name}",
        "code": seen.exhibit.code,
        "seconds": duration(seen.seconds),
    }


def _chart(path: Path) -> Markup:
    """The chart as it stands in a page: without the XML declaration of the file."""
    if not path.exists():
        return Markup("")
    return Markup(path.read_text(encoding="utf-8").partition("\n")[2])  # our own drawing
