"""Columns that are generalised one step at a time up their taxonomies, as Datafly and its kin do.

Each record has a node of the taxonomy for each attribute, at first its leaf. `climb` finds the attribute with the most
different values among some records, and moves the most specific of those values one step up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Column, Generalised
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, Rows, which_occur
from masquerade.engine.numbering import group_rows
from masquerade.errors import ParameterError


class BottomUpColumns:
    """The columns of one party, each record at its present generalisation."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._attributes = tuple(_Attribute(column) for column in columns)

    def climb(self, rows: Rows) -> str | None:
        """Generalise these records one step. Return the attribute's name, or None when all are at the top.

        The attribute is the one with the most different values, the first one on a tie; its most specific values are
        those deepest in the taxonomy.
        """
        able = [each for each in self._attributes if each.can_climb(rows)]
        if not able:
            return None
        widest = max(able, key=lambda each: each.n_values(rows))  # max takes the first on a tie
        widest.climb(rows)
        return widest.name

    def join(self, rows: Rows) -> None:
        """Generalise these records to the lowest values that cover all of them."""
        for each in self._attributes:
            each.join(rows)

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, numbered from 0, and the number of groups."""
        codes = ((each.codes[rows], each.size) for each in self._attributes)
        return group_rows(codes, rows.size)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return tuple(each.released(rows) for each in self._attributes)


class _Attribute:
    """One column: each record's node, by its position in the taxonomy."""

    def __init__(self, column: Column) -> None:
        if not isinstance(column.domain, Taxonomy):
            raise ParameterError(
                f"attribute {column.name}: it is generalised step by step, so it needs a taxonomy; "
                "for a number give a tree of fixed intervals"
            )
        self.name, self._domain = column.name, column.domain
        nodes = column.domain.nodes
        self.size = len(nodes)
        self._parent = np.array([max(node.parent, 0) for node in nodes], np.int32)
        self._depth = np.array([node.depth for node in nodes], np.int32)
        self._movable = self._depth > 0
        if (boundary := column.boundary) is not None:  # whoever is at its boundary stays there
            ends = {*zip(boundary.lo.tolist(), boundary.hi.tolist(), strict=True)}
            self._movable &= np.array([(node.lo, node.hi) not in ends for node in nodes])
        leaves = np.flatnonzero([not node.children for node in nodes]).astype(np.int32)
        self.codes: NDArray[np.int32] = leaves.take(column.ranks)

    def n_values(self, rows: Rows) -> int:
        return int(np.count_nonzero(self._present(rows)))

    def can_climb(self, rows: Rows) -> bool:
        return bool(self._movable[self._present(rows)].any())

    def climb(self, rows: Rows) -> None:
        present = self._present(rows) & self._movable
        deepest = self._depth[present].max(initial=0)
        climbs = present & (self._depth == deepest)
        to = np.where(climbs, self._parent, np.arange(self.size, dtype=np.int32))
        self.codes[rows] = to.take(self.codes[rows])

    def join(self, rows: Rows) -> None:
        nodes = self._domain.nodes
        present = [nodes[at] for at in np.flatnonzero(self._present(rows))]
        first, last = min(node.lo for node in present), max(node.hi for node in present)
        at = int(self.codes[rows[0]])
        while nodes[at].lo > first or nodes[at].hi < last:
            at = nodes[at].parent
        self.codes[rows] = at

    def released(self, rows: Rows) -> Generalised:
        nodes = self._domain.nodes
        whole = Generalised(
            self.name,
            self.codes,
            tuple(node.name for node in nodes),
            np.array([node.lo for node in nodes]),
            np.array([node.hi for node in nodes]),
            self._domain,
        )
        return whole.of_rows(rows)

    def _present(self, rows: Rows) -> NDArray[np.bool_]:
        return which_occur(self.codes[rows], self.size)
