"""Shares of rows, added up by what only the other party knows: within blocks of neighbouring records.

For each record j the picker has a number a_j below `leaves`, the planter a row v_j of words, its own. Both end with
additive shares, for each block of `block` records, of the table Σ_j e_{a_j} ⊗ v_j: which rows belong together.

The products are those of `unit_products`, with any row in the place of a unit vector, and a short tree for each record:

    planter → picker   d_j = v_j + Σ_p r_j[p]                 one row of words per record
    picker's share     r_j[p] for p ≠ a_j;  d_j − Σ_{p≠a_j} r_j[p] = r_j[a_j] + v_j for p = a_j
    planter's share    −r_j[p]

The picker gets its two parts apart: Σ_j r_j[p] for each leaf of a block, without the one that it lacks, and the
completed row of each record; it knows where either belongs. Both stretch at the same time, before there are rows.
Seeds stretch as in `pseudorandom_row_sums`; where trees are short, all rows of some trees are made at once and added up
along either axis.

Cost of a record: ⌈log₂ leaves⌉ transfers, one row of words, and for each party leaves · columns / 8 (or / 4) calls of
AES. Semi-honest; the numbers of records, leaves and columns are public.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, derive_key
from masquerade.crypto.one_of_n import as_indices
from masquerade.crypto.pseudorandom_row_sums import Word, Words
from masquerade.crypto.punctured_trees import TreeReceiver, TreeSender
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import ParameterError

Labels = NDArray[np.uint64]

_BUFFER_BYTES = 1 << 19


class BlockPlanter:
    """The side that knows the rows. `session` is the same text on both sides, unique to one use."""

    def __init__(
        self, session: bytes, transfers: TransferSender, leaves: int, columns: int, block: int, word: Word
    ) -> None:
        self._trees, self._leaves = TreeSender(session, transfers), leaves
        self._sums = _BlockSums(session, leaves, columns, block, word)
        self._seeds: Blocks = np.zeros((leaves, 0, 2), np.uint64)

    def plant(self, message: bytes, count: int) -> bytes:
        """Return the trees of `count` records, for the picker."""
        self._seeds, trees = self._trees.plant(message, count, self._leaves)
        return trees

    def stretch(self) -> Words:
        """Stretch the seeds of these records; return this side's share, words[blocks, leaves, columns]."""
        self._by_record, by_leaf = self._sums.of(self._seeds)
        return np.negative(by_leaf)

    def mask(self, rows: Words) -> bytes:
        """Return the rows of these records, masked, for the picker."""
        return (rows + self._by_record).tobytes()


class BlockPicker:
    """The side that knows which leaf each record belongs to."""

    def __init__(
        self, session: bytes, transfers: TransferReceiver, leaves: int, columns: int, block: int, word: Word
    ) -> None:
        self._trees, self._leaves = TreeReceiver(session, transfers), leaves
        self._sums = _BlockSums(session, leaves, columns, block, word)

    def ask(self, chosen: Labels) -> bytes:
        """Return the message for records with these leaves."""
        return self._trees.ask(as_indices(chosen, self._leaves), self._leaves)

    def stretch(self, trees: bytes) -> Words:
        """Stretch the seeds that the planter sent; return this side's share of the leaves' rows."""
        self._by_record, by_leaf = self._sums.of(self._trees.receive(trees))
        return by_leaf

    def complete(self, rows: bytes) -> Words:
        """Return this side's share of each record's row, from the masked ones."""
        if len(rows) != self._by_record.nbytes:
            expected = self._by_record.nbytes
            raise BadMessage(
                f"{len(self._by_record)} masked rows take {expected} bytes. Got {len(rows)} instead."
            )
        told = np.frombuffer(rows, self._by_record.dtype).reshape(self._by_record.shape)
        # The stretched zero is at the hole in both sums, and cancels.
        return told - self._by_record


class _BlockSums:
    """Adds up the rows of short trees: over the leaves of each tree, and over the trees of each block."""

    def __init__(self, session: bytes, leaves: int, columns: int, block: int, word: Word) -> None:
        if block < 1 or leaves < 1:
            raise ParameterError("a block has at least one record, and its records at least one leaf")
        key = derive_key(session, b"stretched-rows")
        self._permute = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation, no mode
        self._leaves, self._columns, self._block, self._word = leaves, columns, block, word
        self._lanes = BLOCK_BYTES // word.itemsize
        self._pieces = -(-columns // self._lanes)
        self._counters = np.arange(1, self._pieces + 1, dtype=np.uint64)
        each = 2 * leaves * self._pieces
        self._step = max(1, min(block, _BUFFER_BYTES // (8 * each)))
        self._buffer = np.empty(each * self._step + 2, np.uint64)  # one block more: OpenSSL needs the room

    def of(self, seeds: Blocks) -> tuple[Words, Words]:
        """Return words[records, columns] and words[blocks, leaves, columns], of seeds uint64[leaves, records, 2]."""
        by_tree = np.ascontiguousarray(seeds.transpose(1, 0, 2))
        n = len(by_tree)
        by_record = np.empty((n, self._pieces * self._lanes), self._word)
        by_leaf = np.zeros((-(-n // self._block), self._leaves, self._pieces * self._lanes), self._word)
        for number, total in enumerate(by_leaf):
            end = min(n, (number + 1) * self._block)
            for at in range(number * self._block, end, self._step):
                part = slice(at, min(at + self._step, end))
                rows = self._rows(by_tree[part])
                np.sum(rows, axis=1, dtype=self._word, out=by_record[part])
                total += rows.sum(axis=0, dtype=self._word)
        return by_record[:, : self._columns], by_leaf[..., : self._columns]

    def _rows(self, trees: Blocks) -> Words:
        """Return the stretched rows of some trees, words[trees, leaves, columns in whole blocks]."""
        used = self._buffer[: trees.size * self._pieces]
        blocks = used.reshape(len(trees), self._leaves, self._pieces, 2)
        for half in (0, 1):
            np.bitwise_xor(trees[:, :, half, None], self._counters, out=blocks[..., half])
        self._permute.update_into(used.data.cast("B"), self._buffer.data.cast("B"))  # in place
        words = blocks.view(self._word)
        words += trees.view(self._word)[:, :, None]
        return np.asarray(words.reshape(len(trees), self._leaves, -1))
