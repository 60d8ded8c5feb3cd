"""A tree with a cut through it: the root on the left, one row per value, all values of the cut in one column.

The cut's column shows how many records have each value, as a number and as the filled part of its box. Nodes
above the cut are to its left, nodes below it are faded to its right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

from masquerade.report.charts.svg import chart, clip, element, label, number, shorten, text_width
from masquerade.report.verdict import count, counted

# --- decision tree ------------------------------------------------------------------------------------------
# A decision tree: the root on the left, what it asks in boxes, values on the branches, labels at the end.

_DECISION_SIZE, _DECISION_ROW, _DECISION_BOX, _DECISION_GAP, _DECISION_WIDEST = 12.5, 30.0, 22.0, 34.0, 170.0
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
    starts = [sum(widths[:depth]) + _DECISION_GAP * depth for depth in range(len(widths))]
    drawn: list[str] = []
    for node in nodes:
        x, y, width = starts[node.depth], _middle(node), widths[node.depth]
        if node.parent is not None:
            end = starts[node.parent.depth] + widths[node.parent.depth]
            bend, above = end + _DECISION_GAP / 2, _middle(node.parent)
            path = f"M{end:.1f} {above:.1f}H{bend:.1f}V{y:.1f}H{x:.1f}"
            drawn.append(element("path", class_="branch", d=path))
        value = f"{node.value} → " if node.value else ""
        text = f"{value}{node.text}"
        kind = "leaf" if node.is_leaf else "question"
        drawn.append(
            element("rect", class_=kind, x=x, y=y - _DECISION_BOX / 2, width=width, height=_DECISION_BOX, rx=4)
        )
        drawn.append(label(x + 8, y + 4.5, shorten(text, width - 12, _DECISION_SIZE), "node", tooltip=text))
    height = (1 + max(node.row for node in nodes)) * _DECISION_ROW
    total = starts[-1] + widths[-1]
    return chart("decision-tree tree", total + 2, height, *drawn, title=title, description=_said(nodes), fixed=True)


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
            node.children = [place(child, str(value), depth + 1, node) for value, child in written["children"].items()]
            node.row = (node.children[0].row + node.children[-1].row) / 2
        return node

    place(tree, "", 0, None)
    return nodes


def _column_widths(nodes: list[_Drawn]) -> list[float]:
    widths: dict[int, float] = {}
    for node in nodes:
        wanted = text_width(f"{node.value} → {node.text}" if node.value else node.text, _DECISION_SIZE) + 18
        widths[node.depth] = max(widths.get(node.depth, 0.0), min(_DECISION_WIDEST, wanted))
    return [widths[depth] for depth in sorted(widths)]


def _middle(node: _Drawn) -> float:
    return (node.row + 0.5) * _DECISION_ROW


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


# --- net ----------------------------------------------------------------------------------------------------
# A Bayes net: an attribute stands right of its parents, and an arrow leads from each of them to it.

_NET_SIZE, _NET_ROW, _NET_BOX, _NET_GAP, _NET_WIDEST = 12.5, 44.0, 26.0, 70.0, 170.0


def net_chart(parents: Mapping[str, Sequence[str]], *, title: str) -> Markup:
    """Draw the attributes in columns: each one right of its last parent."""
    level: dict[str, int] = {}
    for name, own in parents.items():  # parents come first
        level[name] = 1 + max((level[each] for each in own), default=-1)
    columns = [[name for name in parents if level[name] == at] for at in range(1 + max(level.values(), default=0))]
    tallest = max(len(column) for column in columns)
    width = min(_NET_WIDEST, 24 + max(text_width(name, _NET_SIZE) for name in parents))
    at: dict[str, tuple[float, float]] = {}
    for place, column in enumerate(columns):
        top = (tallest - len(column) + 1) * _NET_ROW / 2
        top += 6 if place % 2 else 0  # so that arrows pass beside boxes
        for row, name in enumerate(column):
            at[name] = (place * (width + _NET_GAP), top + row * _NET_ROW)
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
        drawn.append(element("rect", class_="question", x=x, y=y - _NET_BOX / 2, width=width, height=_NET_BOX, rx=13))
        text = shorten(name, width - 20, _NET_SIZE)
        drawn.append(label(x + width / 2, y + 4.5, text, "node", anchor="middle", tooltip=name))
    said = "; ".join(f"{name} depends on {' and '.join(own)}" for name, own in parents.items() if own)
    total = len(columns) * width + (len(columns) - 1) * _NET_GAP
    size = total + 2, tallest * _NET_ROW + 8
    return chart("net tree", *size, *drawn, title=title, description=said or "no dependencies", fixed=True)


# --- tree ---------------------------------------------------------------------------------------------------

_SIZE = 12.5  # of letters
_ROW, _BOX, _HEAD = 28.0, 22.0, 30.0
_PAD, _GAP, _WIDEST = 9.0, 26.0, 190.0  # fits an interval of dates
_BOLD = 1.08  # relative width of the cut's bold letters
_ABOVE = 560.0  # widest tree above the cut; if names need more, dots replace them


@dataclass(frozen=True)
class TreeNode:
    """A node. A tree is a list of nodes in preorder; `parent` is a position in it, -1 for the root.

    `records` belongs to nodes of the cut. A `note` is a remark in place of omitted nodes. A `limit` has a bar
    before it.
    """

    label: str
    parent: int
    place: Literal["above", "cut", "below"]
    records: int | None = None
    note: bool = False
    limit: bool = False  # values below it may be generalised no further than to it


@dataclass(frozen=True)
class _Box:
    x: float
    y: float  # of its middle
    width: float
    outlet: float  # where the edge to its children turns


def tree_chart(nodes: Sequence[TreeNode], *, title: str, total: int) -> Markup:
    """Draw the tree; `total` is the number of records that fills a box of the cut entirely."""
    rows, height = _rows(nodes)
    boxes, line, width = _boxes(nodes, rows)
    drawn: list[str] = []
    for node, box in zip(nodes, boxes, strict=True):
        if node.parent >= 0:
            drawn.append(_link(node, boxes[node.parent], box))
    drawn += [_drawn(node, box, total) for node, box in zip(nodes, boxes, strict=True)]
    bottom = _HEAD + height * _ROW
    drawn.append(element("line", class_="cut-line", x1=line, x2=line, y1=_HEAD - 6, y2=bottom))
    drawn.append(label(line - 8, 14, "released", "column-name released", anchor="end"))
    if any(node.limit for node in nodes):
        drawn.append(label(line - 80, 14, "| boundary", "column-name limit", anchor="end"))
    if any(node.place == "below" for node in nodes):
        drawn.append(label(line + 8, 14, "below the cut", "column-name"))
    return chart("tree", width, bottom + 4, *drawn, title=title, description=_said_of_tree(nodes), fixed=True)


def _depths(nodes: Sequence[TreeNode]) -> list[int]:
    """Return each node's distance in edges from the cut, above or below; 0 on the cut itself."""
    depths: list[int] = []
    for node in nodes:
        if node.place == "cut":
            depths.append(0)
        else:
            depths.append(depths[node.parent] + 1 if node.parent >= 0 else 0)
    return depths


def _rows(nodes: Sequence[TreeNode]) -> tuple[list[float], int]:
    """Assign rows: the next free one to each end node, the middle of the children to the others."""
    first = [-1.0] * len(nodes)
    last = [-1.0] * len(nodes)
    ends = set(range(len(nodes))) - {node.parent for node in nodes}
    taken = 0
    for position in range(len(nodes)):
        if position in ends:
            first[position] = last[position] = taken
            taken += 1
    for position in range(len(nodes) - 1, 0, -1):
        parent, middle = nodes[position].parent, (first[position] + last[position]) / 2
        last[parent] = middle if last[parent] < 0 else last[parent]
        first[parent] = middle
    return [(a + b) / 2 for a, b in zip(first, last, strict=True)], taken


def _boxes(nodes: Sequence[TreeNode], rows: Sequence[float]) -> tuple[list[_Box], float, float]:
    """Return every node's box, the position of the cut's line, and the total width."""
    depths = _depths(nodes)
    levels = 1 + max((d for node, d in zip(nodes, depths, strict=True) if node.place == "above"), default=-1)
    dots = False
    columns = _columns(nodes, depths, dots)
    if sum(width + _GAP for (place, _), width in columns.items() if place == "above") > _ABOVE:
        dots = True
        columns = _columns(nodes, depths, dots)
    starts: dict[tuple[str, int], float] = {}
    x, gap = (4.0, min(14.0, 360.0 / levels)) if dots else (1.0, _GAP)  # room for half a dot, or for a line
    for level in range(levels):
        starts["above", level] = x
        x += columns["above", level] + gap
    if dots:
        x += _GAP - gap
    starts["cut", 0] = x
    x += columns.get(("cut", 0), 0.0)
    line = x + 7
    x += _GAP
    level = 1
    while ("below", level) in columns:
        starts["below", level] = x
        x += columns["below", level] + _GAP
        level += 1
    boxes = []
    for node, depth, row in zip(nodes, depths, rows, strict=True):
        key = (node.place, depth)
        own = columns[key] if node.place == "cut" and not node.note else _wanted(node, dots)
        boxes.append(_Box(starts[key], _HEAD + (row + 0.5) * _ROW, own, starts[key] + columns.get(key, 0.0)))
    return boxes, line, max(x - _GAP + 10, *(box.x + box.width for box in boxes))


def _columns(nodes: Sequence[TreeNode], depths: Sequence[int], dots: bool) -> dict[tuple[str, int], float]:
    """Return the width of each column, that of its widest node."""
    columns: dict[tuple[str, int], float] = {}
    for node, depth in zip(nodes, depths, strict=True):
        key = (node.place, depth)
        if node.place != "cut" or not node.note:  # a remark at the foot of the cut may be of any length
            columns[key] = max(columns.get(key, 0.0), _wanted(node, dots))
    return columns


def _wanted(node: TreeNode, dots: bool) -> float:
    if node.place == "above" and dots:
        return 0.0
    width = min(_room(node), text_width(clip(node.label), _letters(node))) + 2 * _PAD
    if node.place == "cut" and node.records is not None:
        width += text_width(count(node.records), _SIZE) + 2 * _PAD
    return max(width, 40.0)


def _letters(node: TreeNode) -> float:
    return _SIZE * _BOLD if node.place == "cut" and not node.note else _SIZE


def _room(node: TreeNode) -> float:
    return 2 * _WIDEST if node.note else _WIDEST


def _link(node: TreeNode, parent: _Box, box: _Box) -> Markup:
    start, turn, end = parent.x + parent.width, parent.outlet, box.x
    # Edges turn right after the parent's column, so that none crosses a box of a column in between.
    bend = min(_GAP, end - turn)
    middle = turn + bend / 2
    way = (
        f"M{number(start)} {number(parent.y)}H{number(turn)}C{number(middle)} {number(parent.y)} "
        f"{number(middle)} {number(box.y)} {number(turn + bend)} {number(box.y)}H{number(end)}"
    )
    return element("path", class_=f"link {node.place}", d=way)


def _drawn(node: TreeNode, box: _Box, total: int) -> Markup:
    said = node.label if node.records is None else f"{node.label}: {counted(node.records, 'record')}"
    said += " (boundary)" if node.limit else ""
    told = element("title", clip(said))
    if box.width == 0:
        return element("circle", told, class_="node above", cx=box.x, cy=box.y, r=3)
    top = box.y - _BOX / 2
    name = shorten(node.label, _room(node) + 1, _letters(node))
    base = box.y + 4.4
    if node.note:
        return label(box.x + 2, base, name, f"node-name note {node.place}")
    parts: list[str] = [told, element("rect", class_="box", x=box.x, y=top, width=box.width, height=_BOX, rx=5)]
    if node.records is not None:
        share = min(1.0, node.records / total) if total else 0.0
        if node.records:
            filled = max(2.0, box.width * share)
            parts.append(
                element("rect", class_="fill", x=box.x, y=top, width=filled, height=_BOX, rx=min(5, filled / 2))
            )
        parts.append(label(box.x + box.width - _PAD, base, count(node.records), "records", anchor="end"))
    if node.limit:
        parts.append(element("line", class_="limit", x1=box.x - 3, x2=box.x - 3, y1=top - 2, y2=top + _BOX + 2))
    parts.append(label(box.x + _PAD, base, name, "node-name"))
    empty = " empty" if node.records == 0 else ""
    return element("g", *parts, class_=f"node {node.place}{empty}")


def _said_of_tree(nodes: Sequence[TreeNode]) -> str:
    shown = [node for node in nodes if node.place == "cut" and not node.note]
    told = [
        clip(node.label, 60) if node.records is None else f"{clip(node.label, 60)}: {counted(node.records, 'record')}"
        for node in shown[:25]
    ]
    told += [f"and {count(len(shown) - 25)} more"] if len(shown) > 25 else []
    told += [node.label for node in nodes if node.place == "cut" and node.note]
    return "Released values: " + "; ".join(told) + "."
