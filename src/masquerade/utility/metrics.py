"""Metrics: how much of the original a release keeps, each from counts per group or per released value.

Suppressed rows count in every metric that does not say otherwise: to leave a row out is to lose all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Ints, group_rows
from masquerade.utility.comparison import Comparison
from masquerade.utility.penalties import certainty_penalties, leaf_losses, nodes, relative_heights

Metrics = dict[str, float | None]


def measure(comparison: Comparison) -> Metrics:
    """Every metric by its name in a summary; None where this release has no such figure."""
    return {
        "discernibility": discernibility(comparison),
        "weighted_discernibility": weighted_discernibility(comparison),
        "average_group_size": average_group_size(comparison),
        "loss": loss(comparison),
        "majority": majority(comparison),
        "classification_metric": classification_metric(comparison),
        "precision": precision(comparison),
        "ncp": ncp(comparison),
        "information_loss": information_loss(comparison),
    }


def discernibility(comparison: Comparison) -> int:
    """Σ_E |E|² + suppressed · n: how many ordered pairs of records cannot be told apart."""
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


def average_group_size(comparison: Comparison) -> float | None:
    """Released rows / groups."""
    groups = comparison.group_sizes.size
    return comparison.released_rows / groups if groups else None


def loss(comparison: Comparison) -> float | None:
    """Iyengar's LM: the mean over all cells of (leaves under the value − 1) / (leaves − 1).

    Without a taxonomy a cell costs width / range; suppressed it costs 1. So 0 is no loss, 1 is nothing left.
    """
    return _mean(comparison, comparison.totals(leaf_losses))


def ncp(comparison: Comparison) -> float | None:
    """Normalised certainty penalty: the mean over all cells of leaves under the value / leaves, 0 for a leaf.

    Without a taxonomy a cell costs width / range, 0 for a raw value; suppressed it costs 1.
    """
    return _mean(comparison, comparison.totals(certainty_penalties))


def majority(comparison: Comparison) -> int | None:
    """How many rows do not have the class that most rows of their group have, plus the suppressed ones."""
    classes = comparison.released_classes
    if classes is None or comparison.classes is None:
        return None
    pairs: list[tuple[Ints, int]] = [
        (comparison.groups, comparison.group_sizes.size),
        (classes, len(comparison.classes.labels)),
    ]
    labels, n_pairs = group_rows(pairs, comparison.released_rows)
    if n_pairs == 0:
        return comparison.suppressed
    group_of_pair = np.empty(n_pairs, np.int64)
    group_of_pair[labels] = comparison.groups
    # Pairs are numbered group by group, so those of a group stand together.
    starts = np.flatnonzero(np.diff(group_of_pair, prepend=-1))
    largest = np.maximum.reduceat(np.bincount(labels), starts)
    return comparison.released_rows - int(largest.sum()) + comparison.suppressed


def classification_metric(comparison: Comparison) -> float | None:
    """Iyengar's CM: `majority` / n."""
    wrong = majority(comparison)
    return wrong / comparison.rows if wrong is not None and comparison.rows else None


def precision(comparison: Comparison) -> float | None:
    """Definition 4 of Jiang and Clifton: 1 − Σ Height / Σ PL over the released cells.

    PL is the depth of the original's leaf and Height how far above it the released value stands, where a
    chain of single children is one node. Intervals that grow at run time have no hierarchy and are left out.
    """
    climbed = paths = 0
    for original, column, counts in zip(
        comparison.originals, comparison.released, comparison.code_counts, strict=True
    ):
        taxonomy = column.domain
        if not isinstance(taxonomy, Taxonomy):
            continue
        ranks = original.ranks if comparison.kept is None else original.ranks[comparison.kept]
        length = int(np.bincount(ranks, minlength=taxonomy.size) @ np.array(taxonomy.leaf_depths, np.int64))
        depths = np.array([node.depth for node in nodes(column, taxonomy)], np.int64)
        paths += length
        climbed += length - int(counts @ depths)
    return 1 - climbed / paths if paths else None


def information_loss(comparison: Comparison) -> float:
    """IL = Σ_cl |cl| · Σ_j height(value_j) / height(taxonomy_j), a sum over the cells and not a mean.

    Without a taxonomy a cell costs width / range; suppressed it costs 1.
    """
    return sum(comparison.totals(relative_heights).values())


def _mean(comparison: Comparison, totals: Mapping[str, float]) -> float | None:
    cells = comparison.rows * len(totals)
    return sum(totals.values()) / cells if cells else None
