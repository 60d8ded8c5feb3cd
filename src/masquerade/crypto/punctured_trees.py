"""All-but-one of N: the sender has N random seeds, the receiver all of them except the one of its choice.

Seeds are the leaves of a binary tree (Goldreich, Goldwasser, Micali 1986). Its first two nodes are those of a random
transfer, of which the receiver has the one that does not lead to its hole. For each level below, it gets the XOR of all
left or of all right nodes, whichever does not contain its hole's path: one transfer per level (puncturing as in Kiayias
et al. and Boneh–Waters 2013; the OT form of Schoppmann, Gascón, Reichert, Raykova, "Distributed Vector-OLE", CCS 2019).
It can then compute every node except those on the path.

With the leaves as pads of a table's rows, a receiver's hole α and a sender's row v become shares of "v in row
α, zeros elsewhere", by one more message of one row: the joint histogram is built on this.

Cost of a tree: ⌈log₂ N⌉ transfers (4 bytes one way, 32 back for each but the first), about 4·N hashes. Semi-honest: a
sender that lies about a level's XOR would learn bits of the hole from an abort. N is public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import digits
from masquerade.crypto.hashing import (
    BLOCK_BYTES,
    Blocks,
    Bytes,
    TweakCounter,
    TweakedHash,
    derive_key,
    random_blocks,
)
from masquerade.crypto.one_of_n import as_indices, digits_of
from masquerade.crypto.transfer_batches import ReceivedBatch
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import ParameterError


class Growth:
    """Derives each level from the one above, identically on both sides of a session."""

    def __init__(self, session: bytes) -> None:
        self._hash = TweakedHash(derive_key(session, b"punctured-trees"))
        self._numbers = TweakCounter()

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return numbers for `count` new trees."""
        first = self._numbers.take(count)
        return np.arange(first, first + count, dtype=np.uint64)

    def grow(self, nodes: Blocks, numbers: NDArray[np.uint64], level: int, size: int) -> Blocks:
        """Return the `size` nodes of the next level, uint64[size, n, 2], from those of the level above."""
        above, count = nodes.shape[:2]
        children = np.empty((above, 2, count, 2), np.uint64)
        tweaks = np.empty((count, 2), np.uint64)
        tweaks[:, 0] = numbers
        for side in (0, 1):
            tweaks[:, 1] = 2 * level + side
            tiled = np.broadcast_to(tweaks, (above, count, 2)).reshape(-1, 2)
            children[:, side] = self._hash.hash(nodes.reshape(-1, 2), tiled).reshape(above, count, 2)
        return children.reshape(2 * above, count, 2)[:size]


class TreeSender:
    """Makes trees and transfers all but one leaf of each. `session` is the same text on both sides."""

    def __init__(self, session: bytes, transfers: TransferSender) -> None:
        self._growth = Growth(session)
        self._transfers = transfers

    def plant(self, message: bytes, count: int, leaves: int) -> tuple[Blocks, bytes]:
        """Return all seeds, uint64[leaves, count, 2], and the answer to the receiver's message."""
        depth = digits_of(leaves)
        first, others = self._transfers.extend(message, count * depth).split(_levels(depth, count))
        numbers = self._growth.take(count)
        nodes = np.stack(first.random()) if depth else random_blocks(count).reshape(1, count, 2)
        sums = np.zeros((2, max(depth - 1, 0), count, 2), np.uint64)
        for level in range(1, depth):
            nodes = self._growth.grow(nodes, numbers, level, _nodes(leaves, depth, level))
            for side in (0, 1):
                sums[side, level - 1] = np.bitwise_xor.reduce(nodes[side::2])
        return nodes, others.send(_rows(sums[0]), _rows(sums[1]))


class TreeReceiver:
    """Gets all leaves of each tree except the one at its hole."""

    def __init__(self, session: bytes, transfers: TransferReceiver) -> None:
        self._growth = Growth(session)
        self._transfers = transfers
        self._waiting: tuple[NDArray[np.uint64], int, list[ReceivedBatch]] | None = None

    def ask(self, holes: NDArray[np.uint64], leaves: int) -> bytes:
        """Return the message that requests one tree of `leaves` leaves for each hole."""
        if self._waiting is not None:
            raise ParameterError("the last trees were not received yet")
        depth = digits_of(leaves)
        wanted = as_indices(holes, leaves)
        # The highest bit decides the first level; at each level the side without the path is taken.
        message, batch = self._transfers.extend(1 - digits(wanted, depth)[::-1].ravel())
        self._waiting = wanted, leaves, batch.split(_levels(depth, len(wanted)))
        return message

    def receive(self, message: bytes) -> Blocks:
        """Return the seeds, uint64[leaves, count, 2], with zeros at the holes."""
        if self._waiting is None:
            raise ParameterError("no trees were asked for")
        holes, leaves, (first, others) = self._waiting
        depth, count = digits_of(leaves), len(holes)
        sums = others.receive(message, BLOCK_BYTES).view(np.uint64).reshape(max(depth - 1, 0), count, 2)
        self._waiting = None
        numbers = self._growth.take(count)
        nodes = np.zeros((min(leaves, 2), count, 2), np.uint64)
        at = np.arange(count)
        if depth:
            nodes[1 - (holes >> np.uint64(depth - 1)).astype(np.int64), at] = first.random()
        for level in range(1, depth):
            nodes = self._growth.grow(nodes, numbers, level, _nodes(leaves, depth, level))
            path = (holes >> np.uint64(depth - 1 - level)).astype(np.int64)
            sibling = path ^ 1
            inside = sibling < len(nodes)
            nodes[path, at] = 0
            nodes[sibling[inside], at[inside]] = 0
            both = np.stack([np.bitwise_xor.reduce(nodes[side::2]) for side in (0, 1)])
            missing = sums[level - 1] ^ both[sibling & 1, at]
            nodes[sibling[inside], at[inside]] = missing[inside]
        return nodes


def _levels(depth: int, count: int) -> list[int]:
    """Return how many transfers of trees of this depth are for their first level, and how many for all others."""
    return [min(depth, 1) * count, max(depth - 1, 0) * count]


def _nodes(leaves: int, depth: int, level: int) -> int:
    """Return how many nodes the level below `level` needs for the lowest one to have exactly the leaves."""
    return -(-leaves // (1 << (depth - 1 - level)))


def _rows(blocks: Blocks) -> Bytes:
    return np.ascontiguousarray(blocks).view(np.uint8).reshape(-1, BLOCK_BYTES)
