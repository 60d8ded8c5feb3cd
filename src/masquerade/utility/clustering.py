"""A release's utility for clustering: clusters found in it, judged by the original records that are in them.

Clusters are found by k-means, once on the raw attributes and once on the released ones. Both are judged on the raw
attributes, each scaled to lie between 0 and 1: **intra-cluster similarity** is 1 − the mean distance of a record from
its cluster's centre, **inter-cluster dissimilarity** the mean distance of two centres; distances are divided by the
largest that is possible. A release that keeps the structure has figures close to the original's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.data.table import Table
from masquerade.engine.counts import value_counts, weighted_counts, which_occur
from masquerade.utility.accuracy import Category, Feature, raw_feature, released_feature

_MOST_ROWS = 5_000  # as many show the structure
_MOST_CATEGORIES = 64
_STARTS, _MOST_ROUNDS = 5, 100
_DECIMALS = 4
Points = NDArray[np.float64]


def clustering(
    table: Table, released: Sequence[Generalised], clusters: int, seed: int = 7
) -> dict[str, object]:
    """Return both figures of this many clusters, of the `original` and of the `release`, which has all rows."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(table))[:_MOST_ROWS])
    few = min(clusters, chosen.size)
    raw = _points([raw_feature(table, column.name) for column in released])[chosen]
    kinds = [table.schema[column.name].kind for column in released]
    seen = _points(
        [
            released_feature(column, kind != "categorical")
            for column, kind in zip(released, kinds, strict=True)
        ]
    )[chosen]
    return {
        "clusters": few,
        "original": _judged(raw, _clusters(raw, few, seed), few, len(released)),
        "release": _judged(raw, _clusters(seen, few, seed), few, len(released)),
    }


def _points(features: Sequence[Feature]) -> Points:
    """Return the records as points: numbers from 0 to 1, categories as corners at distance 1 from each other."""
    blocks = []
    for feature in features:
        if isinstance(feature, Category):
            codes = np.minimum(feature.codes, _MOST_CATEGORIES)
            corners = np.eye(min(feature.n_codes, _MOST_CATEGORIES + 1)) / np.sqrt(2)
            blocks.append(corners[codes])
        else:
            low, high = feature.values.min(), feature.values.max()
            blocks.append(((feature.values - low) / ((high - low) or 1.0))[:, np.newaxis])
    return np.hstack(blocks)


def _clusters(points: Points, clusters: int, seed: int) -> NDArray[np.int64]:
    """Return the cluster of each point: Lloyd's algorithm from seeded, far starts, the closest fit of a few."""
    fits = [_fit(points, clusters, np.random.default_rng([seed, start])) for start in range(_STARTS)]
    return min(fits, key=lambda fit: fit[0])[1]


def _fit(points: Points, clusters: int, random: np.random.Generator) -> tuple[float, NDArray[np.int64]]:
    """Return the sum of squared distances, rounded, and the labels; empty clusters stay empty."""
    centres = points[[random.integers(len(points))]]
    while len(centres) < clusters:  # k-means++: the next far from those there are
        nearest = _squares(points, centres).min(axis=1)
        if not nearest.any():
            break
        centres = np.vstack([centres, points[random.choice(len(points), p=nearest / nearest.sum())]])
    labels = np.zeros(len(points), np.int64)
    for _ in range(_MOST_ROUNDS):
        squares = _squares(points, centres)
        before, labels = labels, squares.argmin(axis=1)
        for at in np.flatnonzero(which_occur(labels, len(centres))):
            centres[at] = points[labels == at].mean(axis=0)
        if np.array_equal(before, labels):
            break
    return round(float(_squares(points, centres).min(axis=1).sum()), 9), labels


def _squares(points: Points, centres: Points) -> Points:
    """Return the squared distance of each point from each centre."""
    squares = (points**2).sum(axis=1)[:, np.newaxis] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    far: Points = np.maximum(squares, 0.0)
    return far


def _judged(points: Points, labels: NDArray[np.int64], clusters: int, dimensions: int) -> dict[str, float]:
    sizes = value_counts(labels, clusters)
    sums = np.stack([weighted_counts(labels, column, clusters) for column in points.T], axis=1)
    centres = sums / np.maximum(sizes, 1)[:, np.newaxis]
    farthest = np.sqrt(dimensions)
    within = np.linalg.norm(points - centres[labels], axis=1).mean() / farthest
    there = centres[sizes > 0]
    apart = np.linalg.norm(there[:, np.newaxis] - there, axis=2)[np.triu_indices(len(there), 1)]
    between = float(apart.mean()) / farthest if apart.size else 0.0
    return {
        "intra_similarity": round(1 - float(within), _DECIMALS),
        "inter_dissimilarity": round(between, _DECIMALS),
    }
