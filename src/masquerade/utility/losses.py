"""The loss of each attribute, as means over its cells: all that the loss metrics need, and all that a party reveals
about its own originals when no one party has all of them.

They are whole ten-thousandths. Nothing finer leaves the party, and one table is measured by the same numbers, so that
n parties give the figures that it gives.

The loss of information is measured by the entropy of the original column, which the release does not tell. So it is
coarser, in whole thousandths, and a party tells it of 100 records or more alone (`shown_to_others`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from operator import mul

import numpy as np
from numpy.typing import NDArray

from masquerade.data import ANYTHING, Continuum, Domain, Generalised, Node, Taxonomy, read_interval
from masquerade.engine import Counts
from masquerade.utility.comparison import Comparison

# --- penalties ----------------------------------------------------------------------------------------------
# The loss of each released value: an array per column, with one penalty between 0 and 1 per code.
#
# A metric is then a sum over codes of penalty times rows with the code, without visiting records.
#
# Penalties are published, so they are made of what may be known: the leaves of a taxonomy, the bounds that
# a job gives, and without bounds **how many** of the data's distinct values an interval covers. Divided by
# the range of the raw values, the figures and the cells together would be equations for the smallest and
# the largest of them.


Penalties = NDArray[np.float64]


def leaf_losses(column: Generalised) -> Penalties:
    """Iyengar's loss: (leaves under the value − 1) / (leaves − 1); with bounds, width / their distance."""
    if _is_bounded(column.domain):
        return _widths_in_bounds(column)
    covered = (column.hi - column.lo).astype(np.float64)
    return (covered - 1) / max(column.domain.size - 1, 1)


def certainty_penalties(column: Generalised) -> Penalties:
    """Normalised certainty penalty: 0 for a leaf, else leaves under the value / leaves; or width in the bounds."""
    if _is_bounded(column.domain):
        return _widths_in_bounds(column)
    return _shares_of_ranks(column.domain, column.lo, column.hi)


def relative_heights(column: Generalised) -> Penalties:
    """The value's height in its taxonomy / the taxonomy's height; without one, the certainty penalty."""
    if isinstance(column.domain, Continuum):
        return certainty_penalties(column)
    heights = [node.height for node in nodes(column, column.domain)]
    return np.array(heights, np.float64) / max(column.domain.height, 1)


def guiding_penalties(domain: Domain, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Penalties:
    """The certainty penalty of the values that cover the ranks `[lo, hi)`, numbers by their width in the data's range.

    It guides a choice between cuts and is no figure to publish: it would tell the smallest and the largest number.
    """
    if isinstance(domain, Continuum):
        apart = lo < domain.first  # a missing cell, alone or with all numbers
        widths: Penalties = np.where(apart & (hi > domain.first), 1.0, 0.0)
        if domain.values.size < 2:
            return widths
        # An interval extends to the value after its last; the part outside the data does not count.
        ends = domain.values.astype(np.float64)
        upper = ends[np.clip(hi - domain.first, 0, ends.size - 1)]
        lower = ends[np.maximum(lo - domain.first, 0)]
        return np.where(apart, widths, (upper - lower) / (ends[-1] - ends[0]))
    return _shares_of_ranks(domain, lo, hi)


def nodes(column: Generalised, taxonomy: Taxonomy) -> list[Node]:
    """Return the taxonomy node of each code."""
    return [taxonomy.node(int(lo), int(hi)) for lo, hi in zip(column.lo, column.hi, strict=True)]


def _shares_of_ranks(domain: Domain, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Penalties:
    covered = (hi - lo).astype(np.float64)
    return np.where(covered == 1, 0.0, covered / max(domain.size, 1))


def _is_bounded(domain: Domain) -> bool:
    return isinstance(domain, Continuum) and math.isfinite(domain.lower) and math.isfinite(domain.upper)


def _widths_in_bounds(column: Generalised) -> Penalties:
    """Each interval's width / the distance of the bounds, which follows from the released cells; 0 for a raw value."""
    domain = column.domain
    assert isinstance(domain, Continuum)
    raw, anything = (domain.lower, domain.lower), (domain.lower, domain.upper)
    ends = [
        read_interval(label, domain.kind) or (anything if domain.missing and label == ANYTHING else raw)
        for label in column.labels
    ]
    clipped = np.clip(np.array(ends, np.float64).reshape(-1, 2), domain.lower, domain.upper)
    widths: Penalties = (clipped[:, 1] - clipped[:, 0]) / (domain.upper - domain.lower)
    return widths


# --- losses -------------------------------------------------------------------------------------------------

UNIT = 10_000  # a loss of everything
_COARSE = 10  # losses of information are multiples of it
FEWEST_RECORDS = 100  # of fewer, one more or less would show in a figure about how values are spread


@dataclass(frozen=True)
class AttributeLoss:
    """Means over an attribute's cells, in ten-thousandths; a suppressed cell costs all but for heights and depths."""

    leaves: int  # (leaves under the value − 1) / (leaves − 1)
    certainty: int  # leaves under the value / leaves, 0 for a leaf
    height: int  # the value's height / the taxonomy's height
    climbed: int  # the value's height above its leaf, over the released cells
    path: int  # the depth of the leaf, over the released cells; 0 without a taxonomy
    information: int | None = None  # of the original's entropy; None where its holder does not tell it

    def fits(self) -> bool:
        """Return whether they can be means: of parts of a whole, and of heights above leaves no deeper than those."""
        parts = (self.leaves, self.certainty, self.height, self.information or 0)
        return all(0 <= part <= UNIT for part in parts) and 0 <= self.climbed <= self.path


def rounded(total: float, cells: int) -> int:
    """Return a mean over cells in ten-thousandths, the nearest whole number of them."""
    return round(UNIT * total / max(cells, 1))


def certainty_losses(losses: Mapping[str, AttributeLoss]) -> dict[str, float]:
    """Return each attribute's mean normalised certainty penalty (0: nothing lost, 1: everything)."""
    return {name: loss.certainty / UNIT for name, loss in losses.items()}


def information_kept(losses: Mapping[str, AttributeLoss]) -> dict[str, float]:
    """Return the share of each attribute's information that its cells keep, of those for which it is known."""
    return {name: (UNIT - loss.information) / UNIT for name, loss in losses.items() if loss.information is not None}


def shown_to_others(losses: Mapping[str, AttributeLoss], records: int) -> dict[str, AttributeLoss]:
    """Return what a party tells of its losses: of few records nothing that depends on how their values are spread."""
    if records >= FEWEST_RECORDS:
        return dict(losses)
    return {name: replace(loss, information=None) for name, loss in losses.items()}


def losses_of(comparison: Comparison) -> dict[str, AttributeLoss]:
    """Return the losses of every attribute."""
    losses = {}
    for at, (column, counts) in enumerate(zip(comparison.released, comparison.code_counts, strict=True)):
        leaves, certainty, height = (
            rounded(float(counts @ penalties(column)) + comparison.suppressed, comparison.rows)
            for penalties in (leaf_losses, certainty_penalties, relative_heights)
        )
        climbed, path = (rounded(total, comparison.released_rows) for total in _climbed(comparison, at, column, counts))
        information = information_loss(
            comparison.all_rank_counts[at], column.lo, column.hi, counts, comparison.suppressed
        )
        losses[column.name] = AttributeLoss(leaves, certainty, height, climbed, path, information)
    return losses


def joined_losses(losses: Sequence[AttributeLoss], rows: Sequence[int]) -> AttributeLoss:
    """Return an attribute's loss over the released rows of several holders."""

    def mean(figures: Sequence[int | None]) -> int | None:
        told = [figure for figure in figures if figure is not None]
        return round(sum(map(mul, told, rows)) / sum(rows)) if len(told) == len(rows) else None

    return AttributeLoss(*map(mean, zip(*map(astuple, losses), strict=True)))  # type: ignore[arg-type]


def with_suppressed(loss: AttributeLoss, released: int, suppressed: int) -> AttributeLoss:
    """Return a loss over released rows as one over the suppressed ones, too, which lose everything."""

    def over_all(mean: int) -> int:
        return rounded(mean * released / UNIT + suppressed, released + suppressed)

    return replace(
        loss,
        leaves=over_all(loss.leaves),
        certainty=over_all(loss.certainty),
        height=over_all(loss.height),
        information=None if loss.information is None else over_all(loss.information),
    )


def information_loss(
    counts: Counts, lo: Counts, hi: Counts, cells: Counts, suppressed: int = 0, *, ranks: Counts | None = None
) -> int:
    """Return the share of a column's information that its cells lose, given how often each rank occurs in it.

    `lo`, `hi` and `cells` are of each released value: the ranks that it covers, and how many cells have it. `ranks` are
    those that occur, in ascending order; None for 0, 1, 2 and so on.

    The information of a cell is −log₂ of the share of the records that could be meant: those whose value is in the
    cell's range. Over all cells its mean is the entropy of the original where every cell is raw, 0 where every cell
    covers all, and the entropy of the released cells where records of one value have one cell (Gionis and Tassa's
    non-uniform entropy). Where cells overlap, their own entropy may exceed the original's, so it would not do.
    """
    records = int(counts.sum())
    until = np.concatenate([[0], np.cumsum(counts)])
    ends = (lo, hi) if ranks is None else (np.searchsorted(ranks, lo), np.searchsorted(ranks, hi))
    meant = until[ends[1]] - until[ends[0]]
    most = _bits(np.array([records]), np.array([records]))
    least = _bits(counts, counts)
    if most == least:  # all records have one value, and the cells tell it or not
        return 0 if not suppressed and bool((hi - lo == 1)[cells > 0].all()) else UNIT
    lost = _bits(meant, cells) + suppressed * np.log2(records) - least
    return _COARSE * round(UNIT / _COARSE * float(lost) / (most - least))


def _bits(meant: Counts, cells: Counts) -> float:
    """Return Σ cells · log₂ meant, over those that there are."""
    there = cells > 0
    return float(cells[there] @ np.log2(meant[there].astype(np.float64)))


def _climbed(comparison: Comparison, at: int, column: Generalised, counts: Counts) -> tuple[int, int]:
    """Return Σ Height and Σ PL over the released cells, where a chain of single children is one node."""
    taxonomy = column.domain
    if not isinstance(taxonomy, Taxonomy):
        return 0, 0
    path = int(comparison.rank_counts[at] @ np.array(taxonomy.leaf_depths, np.int64))
    depths = np.array([node.depth for node in nodes(column, taxonomy)], np.int64)
    return path - int(counts @ depths), path
