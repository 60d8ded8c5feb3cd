"""One grown decision tree, pruned to many sizes at once.

Cost and complexity (Breiman et al.): a tree costs the bits that it takes to name the classes of its training
records, given the leaf that each falls into, and a price for each leaf. The cheapest subtree is found from
the bottom up: a node becomes a leaf when its children cost no less. Pruning a grown tree for many prices takes
far less time than growing it again, so the price can be chosen by cross-validation for every tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.intp]


def pruned_labels(tree: Any, bits_per_leaf: Sequence[float]) -> Labels:
    """Return the class predicted at each node of the grown tree (row) after pruning at each price (column).

    `tree` is the `tree_` of a scikit-learn classifier with entropy as criterion.
    """
    left, right = tree.children_left, tree.children_right
    levels = _levels(left, right)
    price = np.asarray(bits_per_leaf, np.float64)
    as_leaf = (tree.impurity * tree.n_node_samples)[:, np.newaxis] + price
    cost = as_leaf.copy()
    is_leaf = np.ones(cost.shape, bool)
    for nodes in reversed(levels):
        inner = nodes[left[nodes] >= 0]
        below = cost[left[inner]] + cost[right[inner]]
        is_leaf[inner] = as_leaf[inner] <= below
        cost[inner] = np.minimum(as_leaf[inner], below)
    labels: Labels = np.repeat(tree.value[:, 0, :].argmax(axis=1)[:, np.newaxis], price.size, axis=1)
    for nodes in levels:
        inner = nodes[left[nodes] >= 0]
        for children in (left[inner], right[inner]):  # nodes below a leaf take its class
            labels[children] = np.where(is_leaf[inner], labels[inner], labels[children])
            is_leaf[children] |= is_leaf[inner]
    return labels


def _levels(left: Labels, right: Labels) -> list[Labels]:
    """Return the nodes by depth, the root first."""
    levels = [np.zeros(1, np.intp)]
    while levels[-1].size:
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.concatenate([left[inner], right[inner]]))
    return levels[:-1]
