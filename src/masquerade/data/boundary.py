"""How far each value of an attribute may be generalised at most (Constrained k-Anonymity, Definitions 3 to 5), and
how far at least.

A value's **maximal allowed generalisation** (MAGVal) is a node on its path to the root: given by name, in a job
(`max_generalization`) or in the taxonomy's file; of two on one path the lower counts for the values below it. Of
numbers without a taxonomy it is an interval that is derived from the data and one number, `max_width`. Like every value
it is a range of ranks, so "beyond its boundary" is two comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.data.continuum import MISSING_CELL, Continuum, Number
from masquerade.data.taxonomy import Branch, Node, Taxonomy
from masquerade.engine import Counts, Flags, Ints, renumber
from masquerade.errors import Problem, nearest, shown

_LISTED = 3  # values without a boundary that a problem names


@dataclass(frozen=True, eq=False)
class Boundary:
    """The ranks `[lo, hi)` of the maximal allowed generalisation of each rank of a domain."""

    domain: Taxonomy | Continuum
    lo: Counts
    hi: Counts

    @cached_property
    def codes(self) -> Ints:
        """The number of each rank's MAGVal, from 0 and from left to right by its range."""
        width = self.domain.size + 1
        return renumber(self.lo * width + self.hi, width * width)[0]

    @property
    def size(self) -> int:
        """The number of different MAGVals."""
        return int(self.codes.max(initial=-1)) + 1

    @property
    def values(self) -> tuple[str, ...]:
        """The MAGSet: each MAGVal as a release writes it, from left to right."""
        ranges = dict.fromkeys(zip(self.lo.tolist(), self.hi.tolist(), strict=True))
        return tuple(self.domain.label(lo, hi) for lo, hi in sorted(ranges))

    @cached_property
    def cut(self) -> Counts:
        """The starts of the most general values that are allowed for **all** values below them.

        That is as far as whole columns may be generalised. The MAGSet differs where one MAGVal is above another.
        """
        if isinstance(self.domain, Continuum):
            return np.flatnonzero(np.diff(self.lo, prepend=-1))
        starts, nodes, waiting = [], self.domain.nodes, [0]
        while waiting:
            node = nodes[waiting.pop()]
            if node.children and self._beyond(node.lo, node.hi).any():
                waiting += reversed(node.children)
            else:
                starts.append(node.lo)
        return np.array(starts, np.int64)

    def exceeded(self, ranks: Ints, lo: Counts, hi: Counts) -> Flags:
        """Return which cells `[lo, hi)` are beyond the boundary of the value that they stand for."""
        beyond: Flags = (lo < self.lo.take(ranks)) | (hi > self.hi.take(ranks))
        return beyond

    def certainly_exceeded(self, lo: int, hi: int) -> bool:
        """Return whether a cell is beyond the boundary of every value that it may stand for."""
        return hi > lo and bool(self._beyond(lo, hi).all())

    def possibly_exceeded(self, lo: int, hi: int) -> bool:
        """Return whether a cell is beyond the boundary of some value that it may stand for."""
        return bool(self._beyond(lo, hi).any())

    def _beyond(self, lo: int, hi: int) -> NDArray[np.bool_]:
        beyond: NDArray[np.bool_] = (self.lo[lo:hi] > lo) | (self.hi[lo:hi] < hi)
        return beyond


def named_boundary(taxonomy: Taxonomy, names: Iterable[str]) -> Boundary:
    """Return the boundary that these nodes make; `boundary_problems` must have found nothing."""
    lo, hi = _ranges(taxonomy, [node for name in names if (node := taxonomy.called(name)) is not None])
    if (missing := taxonomy.rank.get(MISSING_CELL)) is not None and lo[missing] < 0:
        lo[missing], hi[missing] = missing, missing + 1  # a kept missing cell stays what it is
    return Boundary(taxonomy, lo, hi)


def unknown_nodes(taxonomy: Taxonomy, names: Iterable[str]) -> Iterator[Problem]:
    """Say which names are of no node."""
    for name in names:
        if taxonomy.called(name) is None:
            meant = nearest(name, taxonomy.all_names)
            text = f"{shown(name)} is no node of taxonomy {taxonomy.source}"
            yield Problem(f"{text}; the nearest is {shown(meant)}" if meant else text)


def boundary_problems(taxonomy: Taxonomy, names: Sequence[str]) -> list[Problem]:
    """Return what is wrong with these names: those of no node, and values that have none above them."""
    problems = list(unknown_nodes(taxonomy, names))
    if problems:
        return problems
    lo, _ = _ranges(taxonomy, [node for name in names if (node := taxonomy.called(name)) is not None])
    bare = [taxonomy.leaves[rank] for rank in np.flatnonzero(lo < 0) if taxonomy.leaves[rank] != MISSING_CELL]
    if not bare:
        return []
    more = f" and {len(bare) - _LISTED} more" if len(bare) > _LISTED else ""
    listed = ", ".join(map(shown, bare[:_LISTED])) + more
    text = f"none for {listed} of taxonomy {taxonomy.source}"
    return [Problem(f"{text}; name a node above each value, or the value itself")]


def _ranges(taxonomy: Taxonomy, nodes: Iterable[Node]) -> tuple[Counts, Counts]:
    lo, hi = np.full(taxonomy.size, -1, np.int64), np.full(taxonomy.size, -1, np.int64)
    for node in sorted(nodes, key=lambda each: each.depth):  # the lower one counts for what is below it
        lo[node.lo : node.hi], hi[node.lo : node.hi] = node.lo, node.hi
    return lo, hi


def boundary_by_width(domain: Continuum, max_width: Number) -> Boundary:
    """Return runs of neighbouring values, none of which spans more than `max_width`.

    A run that spans more is cut at its widest gap, of equal ones at the one nearest to its middle, and so on with
    both parts: the boundaries lie where the data leave room. A kept missing cell stays what it is.
    """
    values = domain.values.astype(np.float64)
    gaps = np.diff(values)
    starts = [0] if values.size else []
    waiting = [(0, values.size)]
    while waiting:
        first, end = waiting.pop()
        if end - first < 2 or values[end - 1] - values[first] <= max_width:
            continue
        inside = gaps[first : end - 1]
        widest = np.flatnonzero(inside == inside.max())
        middle = (values[first] + values[end - 1]) / 2
        centres = (values[first + widest] + values[first + widest + 1]) / 2
        at = first + 1 + int(widest[np.argmin(np.abs(centres - middle))])
        starts.append(at)
        waiting += [(first, at), (at, end)]
    ends = np.append(np.sort(np.array(starts, np.int64)), values.size) + domain.first
    lengths = np.diff(ends)
    missing = np.arange(domain.first)
    return Boundary(
        domain,
        np.concatenate([missing, np.repeat(ends[:-1], lengths)]),
        np.concatenate([missing + 1, np.repeat(ends[1:], lengths)]),
    )


# --- the finest values --------------------------------------------------------------------------------------
# What a release never tells apart (`min_generalization`): the named nodes become the leaves of the taxonomy, before any
# method sees the column (`encode.py`). So every method, check and metric keeps to it without knowing.


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
