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

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
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
    random_bytes,
)
from masquerade.crypto.one_of_n import as_indices, digits_of
from masquerade.crypto.transfer_extension import ReceivedBatch, TransferReceiver, TransferSender
from masquerade.errors import ParameterError

# --- pseudorandom row sums ----------------------------------------------------------------------------------
# Sums of long pseudorandom rows, one per seed, without storing any of them: the inner loop of the joint
# histogram.
#
#  G_c(s) = π(s ⊕ (c ‖ c)) ⊞ s,   c = 1, 2, …;   π = AES-128 under the session's key, ⊞ lane by lane (mod 2^16 or 2^32)
#
# Davies and Meyer's feed-forward, with a lane-wise sum in place of XOR: in the ideal permutation model a
# row looks random to anyone who has not queried π at s ⊕ (c ‖ c), and any group operation serves. The sum
# is chosen because it lets the seeds be added once for all blocks of their rows. With C unknown rows of b
# blocks and T calls of AES beside the protocol, an attacker's chance is about C·b·T / 2^128.
#
# One AES call and three passes of addition over each block; a buffer stays within the processor's second-
# level cache.

WordType: TypeAlias = np.dtype[np.unsignedinteger[Any]]  # of 16 or 32 bits
Words: TypeAlias = NDArray[np.unsignedinteger[Any]]

_BUFFER_BYTES = 1 << 20


def word_for(most: int) -> WordType:
    """Return the narrowest word type whose signed range holds every count up to `most`."""
    if most < 1 << 15:
        return np.dtype(np.uint16)
    if most < 1 << 31:
        return np.dtype(np.uint32)
    raise ParameterError(f"counts must stay below 2^31. Got up to {most} instead.")


def random_words(shape: tuple[int, ...], word: WordType) -> Words:
    """Draw fresh secret words."""
    return np.frombuffer(random_bytes(math.prod(shape) * word.itemsize), word).reshape(shape)


class RowSums:
    """Adds up the rows of many trees: over all trees for each leaf, and over all leaves for each tree.

    Trees are distributed to `workers` threads, by default one for every two cores: the other party, or sending and
    growing the next trees, needs the rest.
    """

    def __init__(self, session: bytes, leaves: int, columns: int, word: WordType, workers: int | None = None) -> None:
        key = derive_key(session, b"stretched-rows")
        self._leaves, self._columns = leaves, columns
        count = workers if workers is not None else max(1, (os.cpu_count() or 1) // 2)
        self._workers = [_Worker(key, leaves, columns, word) for _ in range(count)]

    def add(self, seeds: Blocks) -> Words:
        """Add trees with these leaves, uint64[leaves, n, 2]; return each tree's sum over its leaves, [n, columns]."""
        if seeds.ndim != 3 or seeds.shape[0] != self._leaves or seeds.shape[2] != 2:
            raise ParameterError(f"seeds must be uint64[{self._leaves}, n, 2]. Got {list(seeds.shape)} instead.")
        by_tree = np.ascontiguousarray(seeds.transpose(1, 0, 2)).reshape(seeds.shape[1], 2 * self._leaves)
        if len(self._workers) == 1:
            return self._workers[0].add(by_tree)[:, : self._columns]
        with ThreadPoolExecutor(len(self._workers)) as pool:  # AES and additions do not hold the interpreter's lock
            dealt = np.array_split(by_tree, len(self._workers))
            totals = list(pool.map(lambda worker, part: worker.add(part), self._workers, dealt))
        return np.concatenate(totals)[:, : self._columns]

    def total(self) -> Words:
        """Return the sum over all trees so far, [leaves, columns]."""
        total = self._workers[0].total()
        for worker in self._workers[1:]:
            total += worker.total()
        return total[:, : self._columns]


class _Worker:
    """One thread's share of the trees."""

    def __init__(self, key: bytes, leaves: int, columns: int, word: WordType) -> None:
        self._permute = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation, no mode
        self._leaves, self._word = leaves, word
        self._lanes = BLOCK_BYTES // word.itemsize
        self._blocks = -(-columns // self._lanes)
        self._counters = np.arange(1, self._blocks + 1, dtype=np.uint64)[:, None]
        self._step = max(1, min(self._blocks, _BUFFER_BYTES // (BLOCK_BYTES * leaves)))
        self._buffer = np.empty(2 * leaves * self._step + 2, np.uint64)  # one block more: OpenSSL needs the room
        # One row per block number, holding the blocks of all leaves in order.
        self._sums = np.zeros((self._blocks, leaves * self._lanes), word)
        self._seed_sums = np.zeros(leaves * self._lanes, word)

    def add(self, by_tree: Blocks) -> Words:
        """Add trees, uint64[n, 2 · leaves]; return each one's sum over its leaves, in whole blocks of words."""
        totals = np.zeros((len(by_tree), self._blocks, self._lanes), self._word)
        for tree, total in zip(by_tree, totals, strict=True):
            lanes = tree.view(self._word)
            self._seed_sums += lanes
            for at in range(0, self._blocks, self._step):
                self._expand(tree, at, total)
            total += lanes.reshape(self._leaves, self._lanes).sum(axis=0, dtype=self._word)
        return totals.reshape(len(by_tree), self._blocks * self._lanes)

    def total(self) -> Words:
        """Return the sum over this worker's trees, in whole blocks of words."""
        sums = (self._sums + self._seed_sums).reshape(self._blocks, self._leaves, self._lanes)
        return np.ascontiguousarray(sums.transpose(1, 0, 2)).reshape(self._leaves, -1)

    def _expand(self, tree: NDArray[np.uint64], at: int, total: Words) -> None:
        size = min(self._step, self._blocks - at)
        used = self._buffer[: size * len(tree)]
        blocks = used.reshape(size, len(tree))
        np.bitwise_xor(tree, self._counters[at : at + size], out=blocks)
        self._permute.update_into(used.data.cast("B"), self._buffer.data.cast("B"))  # in place
        words = blocks.view(self._word)
        self._sums[at : at + size] += words
        total[at : at + size] = self._folded(words)

    def _folded(self, words: Words) -> Words:
        """Sum over leaves by repeatedly adding one half to the other: long additions, where sum() has short ones."""
        leaves, lanes = self._leaves, self._lanes
        while leaves > 6:
            half = -(-leaves // 2)
            first, second = words[:, : (leaves - half) * lanes], words[:, half * lanes : leaves * lanes]
            np.add(first, second, out=first)
            leaves = half
        few = words[:, : leaves * lanes].reshape(len(words), leaves, lanes)
        return np.asarray(few.sum(axis=1, dtype=self._word))


# --- punctured trees ----------------------------------------------------------------------------------------


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

    def answer(self, message: bytes, count: int, leaves: int) -> tuple[Blocks, bytes]:
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
