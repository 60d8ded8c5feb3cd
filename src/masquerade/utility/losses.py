"""The loss of each attribute, as means over its cells: all that the loss metrics need, and all that a party reveals
about its own originals when no one party has all of them.

They are whole ten-thousandths. Nothing finer leaves the party, and one table is measured by the same numbers, so that
n parties give the figures that it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from operator import mul

import numpy as np

from masquerade.data.column import Generalised
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts
from masquerade.utility.comparison import Comparison
from masquerade.utility.penalties import certainty_penalties, leaf_losses, nodes, relative_heights

UNIT = 10_000  # a loss of everything


@dataclass(frozen=True)
class AttributeLoss:
    """Means over an attribute's cells, in ten-thousandths; a suppressed cell costs all in the first three."""

    leaves: int  # (leaves under the value − 1) / (leaves − 1)
    certainty: int  # leaves under the value / leaves, 0 for a leaf
    height: int  # the value's height / the taxonomy's height
    climbed: int  # the value's height above its leaf, over the released cells
    path: int  # the depth of the leaf, over the released cells; 0 without a taxonomy

    def fits(self) -> bool:
        """Return whether they can be means: of parts of a whole, and of heights above leaves no deeper than those."""
        parts = (self.leaves, self.certainty, self.height)
        return all(0 <= part <= UNIT for part in parts) and 0 <= self.climbed <= self.path


def rounded(total: float, cells: int) -> int:
    """Return a mean over cells in ten-thousandths, the nearest whole number of them."""
    return round(UNIT * total / max(cells, 1))


def certainty_losses(losses: Mapping[str, AttributeLoss]) -> dict[str, float]:
    """Return each attribute's mean normalised certainty penalty (0: nothing lost, 1: everything)."""
    return {name: loss.certainty / UNIT for name, loss in losses.items()}


def losses_of(comparison: Comparison) -> dict[str, AttributeLoss]:
    """Return the losses of every attribute."""
    totals = [comparison.totals(each) for each in (leaf_losses, certainty_penalties, relative_heights)]
    losses = {}
    for at, (column, counts) in enumerate(zip(comparison.released, comparison.code_counts, strict=True)):
        parts = (rounded(total[column.name], comparison.rows) for total in totals)
        heights = _climbed(comparison, at, column, counts)
        losses[column.name] = AttributeLoss(
            *parts, *(rounded(height, comparison.released_rows) for height in heights)
        )
    return losses


def joined_losses(losses: Sequence[AttributeLoss], rows: Sequence[int]) -> AttributeLoss:
    """Return an attribute's loss over the released rows of several holders."""
    totals = (sum(map(mul, figures, rows)) for figures in zip(*map(astuple, losses), strict=True))
    return AttributeLoss(*(round(total / sum(rows)) for total in totals))


def with_suppressed(loss: AttributeLoss, released: int, suppressed: int) -> AttributeLoss:
    """Return a loss over released rows as one over the suppressed ones, too, which lose everything."""

    def over_all(mean: int) -> int:
        return rounded(mean * released / UNIT + suppressed, released + suppressed)

    return replace(
        loss, leaves=over_all(loss.leaves), certainty=over_all(loss.certainty), height=over_all(loss.height)
    )


def _climbed(comparison: Comparison, at: int, column: Generalised, counts: Counts) -> tuple[int, int]:
    """Return Σ Height and Σ PL over the released cells, where a chain of single children is one node."""
    taxonomy = column.domain
    if not isinstance(taxonomy, Taxonomy):
        return 0, 0
    path = int(comparison.rank_counts(at) @ np.array(taxonomy.leaf_depths, np.int64))
    depths = np.array([node.depth for node in nodes(column, taxonomy)], np.int64)
    return path - int(counts @ depths), path
