"""Measures: the figures by which releases of one table are compared, and one of them is chosen.

Every metric is one. So are the error of random range queries, with a workload the precision and recall of its
selections, and where there is a class the error of a decision tree
that learns from one part of the release and is judged on the others. A tree's error has a margin, its standard error:
releases that differ by less are equally good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from masquerade.data import Table
from masquerade.engine import Flags
from masquerade.utility.accuracy import bayes_accuracy
from masquerade.utility.classification import Classification, has_sklearn
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import UNIT, AttributeLoss, losses_of

if TYPE_CHECKING:
    from masquerade.data import QueryLog

# --- metrics ------------------------------------------------------------------------------------------------
# Metrics: how much of the original a release keeps, each from counts per group or per released value.
#
# Unless a metric states otherwise, suppressed rows count, as fully lost.

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
        pairs = comparison.released_rows**2 - 2 * int(counts @ after) + comparison.suppressed * comparison.rows
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


# --- measures -----------------------------------------------------------------------------------------------

NCP, CLASSIFICATION_ERROR, CLASSIFICATION_METRIC = "ncp", "classification_error", "classification_metric"
NAIVE_BAYES_ERROR = "naive_bayes_error"
QUERY_ERROR, WEIGHTED_OVERLAP = "query_error", "weighted_overlap"
SELECTION_PRECISION, SELECTION_RECALL = "selection_precision", "selection_recall"
MEASURES = (
    NCP,
    "loss",
    "precision",
    "information_loss",
    "information_kept",
    "violations",
    "discernibility",
    "weighted_discernibility",
    WEIGHTED_OVERLAP,
    "average_group_size",
    "majority",
    CLASSIFICATION_METRIC,
    CLASSIFICATION_ERROR,
    NAIVE_BAYES_ERROR,
    QUERY_ERROR,
    SELECTION_PRECISION,
    SELECTION_RECALL,
)
NEEDING_WORKLOAD = (SELECTION_PRECISION, SELECTION_RECALL)
NEEDING_CLASS = ("majority", CLASSIFICATION_METRIC, CLASSIFICATION_ERROR, NAIVE_BAYES_ERROR)
_OF_CLASSIFIERS = (CLASSIFICATION_ERROR, NAIVE_BAYES_ERROR)
# What looks at single rows needs all of them in one memory. All else follows from counts, wherever the rows are.
NEEDING_ROWS = (*_OF_CLASSIFIERS, QUERY_ERROR)
COUNTED = tuple(name for name in MEASURES if name not in NEEDING_ROWS)
_HIGHER_IS_BETTER = ("precision", "information_kept", *NEEDING_WORKLOAD)

_QUERIES = 500
_MOST_TRAINING, _TRAINING_SHARE = 10_000, 2 / 3  # records that trees learn from
_FEWEST_ROWS = 6
_DECIMALS = 4


def usual_measure(has_class: bool) -> str:
    """Return the measure by which a release is chosen where nobody says otherwise."""
    if not has_class:
        return NCP
    return CLASSIFICATION_ERROR if has_sklearn() else CLASSIFICATION_METRIC


def cost(name: str, value: float) -> float:
    """Return the figure so that less is better."""
    return -value if name in _HIGHER_IS_BETTER else value


def margin(name: str, value: float, rows: int) -> float:
    """Return by how much two figures must differ to mean anything: a tree's standard error, of other measures 0."""
    return sqrt(value * (1 - value) / max(rows, 1)) if name in _OF_CLASSIFIERS else 0.0


@dataclass(frozen=True, eq=False)
class Measurer:
    """Measures releases of one table, whose rows are all complete; raw columns are prepared once.

    Without the table, where its rows are in chunks, there are the measures that counts tell.
    """

    table: Table | None
    target: str | None = None
    seed: int = 7
    workload: QueryLog | None = None

    def figure(self, name: str, comparison: Comparison) -> float | None:
        """Return one figure; None where it does not apply."""
        if name == QUERY_ERROR:
            from masquerade.utility.queries import query_error

            return query_error(comparison, _QUERIES, self.seed).mean if comparison.originals else None
        if name in NEEDING_WORKLOAD:
            return self._selection(comparison).get(name)
        if name == WEIGHTED_OVERLAP:
            return weighted_overlap(comparison)
        if name in _OF_CLASSIFIERS:
            return self._error(name, comparison)
        return measure(comparison)[name]

    def figures(self, comparison: Comparison) -> Mapping[str, float | None]:
        """Return all that apply to this table, by name."""
        learned = (NAIVE_BAYES_ERROR, *([CLASSIFICATION_ERROR] if has_sklearn() else []))
        more = (WEIGHTED_OVERLAP, QUERY_ERROR, *(learned if self.target is not None else ()))
        return {
            **measure(comparison),
            **{name: self.figure(name, comparison) for name in more},
            **self._selection(comparison),
        }

    def purpose(self, comparison: Comparison) -> dict[str, float | None]:
        """Measure what the weights and the workload are about; nothing where all attributes weigh the same, or none."""
        weighted = len(set(comparison.weights.values())) > 1
        overlap = {WEIGHTED_OVERLAP: weighted_overlap(comparison)} if weighted else {}
        return {**overlap, **self._selection(comparison)}

    def _selection(self, comparison: Comparison) -> dict[str, float | None]:
        """Return how exactly the workload's subpopulations are found; nothing without a workload."""
        if self.workload is None:
            return {}
        from masquerade.utility.workloads import selections

        found = selections(comparison, self.table, self.workload)
        return {SELECTION_PRECISION: found.precision, SELECTION_RECALL: found.recall}

    def _error(self, name: str, comparison: Comparison) -> float | None:
        """Return the share of rows that are misjudged, or suppressed; None with too few rows to tell."""
        released = comparison.released_rows / max(comparison.rows, 1)
        if self.table is None or self.target is None or self._training is None or not released:
            return None
        if name == CLASSIFICATION_ERROR:
            error = self._trees.integration_error(comparison.released, comparison.kept)
            return round(error * released + 1 - released, _DECIMALS)
        splits = [(np.flatnonzero(self._training), np.flatnonzero(~self._training))]
        accuracy = bayes_accuracy(self.table, self.target, comparison.released, comparison.kept, splits)
        return round(1 - accuracy * released, _DECIMALS)

    @cached_property
    def _trees(self) -> Classification:
        assert self.table is not None
        assert self.target is not None
        return Classification(self.table, self.target, train=self._training, seed=self.seed)

    @cached_property
    def _training(self) -> Flags | None:
        """Mark the records that classifiers learn from; None with too few to tell."""
        if self.table is None or (n := len(self.table)) < _FEWEST_ROWS:
            return None
        train = np.zeros(n, bool)
        chosen = np.random.default_rng(self.seed).permutation(n)
        train[chosen[: min(round(_TRAINING_SHARE * n), _MOST_TRAINING)]] = True
        return train
