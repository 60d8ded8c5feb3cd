"""A decision tree: the root on the left, what it asks in boxes, values on the branches, labels at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from masquerade.report.charts.svg import chart, element, label, shorten, text_width

_SIZE, _ROW, _BOX, _GAP, _WIDEST = 12.5, 30.0, 22.0, 34.0, 170.0
_MOST_LEAVES = 80  # of a larger tree the nodes near the root are drawn


@dataclass
class _Drawn:
    text: str
    value: str  # on the branch to it
    is_leaf: bool
    depth: int
    parent: _Drawn | None
    row: float = 0.0
    children: list[_Drawn] = field(default_factory=list)


def decision_tree_chart(tree: Mapping[str, Any], *, title: str) -> Markup:
    """Draw a tree as ID3 writes it: {"attribute", "children" by value} or {"label"}."""
    nodes = _laid_out(tree, _deepest(tree))
    widths = _column_widths(nodes)
    starts = [sum(widths[:depth]) + _GAP * depth for depth in range(len(widths))]
    drawn: list[str] = []
    for node in nodes:
        x, y, width = starts[node.depth], _middle(node), widths[node.depth]
        if node.parent is not None:
            end = starts[node.parent.depth] + widths[node.parent.depth]
            bend, above = end + _GAP / 2, _middle(node.parent)
            path = f"M{end:.1f} {above:.1f}H{bend:.1f}V{y:.1f}H{x:.1f}"
            drawn.append(element("path", class_="branch", d=path))
        value = f"{node.value} → " if node.value else ""
        text = f"{value}{node.text}"
        kind = "leaf" if node.is_leaf else "question"
        drawn.append(element("rect", class_=kind, x=x, y=y - _BOX / 2, width=width, height=_BOX, rx=4))
        drawn.append(label(x + 8, y + 4.5, shorten(text, width - 12, _SIZE), "node", tooltip=text))
    height = (1 + max(node.row for node in nodes)) * _ROW
    total = starts[-1] + widths[-1]
    return chart(
        "decision-tree tree", total + 2, height, *drawn, title=title, description=_said(nodes), fixed=True
    )


def _deepest(tree: Mapping[str, Any]) -> int:
    """Return how deep the tree can be drawn with few enough leaves."""
    level, depth = [tree], 0
    while True:
        below = [child for node in level for child in node.get("children", {}).values()]
        if not below or len(below) > _MOST_LEAVES:
            return depth
        level, depth = below, depth + 1


def _laid_out(tree: Mapping[str, Any], deepest: int) -> list[_Drawn]:
    """Return the nodes in preorder, each with its row: that of a leaf is its own, others are between their children."""
    nodes: list[_Drawn] = []
    next_row = 0

    def place(written: Mapping[str, Any], value: str, depth: int, parent: _Drawn | None) -> _Drawn:
        nonlocal next_row
        is_leaf = "label" in written
        text = str(written["label"]) if is_leaf else f"{written['attribute']}?"
        node = _Drawn(text, value, is_leaf, depth, parent)
        nodes.append(node)
        if is_leaf or depth == deepest:
            node.text += "" if is_leaf else " …"
            node.row, next_row = next_row, next_row + 1
        else:
            node.children = [
                place(child, str(value), depth + 1, node) for value, child in written["children"].items()
            ]
            node.row = (node.children[0].row + node.children[-1].row) / 2
        return node

    place(tree, "", 0, None)
    return nodes


def _column_widths(nodes: list[_Drawn]) -> list[float]:
    widths: dict[int, float] = {}
    for node in nodes:
        wanted = text_width(f"{node.value} → {node.text}" if node.value else node.text, _SIZE) + 18
        widths[node.depth] = max(widths.get(node.depth, 0.0), min(_WIDEST, wanted))
    return [widths[depth] for depth in sorted(widths)]


def _middle(node: _Drawn) -> float:
    return (node.row + 0.5) * _ROW


def _said(nodes: list[_Drawn]) -> str:
    """Say each leaf with the way to it."""
    told = []
    for node in nodes:
        if node.children:
            continue
        way, at = [], node
        while at.parent is not None:
            way.append(f"{at.parent.text.rstrip('?')} {at.value}")
            at = at.parent
        told.append(f"{', '.join(reversed(way))}: {node.text}" if way else node.text)
    return "; ".join(told)
