"""The loss of each attribute, as totals over its cells: all that the loss metrics need, and all that a party reveals
about its own originals when no one party has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from masquerade.data.column import Column, Generalised
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, value_counts
from masquerade.utility.comparison import Comparison
from masquerade.utility.penalties import certainty_penalties, leaf_losses, nodes, relative_heights


@dataclass(frozen=True)
class AttributeLoss:
    """Sums over an attribute's cells; a suppressed cell costs 1 in the first three."""

    leaves: float  # of (leaves under the value − 1) / (leaves − 1)
    certainty: float  # of leaves under the value / leaves, 0 for a leaf
    height: float  # of the value's height / the taxonomy's height
    climbed: int  # of each value's height above its leaf
    path: int  # of the depth of each leaf; 0 without a taxonomy


def mean_losses(losses: Mapping[str, AttributeLoss], rows: int) -> dict[str, float]:
    """Return each attribute's mean normalised certainty penalty (0: nothing lost, 1: everything)."""
    return {name: loss.certainty / max(rows, 1) for name, loss in losses.items()}


def losses_of(comparison: Comparison) -> dict[str, AttributeLoss]:
    """Return the loss totals of every attribute."""
    leaves = comparison.totals(leaf_losses)
    certainty = comparison.totals(certainty_penalties)
    height = comparison.totals(relative_heights)
    losses = {}
    for original, column, counts in zip(
        comparison.originals, comparison.released, comparison.code_counts, strict=True
    ):
        name = column.name
        climbed, path = _climbed(comparison, original, column, counts)
        losses[name] = AttributeLoss(leaves[name], certainty[name], height[name], climbed, path)
    return losses


def _climbed(
    comparison: Comparison, original: Column, column: Generalised, counts: Counts
) -> tuple[int, int]:
    """Return Σ Height and Σ PL over the released cells, where a chain of single children is one node."""
    taxonomy = column.domain
    if not isinstance(taxonomy, Taxonomy):
        return 0, 0
    ranks = original.ranks if comparison.kept is None else original.ranks[comparison.kept]
    path = int(value_counts(ranks, taxonomy.size) @ np.array(taxonomy.leaf_depths, np.int64))
    depths = np.array([node.depth for node in nodes(column, taxonomy)], np.int64)
    return path - int(counts @ depths), path
