"""Seeds of the extension's columns: for each four digits of the sender's secret, all but one of sixteen.

The receiver grows a tree from a root for each four digits: a node's two children are its hash, stretched. Of every
level it adds up the left and the right children, and masks each sum with the base transfer's key for the **other**
choice. So the sender, whose digit on this level is s, opens the sum of the children on the side 1 − s: those it knows
but for one, the sibling of the node on its own path, which the sum completes. In the end it lacks the leaf that its
digits name (Goldreich, Goldwasser, Micali 1986; punctured by one transfer a level, as in Schoppmann et al., CCS 2019).

The sender's leaves are numbered from the one that it lacks: place y has leaf y ⊕ δ, and place 0 none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import WIDTH, Bits
from masquerade.crypto.hashing import Blocks, TweakedHash, blocks_from_bytes, random_blocks

DIGITS = 4  # of the secret at a time: a column of bits for four
LEAVES = 1 << DIGITS
TREES = WIDTH // DIGITS
SUMS_BYTES = 2 * WIDTH * 16

Leaves = NDArray[np.uint64]  # uint64[trees, leaves, 2]


def grow(hashing: TweakedHash, keys: NDArray[np.uint64]) -> tuple[Leaves, bytes]:
    """Return the leaves of fresh trees, and the masked sums for the sender; `keys` are those of all base transfers."""
    nodes: Leaves = random_blocks(TREES).reshape(TREES, 1, 2)
    by_level = keys.reshape(TREES, DIGITS, 2, 2)
    masked = np.empty((DIGITS, TREES, 2, 2), np.uint64)
    for level in range(DIGITS):
        nodes = _children(hashing, nodes, level)
        sides = nodes.reshape(TREES, -1, 2, 2)
        masked[level] = np.bitwise_xor.reduce(sides, axis=1) ^ by_level[:, DIGITS - 1 - level, ::-1]
    return nodes, masked.tobytes()


def open_all_but_one(hashing: TweakedHash, keys: Blocks, secret: Bits, sums: bytes) -> Leaves:
    """Return the leaves by their places, from the chosen keys of all base transfers; those at place 0 are zeros."""
    masked = blocks_from_bytes(sums, 2 * WIDTH).reshape(DIGITS, TREES, 2, 2)
    by_level, digits = keys.reshape(TREES, DIGITS, 2), secret.reshape(TREES, DIGITS).astype(np.intp)
    nodes: Leaves = np.zeros((TREES, 1, 2), np.uint64)
    trees, path = np.arange(TREES), np.zeros(TREES, np.intp)
    for level in range(DIGITS):
        place = DIGITS - 1 - level
        own = digits[:, place]
        nodes = _children(hashing, nodes, level)
        # What grew from the unknown node means nothing: its place is zero, its sibling's follows from the sum.
        path = 2 * path + own
        nodes[trees, path] = nodes[trees, path ^ 1] = 0
        known = np.bitwise_xor.reduce(nodes.reshape(TREES, -1, 2, 2), axis=1)[trees, 1 - own]
        nodes[trees, path ^ 1] = known ^ masked[level, trees, 1 - own] ^ by_level[:, place]
    leaves: Leaves = nodes[trees[:, None], np.arange(LEAVES) ^ path[:, None]]
    return leaves


def _children(hashing: TweakedHash, nodes: Leaves, level: int) -> Leaves:
    count = nodes.shape[0] * nodes.shape[1]
    stretched = hashing.stretch(nodes.reshape(count, 2), level * TREES * LEAVES, 4)
    return stretched.reshape(TREES, 2 * nodes.shape[1], 2).copy()
