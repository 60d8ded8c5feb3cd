"""Sums of long pseudorandom rows, one per seed, without storing any of them: the inner loop of the joint histogram.

    G_c(s) = π(s ⊕ (c ‖ c)) ⊞ s,   c = 1, 2, …;   π = AES-128 under the session's key, ⊞ lane by lane (mod 2^16 or 2^32)

Davies and Meyer's feed-forward, with a lane-wise sum in place of XOR: in the ideal permutation model a row looks random
to anyone who has not queried π at s ⊕ (c ‖ c), and any group operation serves. The sum is chosen because it lets the
seeds be added once for all blocks of their rows. With C unknown rows of b blocks and T calls of AES beside the
protocol, an attacker's chance is about C·b·T / 2^128.

One AES call and three passes of addition over each block; a buffer stays within the processor's second-level cache.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, derive_key
from masquerade.errors import ParameterError

Word: TypeAlias = np.dtype[np.unsignedinteger[Any]]  # of 16 or 32 bits
Words: TypeAlias = NDArray[np.unsignedinteger[Any]]

_BUFFER_BYTES = 1 << 20


def word_for(most: int) -> Word:
    """Return the narrowest word type whose signed range holds every count up to `most`."""
    if most < 1 << 15:
        return np.dtype(np.uint16)
    if most < 1 << 31:
        return np.dtype(np.uint32)
    raise ParameterError(f"counts must stay below 2^31. Got up to {most} instead.")


def random_words(shape: tuple[int, ...], word: Word) -> Words:
    """Draw fresh secret words."""
    return np.frombuffer(os.urandom(math.prod(shape) * word.itemsize), word).reshape(shape)


class RowSums:
    """Adds up the rows of many trees: over all trees for each leaf, and over all leaves for each tree.

    Trees are distributed to `workers` threads, by default one for every two cores: the other party, or sending and
    growing the next trees, needs the rest.
    """

    def __init__(
        self, session: bytes, leaves: int, columns: int, word: Word, workers: int | None = None
    ) -> None:
        key = derive_key(session, b"stretched-rows")
        self._leaves, self._columns = leaves, columns
        count = workers if workers is not None else max(1, (os.cpu_count() or 1) // 2)
        self._workers = [_Worker(key, leaves, columns, word) for _ in range(count)]

    def add(self, seeds: Blocks) -> Words:
        """Add trees with these leaves, uint64[leaves, n, 2]; return each tree's sum over its leaves, [n, columns]."""
        if seeds.ndim != 3 or seeds.shape[0] != self._leaves or seeds.shape[2] != 2:
            raise ParameterError(
                f"seeds must be uint64[{self._leaves}, n, 2]. Got {list(seeds.shape)} instead."
            )
        by_tree = np.ascontiguousarray(seeds.transpose(1, 0, 2)).reshape(seeds.shape[1], 2 * self._leaves)
        if len(self._workers) == 1:
            return self._workers[0].add(by_tree)[:, : self._columns]
        with ThreadPoolExecutor(
            len(self._workers)
        ) as pool:  # AES and additions do not hold the interpreter's lock
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

    def __init__(self, key: bytes, leaves: int, columns: int, word: Word) -> None:
        self._permute = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation, no mode
        self._leaves, self._word = leaves, word
        self._lanes = BLOCK_BYTES // word.itemsize
        self._blocks = -(-columns // self._lanes)
        self._counters = np.arange(1, self._blocks + 1, dtype=np.uint64)[:, None]
        self._step = max(1, min(self._blocks, _BUFFER_BYTES // (BLOCK_BYTES * leaves)))
        self._buffer = np.empty(
            2 * leaves * self._step + 2, np.uint64
        )  # one block more: OpenSSL needs the room
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
                self._stretch(tree, at, total)
            total += lanes.reshape(self._leaves, self._lanes).sum(axis=0, dtype=self._word)
        return totals.reshape(len(by_tree), self._blocks * self._lanes)

    def total(self) -> Words:
        """Return the sum over this worker's trees, in whole blocks of words."""
        sums = (self._sums + self._seed_sums).reshape(self._blocks, self._leaves, self._lanes)
        return np.ascontiguousarray(sums.transpose(1, 0, 2)).reshape(self._leaves, -1)

    def _stretch(self, tree: NDArray[np.uint64], at: int, total: Words) -> None:
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
