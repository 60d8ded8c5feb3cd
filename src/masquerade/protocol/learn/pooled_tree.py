"""ID3 on one table: the tree that the parties grow together, from the same logarithms, with nothing hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from masquerade.crypto.logarithm import Precision
from masquerade.engine.counts import pair_counts, value_counts
from masquerade.protocol.learn.counting import Codes
from masquerade.protocol.learn.id3 import Node
from masquerade.protocol.learn.logarithm import plain_weighted_logarithms


def pooled_tree(
    codes: Mapping[str, Codes],
    sizes: Mapping[str, int],
    attributes: Sequence[str],
    target: str,
    precision: Precision,
) -> Node:
    """Return the tree for the class `target` by these attributes, the earlier first where two are equally good."""
    root = Node()
    everybody = np.arange(codes[target].size)
    nobody = np.zeros(sizes[target], np.int64)
    waiting = [(root, everybody, nobody)]
    while waiting:
        node, rows, above = waiting.pop()
        classes = value_counts(codes[target][rows], sizes[target])
        left = [name for name in attributes if name not in dict(node.path)]
        if np.count_nonzero(classes) <= 1 or not left:
            node.label = int(np.argmax(classes if classes.any() else above))
            continue
        tables = {
            name: pair_counts(codes[name][rows], codes[target][rows], sizes[name], sizes[target])
            for name in left
        }
        node.attribute = min(left, key=lambda name: _uncertain(tables[name], precision))
        for value in range(sizes[node.attribute]):
            child = Node((*node.path, (node.attribute, value)))
            node.children.append(child)
            waiting.append((child, rows[codes[node.attribute][rows] == value], classes))
    return root


def _uncertain(table: Codes, precision: Precision) -> int:
    """Return what the values leave uncertain of the class, scaled as the protocol scales it."""
    rows = plain_weighted_logarithms(table.sum(axis=1), precision).sum()
    return int(rows - plain_weighted_logarithms(table.ravel(), precision).sum())
