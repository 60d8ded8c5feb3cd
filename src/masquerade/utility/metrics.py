"""Metrics: how much of the original a release keeps, each from counts per group or per released value.

Unless a metric states otherwise, suppressed rows count, as fully lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import UNIT, AttributeLoss, losses_of

Metrics = dict[str, float | None]


def measure(comparison: Comparison, losses: Mapping[str, AttributeLoss] | None = None) -> Metrics:
    """Return every metric by its name in a summary; None where it does not apply to this release.

    `losses` are those counted by the attributes' holders, where no one has all originals.
    """
    if losses is None:
        losses = losses_of(comparison)
    return {
        "discernibility": discernibility(comparison),
        "weighted_discernibility": weighted_discernibility(comparison),
        "average_group_size": average_group_size(comparison),
        "loss": loss(losses),
        "majority": majority(comparison),
        "classification_metric": classification_metric(comparison),
        "precision": precision(losses),
        "ncp": ncp(losses),
        "information_kept": information_kept(losses),
        "information_loss": information_loss(losses, comparison.rows),
        "violations": violations(comparison),
    }


def discernibility(comparison: Comparison) -> int:
    """Σ_E |E|² + suppressed · n: the number of ordered pairs of indistinguishable records."""
    sizes = comparison.group_sizes
    return int(sizes @ sizes) + comparison.suppressed * comparison.rows


def weighted_discernibility(comparison: Comparison) -> float:
    """C_WDM = Σ_i weight_i · Σ_m |E^m_{X_i}|², where E^m_{X_i} are the groups of attribute X_i alone.

    As in `discernibility`, a suppressed row adds n, here to the sum of each attribute.
    """
    total = 0.0
    for column, counts in zip(comparison.released, comparison.code_counts, strict=True):
        pairs = int(counts @ counts) + comparison.suppressed * comparison.rows
        total += comparison.weights.get(column.name, 1.0) * pairs
    return int(total) if total.is_integer() else total


def weighted_overlap(comparison: Comparison) -> float | None:
    """Σ_i weight_i · the ordered pairs of rows whose values of attribute X_i overlap; None without originals.

    Where every attribute is recoded as a whole this is `weighted_discernibility`. Where one column may hold a value and
    its ancestor, that counts them as told apart, so a release that blurs some rows of an attribute looks better
    than one that blurs none; here a row that might be either is told apart from neither.
    """
    if not comparison.originals:
        return None
    total = 0.0
    for column, counts in zip(comparison.released, comparison.code_counts, strict=True):
        order = np.argsort(column.lo)
        starting_before = np.concatenate([[0], np.cumsum(counts[order])])
        after = starting_before[-1] - starting_before[np.searchsorted(column.lo[order], column.hi)]
        pairs = (
            comparison.released_rows**2 - 2 * int(counts @ after) + comparison.suppressed * comparison.rows
        )
        total += comparison.weights.get(column.name, 1.0) * pairs
    return int(total) if total.is_integer() else total


def average_group_size(comparison: Comparison) -> float | None:
    """Released rows / groups."""
    groups = comparison.group_sizes.size
    return comparison.released_rows / groups if groups else None


def majority(comparison: Comparison) -> int | None:
    """Count the rows that do not have their group's majority class, plus the suppressed rows."""
    most = comparison.majorities
    return None if most is None else comparison.released_rows - most + comparison.suppressed


def classification_metric(comparison: Comparison) -> float | None:
    """Iyengar's CM: `majority` / n."""
    wrong = majority(comparison)
    return wrong / comparison.rows if wrong is not None and comparison.rows else None


def loss(losses: Mapping[str, AttributeLoss]) -> float | None:
    """Iyengar's LM: the mean over all cells of (leaves under the value − 1) / (leaves − 1).

    Without a taxonomy the distinct values are the leaves, or with bounds a cell costs its width in them; suppressed
    it costs 1. So 0 means no loss, 1 total loss.
    """
    return _mean(each.leaves for each in losses.values())


def ncp(losses: Mapping[str, AttributeLoss]) -> float | None:
    """Normalised certainty penalty: the mean over all cells of leaves under the value / leaves, 0 for a leaf.

    Without a taxonomy the distinct values are the leaves, or with bounds a cell costs its width in them; suppressed
    it costs 1.
    """
    return _mean(each.certainty for each in losses.values())


def information_kept(losses: Mapping[str, AttributeLoss]) -> float | None:
    """The share of a column's information that its cells keep, a mean over the columns.

    It is the entropy of the released cells over that of the original: how well records can still be told apart by the
    column, whatever range its values span. None where a holder does not tell it.
    """
    lost = [each.information for each in losses.values() if each.information is not None]
    mean = _mean(lost) if len(lost) == len(losses) else None
    return None if mean is None else round(1 - mean, 4)


def precision(losses: Mapping[str, AttributeLoss]) -> float | None:
    """Definition 4 of Jiang and Clifton: 1 − Σ Height / Σ PL over the released cells.

    Intervals that grow at run time have no hierarchy and are left out.
    """
    paths = sum(each.path for each in losses.values())
    return round(1 - sum(each.climbed for each in losses.values()) / paths, 4) if paths else None


def information_loss(losses: Mapping[str, AttributeLoss], rows: int) -> float:
    """IL = Σ_cl |cl| · Σ_j height(value_j) / height(taxonomy_j), a sum over the cells and not a mean.

    Without a taxonomy a cell costs as much as in `ncp`; suppressed it costs 1.
    """
    return rows * sum(each.height for each in losses.values()) / UNIT


def violations(comparison: Comparison) -> int | None:
    """Definition 5 of constrained k-anonymity: the released cells that go beyond the boundary of their original value.

    None where no attribute has boundaries. Where nobody has all originals, what their holders say.
    """
    if all(original.boundary is None for original in comparison.originals):
        return comparison.told_violations
    return sum(comparison.violations.values())


def _mean(losses: Iterable[int]) -> float | None:
    of_attributes = list(losses)
    return round(sum(of_attributes) / len(of_attributes)) / UNIT if of_attributes else None
