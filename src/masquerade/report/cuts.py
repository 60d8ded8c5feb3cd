"""The tree to draw for a released attribute: the nodes above its cut, the cut with its records, and below.

No raw value appears here that is not in the release. Leaves below the cut are never named. The leaves of
a flat taxonomy are values of the data, so below its cut not even their number is shown, and values that
no released record has are left out. A continuous attribute is drawn from the sequence of its splits.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import pairwise
from math import floor, log10
from typing import Any

import numpy as np

from masquerade.data import FLAT, Continuum, Generalised, Kind, Step, Taxonomy, read_interval, write_number
from masquerade.engine import value_counts
from masquerade.report.charts import share_bar
from masquerade.report.charts.tree import TreeNode
from masquerade.report.verdict import count, counted, percent

_ROOMY = 24  # rows up to which inner nodes below the cut are also shown


def is_flat(column: Generalised) -> bool:
    """Return whether the taxonomy's leaves were taken from the data."""
    return isinstance(column.domain, Taxonomy) and column.domain.source == FLAT


def cut_tree(column: Generalised, steps: Sequence[Step], rows: int = 60, limits: Container[str] = ()) -> list[TreeNode]:
    """Return the nodes in preorder; at most about `rows` rows are drawn, the others only counted.

    `limits` names the nodes beyond which no value may be generalised.
    """
    own = [step for step in steps if step.attribute == column.name]
    if isinstance(column.domain, Taxonomy):
        nodes = _of_taxonomy(column, column.domain, rows)
    else:
        nodes = _of_splits(column, own)
    capped = _capped(nodes if nodes is not None else _of_values(column), rows)
    return [replace(node, limit=not node.note and node.label in limits) for node in capped]


def _of_taxonomy(column: Generalised, taxonomy: Taxonomy, rows: int) -> list[TreeNode] | None:
    """Return the nodes, or None if some released value is not a node of the taxonomy."""
    flat = is_flat(column)
    position_of = {(node.lo, node.hi): position for position, node in enumerate(taxonomy.nodes)}
    released: dict[int, int] = {}
    for lo, hi, records in zip(column.lo.tolist(), column.hi.tolist(), column.counts().tolist(), strict=True):
        if (lo, hi) not in position_of:
            return None
        if records or not flat:
            released[position_of[lo, hi]] = records
    above = set[int]()
    for position in released:
        while (position := taxonomy.nodes[position].parent) >= 0 and position not in above:
            above.add(position)
    roomy = _drawn_taxonomy(taxonomy, released, above, below="nothing" if flat else "inner nodes")
    ends = len(roomy) - len({node.parent for node in roomy} - {-1})
    if flat or ends <= min(_ROOMY, rows):
        return roomy
    return _drawn_taxonomy(taxonomy, released, above, below="leaf count")


def _drawn_taxonomy(taxonomy: Taxonomy, released: dict[int, int], above: set[int], below: str) -> list[TreeNode]:
    drawn: list[TreeNode] = []
    index: dict[int, int] = {}  # taxonomy position → position among the drawn nodes
    for position, node in enumerate(taxonomy.nodes):
        parent = index.get(node.parent, -1)
        if position in above:
            index[position] = len(drawn)
            drawn.append(TreeNode(node.name, parent, "above"))
            if position in released:  # some records have this value, and others one below it
                drawn.append(TreeNode(f"{node.name} itself", index[position], "cut", released[position]))
        elif position in released:
            index[position] = len(drawn)
            drawn.append(TreeNode(node.name, parent, "cut", released[position]))
            if below == "leaf count" and node.children:
                note = f"+{counted(node.hi - node.lo, 'leaf', 'leaves')}"
                drawn.append(TreeNode(note, index[position], "below", note=True))
        elif below == "inner nodes" and node.children and parent >= 0 and drawn[parent].place != "above":
            index[position] = len(drawn)
            drawn.append(TreeNode(node.name, parent, "below"))
        if below == "inner nodes" and position in index and drawn[index[position]].place != "above":
            leaves = sum(not taxonomy.nodes[child].children for child in node.children)
            if leaves:
                note = f"+{counted(leaves, 'leaf', 'leaves')}"
                drawn.append(TreeNode(note, index[position], "below", note=True))
    return drawn


def _of_splits(column: Generalised, steps: Sequence[Step]) -> list[TreeNode] | None:
    """Return None if the algorithm reports no splits, or they do not yield exactly the released intervals."""
    records = dict(zip(column.labels, column.counts().tolist(), strict=True))
    children = {step.value: step.children for step in steps}
    inner = {child for step in steps for child in step.children}
    tops = [value for value in children if value not in inner]
    if len(tops) != 1:
        return None
    drawn: list[TreeNode] = []
    cut = set[str]()
    waiting = [(tops[0], -1)]
    while waiting:
        value, parent = waiting.pop()
        position = len(drawn)
        if value in children:
            drawn.append(TreeNode(value, parent, "above"))
            waiting += [(child, position) for child in reversed(children.pop(value))]
        else:
            cut.add(value)
            drawn.append(TreeNode(value, parent, "cut", records.get(value, 0)))
    return drawn if cut == set(column.labels) and not children else None


def _of_values(column: Generalised) -> list[TreeNode]:
    """Return the released values side by side, where no tree is known."""
    used = [(label, records) for label, records in zip(column.labels, column.counts().tolist(), strict=True) if records]
    if len(used) == 1:
        return [TreeNode(used[0][0], -1, "cut", used[0][1])]
    top = TreeNode(column.domain.label(0, column.domain.size), -1, "above")
    return [top, *(TreeNode(label, 0, "cut", records) for label, records in used)]


def _capped(nodes: list[TreeNode], rows: int) -> list[TreeNode]:
    """Keep the first rows, and add a note that counts the values not shown."""
    parents = {node.parent for node in nodes}
    ends = [position for position in range(len(nodes)) if position not in parents]
    if len(ends) <= rows:
        return nodes
    keep = set[int]()
    for position in ends[: rows - 1]:
        while position >= 0 and position not in keep:
            keep.add(position)
            position = nodes[position].parent
    kept = sorted(keep)
    index = {old: new for new, old in enumerate(kept)} | {-1: -1}
    shown = [
        TreeNode(node.label, index[node.parent], node.place, node.records, node.note)
        for node in (nodes[position] for position in kept)
    ]
    left_out = [node for position, node in enumerate(nodes) if node.place == "cut" and position not in keep]
    if not left_out:
        return shown
    records = sum(node.records or 0 for node in left_out)
    note = f"… and {counted(len(left_out), 'more value')}, {counted(records, 'record')}"
    return [*shown, TreeNode(note, 0, "cut", note=True)]


# --- widths -------------------------------------------------------------------------------------------------
# How wide a continuous attribute's intervals are, where there are too many to draw each.

_DATES = (1, 7, 31, 92, 183, 366, 731, 1827, 3653, 7306, 18263)
_DATE_WORDS = ("a day", "a week", "a month", "3 months", "6 months", "a year", "2 years", "5 years")
_DATE_NAMES = dict(zip(_DATES, (*_DATE_WORDS, "10 years", "20 years", "50 years"), strict=True))


def widths_section(column: Generalised, total: int, few: int) -> dict[str, Any] | None:
    """Return the histogram of interval widths; None for a taxonomy, a few intervals, or cells that are none."""
    if isinstance(column.domain, Taxonomy) or len(column.labels) <= few:
        return None
    kind = _kind(column)
    found = None if kind is None else _widths(column, kind)
    if kind is None or found is None:
        return None
    closed = [(wide, records) for wide, records in found if np.isfinite(wide)]
    edges = _edges(max((wide for wide, _ in closed), default=1.0), kind)
    bins = np.searchsorted(np.array(edges), [wide for wide, _ in closed], side="left") - 1
    weights = np.array([records for _, records in closed], np.int64)
    values = value_counts(bins, len(edges) - 1).tolist()
    records = [int(weights[bins == position].sum()) for position in range(len(edges) - 1)]
    rows = [
        _row(words, values[position], records[position], total) for position, words in enumerate(_words(edges, kind))
    ]
    while rows and rows[0]["values"] == "0":  # only the middle of the histogram may have gaps
        rows.pop(0)
    opened = [records for wide, records in found if not np.isfinite(wide)]
    if opened:
        rows.append(_row("open at one end", len(opened), sum(opened), total))
    return {"rows": rows, "kind": "dates" if kind == "date" else "numbers"}


def _row(words: str, values: int, records: int, total: int) -> dict[str, Any]:
    share = records / total if total else 0.0
    return {
        "words": words,
        "values": count(values),
        "records": counted(records, "record"),
        "share": percent(share),
        "bar": share_bar(share),
    }


def _kind(column: Generalised) -> Kind | None:
    """Return the kind of the intervals: who assembled parties' columns knows nothing but their cells."""
    if isinstance(column.domain, Continuum) and column.domain.size:
        return column.domain.kind
    kinds: tuple[Kind, ...] = ("continuous", "date")
    readable = (kind for kind in kinds if all(_interval_ends(label, kind) is not None for label in column.labels))
    return next(readable, None)


def _interval_ends(label: str, kind: Kind) -> tuple[float, float] | None:
    ends = read_interval(label, kind)
    if ends is not None:
        return float(ends[0]), float(ends[1])
    exact = read_interval(f"[{label}, inf)", kind)  # a cell that was not generalised
    return None if exact is None else (float(exact[0]), float(exact[0]))


def _widths(column: Generalised, kind: Kind) -> list[tuple[float, int]] | None:
    """Return each released value's width in days or units, infinite where an end is open, and its records."""
    found = []
    for label, records in zip(column.labels, column.counts().tolist(), strict=True):
        ends = _interval_ends(label, kind)
        if ends is None:
            return None
        if records:
            found.append((ends[1] - ends[0], records))
    return found


def _edges(widest: float, kind: Kind) -> list[float]:
    """Return the ends of bins, of which each holds its upper end: 1, 2, 5, 10, … or days, months, years."""
    if kind == "date":
        inner: list[float] = [float(each) for each in _DATES]
    else:
        top = floor(log10(widest)) + 1 if widest > 0 else 0
        inner = [digit * 10.0**power for power in range(top - 4, top + 1) for digit in (1, 2, 5)]
    used = [edge for position, edge in enumerate(inner) if not position or inner[position - 1] < widest]
    return [-1.0, *used, *([widest] if used[-1] < widest else [])]


def _words(edges: list[float], kind: Kind) -> list[str]:
    def end(edge: float) -> str:
        return _DATE_NAMES.get(int(edge), "more") if kind == "date" else write_number(float(f"{edge:g}"))

    words = [f"up to {end(edges[1])}"]
    for lower, upper in pairwise(edges[1:]):
        words.append(f"above {end(lower)}" if end(upper) == "more" else f"{end(lower)} to {end(upper)}")
    return words
