"""Mondrian in plain Python: one group after the other, record by record, no arrays. Two of them, to compare with.

One works on rows of text and looks for the child that covers a value, as people publish it. The other, a good deal
faster, works on leaf ranks and has looked up beforehand which nodes each leaf is below. Both are the algorithm of
`Mondrian(choose="widest")` for k-anonymity over taxonomies, so the groups are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade.data import Node, Taxonomy

Record = tuple[Any, ...]  # of text, or of leaf ranks
Group = list[Record]
Parts = dict[int, Group]  # by the child of the node that is cut


class _OnText:
    """Values are texts, and a node has the set of those that it covers."""

    def __init__(self, trees: Sequence[Taxonomy]) -> None:
        self._trees = trees
        self._covers = [[set(tree.leaves[node.lo : node.hi]) for node in tree.nodes] for tree in trees]

    def ranks(self, group: Group, at: int) -> list[int]:
        rank = self._trees[at].rank
        return [rank[record[at]] for record in group]

    def deal(self, group: Group, at: int, node: Node) -> Parts:
        parts: Parts = {child: [] for child in node.children}
        for record in group:
            for child, part in parts.items():
                if record[at] in self._covers[at][child]:
                    part.append(record)
                    break
        return parts


class _OnRanks:
    """Values are leaf ranks, and a leaf has the nodes from the root down to it."""

    def __init__(self, trees: Sequence[Taxonomy]) -> None:
        self._paths = [
            [[at for at, node in enumerate(tree.nodes) if node.lo <= rank < node.hi] for rank in range(tree.size)]
            for tree in trees
        ]

    def ranks(self, group: Group, at: int) -> list[int]:
        return [record[at] for record in group]

    def deal(self, group: Group, at: int, node: Node) -> Parts:
        parts: Parts = {child: [] for child in node.children}
        paths, depth = self._paths[at], node.depth + 1
        for record in group:
            parts[paths[record[at]][depth]].append(record)
        return parts


def plain_mondrian(
    records: Group, trees: Sequence[Taxonomy], k: int, *, on_ranks: bool
) -> list[tuple[Group, list[Node]]]:
    """The groups with their cells."""
    way = _OnRanks(trees) if on_ranks else _OnText(trees)
    done, waiting = [], [records]
    while waiting:
        group = waiting.pop()
        cells = [_covering(tree, way.ranks(group, at)) for at, tree in enumerate(trees)]
        parts = _cut(group, cells, trees, way, k) if len(group) >= 2 * k else None
        if parts is None:
            done.append((group, cells))
        else:
            waiting += parts
    return done


def _covering(tree: Taxonomy, ranks: list[int]) -> Node:
    """The lowest node above all values."""
    first, last = min(ranks), max(ranks)
    node = tree.nodes[0]
    while True:
        below = [tree.nodes[child] for child in node.children]
        inside = [child for child in below if child.lo <= first and last < child.hi]
        if not inside:
            return node
        node = inside[0]


def _cut(
    group: Group, cells: list[Node], trees: Sequence[Taxonomy], way: _OnText | _OnRanks, k: int
) -> list[Group] | None:
    """The parts of the allowed cut along the attribute on which the group is widest."""
    widths = [(cell.hi - cell.lo) / tree.size if cell.children else 0 for cell, tree in zip(cells, trees, strict=True)]
    for at in sorted(range(len(cells)), key=lambda at: -widths[at]):
        if not widths[at]:
            return None
        parts = way.deal(group, at, cells[at])
        good = [part for part in parts.values() if len(part) >= k]
        rest = [record for part in parts.values() if len(part) < k for record in part]
        if rest and len(rest) < k and good:
            smallest = min(good, key=len)
            good = [part for part in good if part is not smallest]
            rest += smallest
        if good and (not rest or len(rest) >= k):
            return [*good, rest] if rest else good
    return None
