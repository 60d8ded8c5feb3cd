"""Values that are never told apart: the finest that a release may show (`min_generalization`, `min_width`).

A column is coarsened before any method sees it: the named nodes become the leaves of the taxonomy, and numbers become
the start of their cell in a grid of the given width. So every method, check and metric keeps to it without knowing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from masquerade.data.column import Column, Ranks
from masquerade.data.continuum import Number
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.engine.counts import Counts, distinct_values
from masquerade.errors import Problem, nearest, shown


def coarsening_problems(taxonomy: Taxonomy, names: Iterable[str]) -> Iterator[Problem]:
    """Say which names are of no node."""
    for name in names:
        if taxonomy.called(name) is None:
            meant = nearest(name, taxonomy.all_names)
            text = f"{shown(name)} is no node of taxonomy {taxonomy.source}"
            yield Problem(f"{text}; the nearest is {shown(meant)}" if meant else text)


def pruned(taxonomy: Taxonomy, names: Iterable[str]) -> tuple[Taxonomy, Counts]:
    """Return the taxonomy whose leaves are these nodes, and the new rank of each old leaf.

    Of two nodes on one path the higher counts.
    """
    stops = {node.lo * (taxonomy.size + 1) + node.hi for name in names if (node := taxonomy.called(name))}
    made: dict[int, Branch] = {}
    order: list[int] = []
    waiting = [0]
    while waiting:  # not by recursion: a tree may be deep
        at = waiting.pop()
        order.append(at)
        node = taxonomy.nodes[at]
        if node.lo * (taxonomy.size + 1) + node.hi not in stops:
            waiting += reversed(node.children)
    inside = set(order)
    for at in reversed(order):
        node = taxonomy.nodes[at]
        below = [made[child] for child in node.children if child in inside]
        made[at] = Branch(node.name, tuple(below))
    leaves = [node for at in order if not made[at].children for node in [taxonomy.nodes[at]]]
    widths = [node.hi - node.lo for node in leaves]
    edges = taxonomy.edges
    if edges is not None:
        edges = (*(edges[node.lo] for node in leaves), edges[-1])
    coarse = Taxonomy(made[0], taxonomy.source, edges, taxonomy.allowed)
    return coarse, np.repeat(np.arange(len(widths)), widths)


def coarsened(column: Column, names: Sequence[str], width: Number | None) -> Column:
    """Return the column without what must not be told apart."""
    domain = column.domain
    if isinstance(domain, Taxonomy):
        if not names:
            return column
        coarse, of_rank = pruned(domain, names)
        return Column(column.name, _taken(of_rank, column.ranks), coarse)
    if width is None:
        return column
    starts, of_value = distinct_values(np.floor_divide(domain.values, width) * width)
    of_rank = np.concatenate([np.arange(domain.first), of_value + domain.first])
    return Column(column.name, _taken(of_rank, column.ranks), replace(domain, values=starts))


def _taken(of_rank: Counts, ranks: Ranks) -> Ranks:
    return of_rank.astype(np.int32).take(ranks)
