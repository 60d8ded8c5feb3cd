"""A Bayes net: an attribute stands right of its parents, and an arrow leads from each of them to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from masquerade.report.charts.svg import chart, element, label, shorten, text_width

_SIZE, _ROW, _BOX, _GAP, _WIDEST = 12.5, 44.0, 26.0, 70.0, 170.0


def net_chart(parents: Mapping[str, Sequence[str]], *, title: str) -> Markup:
    """Draw the attributes in columns: each one right of its last parent."""
    level: dict[str, int] = {}
    for name, own in parents.items():  # parents come first
        level[name] = 1 + max((level[each] for each in own), default=-1)
    columns = [
        [name for name in parents if level[name] == at] for at in range(1 + max(level.values(), default=0))
    ]
    tallest = max(len(column) for column in columns)
    width = min(_WIDEST, 24 + max(text_width(name, _SIZE) for name in parents))
    at: dict[str, tuple[float, float]] = {}
    for number, column in enumerate(columns):
        top = (tallest - len(column) + 1) * _ROW / 2
        top += 6 if number % 2 else 0  # so that arrows pass beside boxes
        for row, name in enumerate(column):
            at[name] = (number * (width + _GAP), top + row * _ROW)
    drawn: list[str] = []
    for name, own in parents.items():
        for parent in own:
            (x, y), (x_to, y_to) = at[parent], at[name]
            start, end = x + width, x_to - 6
            bend = (end - start) / 2
            path = f"M{start:.1f} {y:.1f}C{start + bend:.1f} {y:.1f} {end - bend:.1f} {y_to:.1f} {end:.1f} {y_to:.1f}"
            drawn.append(element("path", class_="branch", d=path))
            head = f"M{end:.1f} {y_to - 4:.1f}L{x_to:.1f} {y_to:.1f}L{end:.1f} {y_to + 4:.1f}z"
            drawn.append(element("path", class_="arrow", d=head))
    for name, (x, y) in at.items():
        drawn.append(element("rect", class_="question", x=x, y=y - _BOX / 2, width=width, height=_BOX, rx=13))
        text = shorten(name, width - 20, _SIZE)
        drawn.append(label(x + width / 2, y + 4.5, text, "node", anchor="middle", tooltip=name))
    said = "; ".join(f"{name} depends on {' and '.join(own)}" for name, own in parents.items() if own)
    total = len(columns) * width + (len(columns) - 1) * _GAP
    size = total + 2, tallest * _ROW + 8
    return chart("net tree", *size, *drawn, title=title, description=said or "no dependencies", fixed=True)
