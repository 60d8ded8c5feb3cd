"""Shares of a sum of products of two unit vectors: one party knows every left one, the other every right one.

For each record j the receiver has a row a_j, the sender a column b_j, and both end with additive shares (modulo 2^16 or
2^32) of the table Σ_j e_{a_j} ⊗ e_{b_j}: how often each pair of row and column occurs. Nothing else is revealed.

Each record takes a tree of all-but-one transfers (`punctured_trees`) with one leaf per row: the sender has every row's
seed, the receiver all but that of a_j. A seed expands to a row r_j[p] of random words (`punctured_trees.RowSums`).

    sender → receiver   d_j = e_{b_j} + Σ_p r_j[p]             one row of words per record
    receiver's share     r_j[p] for p ≠ a_j;  d_j − Σ_{p≠a_j} r_j[p] = r_j[a_j] + e_{b_j} for p = a_j
    sender's share    −r_j[p]

In the place of e_{b_j} the sender may put any row of words (`answer_rows`): then both share the sum of the rows by a_j.

Both add up their shares over all records as they go; nothing of size records × rows × columns is ever stored.

The extension of "vector OLE by punctured trees" (Schoppmann, Gascón, Reichert, Raykova, CCS 2019) from a scalar to a
whole row. Cost of a record: ⌈log₂ rows⌉ transfers, one row of words, and for each party rows · columns / 8 (or / 4)
calls of AES. Semi-honest; the numbers of records, rows and columns are public.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from masquerade.crypto.garble import Labels
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, derive_key
from masquerade.crypto.one_of_n import as_indices
from masquerade.crypto.punctured_trees import RowSums, TreeReceiver, TreeSender, Words, WordType
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import BadMessage, ParameterError

# --- block products -----------------------------------------------------------------------------------------
# Shares of rows, added up by what only the other party knows: within blocks of neighbouring records.
#
# For each record j the receiver has a number a_j below `leaves`, the sender a row v_j of words, its own.
# Both end with additive shares, for each block of `block` records, of the table Σ_j e_{a_j} ⊗ v_j: which
# rows belong together.
#
# The products are those of `unit_products`, with any row in the place of a unit vector, and a short tree
# for each record:
#
#     sender → receiver   d_j = v_j + Σ_p r_j[p]                 one row of words per record
#     receiver's share     r_j[p] for p ≠ a_j;  d_j − Σ_{p≠a_j} r_j[p] = r_j[a_j] + v_j for p = a_j
#     sender's share    −r_j[p]
#
# The receiver gets its two parts apart: Σ_j r_j[p] for each leaf of a block, without the one that it lacks,
# and the completed row of each record; it knows where either belongs. Both expand at the same time, before
# there are rows. Seeds expand as in `punctured_trees.RowSums`; where trees are short, all rows of some trees
# are made at once and added up along either axis.
#
# Cost of a record: ⌈log₂ leaves⌉ transfers, one row of words, and for each party leaves · columns / 8 (or /
# 4) calls of AES. Semi-honest; the numbers of records, leaves and columns are public.


_BUFFER_BYTES = 1 << 19


class BlockSender:
    """The side that knows the rows. `session` is the same text on both sides, unique to one use."""

    def __init__(
        self, session: bytes, transfers: TransferSender, leaves: int, columns: int, block: int, word: WordType
    ) -> None:
        self._trees, self._leaves = TreeSender(session, transfers), leaves
        self._sums = _BlockSums(session, leaves, columns, block, word)
        self._seeds: Blocks = np.zeros((leaves, 0, 2), np.uint64)

    def answer(self, message: bytes, count: int) -> bytes:
        """Return the trees of `count` records, for the receiver."""
        self._seeds, trees = self._trees.answer(message, count, self._leaves)
        return trees

    def expand(self) -> Words:
        """Expand the seeds of these records; return this side's share, words[blocks, leaves, columns]."""
        self._by_record, by_leaf = self._sums.of(self._seeds)
        return np.negative(by_leaf)

    def mask(self, rows: Words) -> bytes:
        """Return the rows of these records, masked, for the receiver."""
        return (rows + self._by_record).tobytes()


class BlockReceiver:
    """The side that knows which leaf each record belongs to."""

    def __init__(
        self, session: bytes, transfers: TransferReceiver, leaves: int, columns: int, block: int, word: WordType
    ) -> None:
        self._trees, self._leaves = TreeReceiver(session, transfers), leaves
        self._sums = _BlockSums(session, leaves, columns, block, word)

    def ask(self, chosen: Labels) -> bytes:
        """Return the message for records with these leaves."""
        return self._trees.ask(as_indices(chosen, self._leaves), self._leaves)

    def expand(self, trees: bytes) -> Words:
        """Expand the seeds received from the sender; return this side's share of the leaves' rows."""
        self._by_record, by_leaf = self._sums.of(self._trees.receive(trees))
        return by_leaf

    def complete(self, rows: bytes) -> Words:
        """Return this side's share of each record's row, from the masked ones."""
        if len(rows) != self._by_record.nbytes:
            expected = self._by_record.nbytes
            raise BadMessage(f"{len(self._by_record)} masked rows take {expected} bytes. Got {len(rows)} instead.")
        told = np.frombuffer(rows, self._by_record.dtype).reshape(self._by_record.shape)
        # The expanded zero is at the hole in both sums, and cancels.
        return told - self._by_record


class _BlockSums:
    """Adds up the rows of short trees: over the leaves of each tree, and over the trees of each block."""

    def __init__(self, session: bytes, leaves: int, columns: int, block: int, word: WordType) -> None:
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
        """Return the expanded rows of some trees, words[trees, leaves, columns in whole blocks]."""
        used = self._buffer[: trees.size * self._pieces]
        blocks = used.reshape(len(trees), self._leaves, self._pieces, 2)
        for half in (0, 1):
            np.bitwise_xor(trees[:, :, half, None], self._counters, out=blocks[..., half])
        self._permute.update_into(used.data.cast("B"), self._buffer.data.cast("B"))  # in place
        words = blocks.view(self._word)
        words += trees.view(self._word)[:, :, None]
        return np.asarray(words.reshape(len(trees), self._leaves, -1))


# --- unit products ------------------------------------------------------------------------------------------

_BATCH_BYTES = 1 << 21  # seeds and sums of the records of one message
_PLACES = 2  # batches in flight: the receiver processes one while the sender makes the next


def batch_size(rows: int, columns: int) -> int:
    """Return how many records go into one message, so that memory stays bounded."""
    return max(1, _BATCH_BYTES // (BLOCK_BYTES * rows + 4 * columns))


class UnitSender:
    """The side that knows the columns. `session` is the same text on both sides, unique to one table."""

    def __init__(self, session: bytes, transfers: TransferSender, rows: int, columns: int, word: WordType) -> None:
        self._trees = [TreeSender(session + b"/%d" % place, transfers) for place in range(_PLACES)]
        self._rows, self._columns, self._word = rows, columns, word
        self._sums = RowSums(session, rows, columns, word)
        self._turn = 0

    def answer(self, message: bytes, chosen: Labels) -> tuple[bytes, bytes]:
        """Add records with these columns (`columns` itself means none); return the trees and one row per record."""
        wanted = as_indices(chosen, self._columns + 1).astype(np.intp)
        trees, rows = self._masks(message, len(wanted))
        inside = np.flatnonzero(wanted < self._columns)
        rows[inside, wanted[inside]] += 1
        return trees, rows.tobytes()

    def answer_rows(self, message: bytes, own: Words) -> tuple[bytes, bytes]:
        """Add records with these rows, words[records, columns]; return the trees and one row per record."""
        trees, rows = self._masks(message, len(own))
        return trees, (rows + own).tobytes()

    def _masks(self, message: bytes, count: int) -> tuple[bytes, Words]:
        seeds, trees = self._trees[self._turn].answer(message, count, self._rows)
        self._turn = (self._turn + 1) % _PLACES
        return trees, self._sums.add(seeds)

    def share(self) -> Words:
        """Return this side's share of the table, [rows, columns]."""
        return np.asarray(np.zeros((), self._word) - self._sums.total())


class UnitReceiver:
    """The side that knows the rows."""

    def __init__(self, session: bytes, transfers: TransferReceiver, rows: int, columns: int, word: WordType) -> None:
        self._trees = [TreeReceiver(session + b"/%d" % place, transfers) for place in range(_PLACES)]
        self._rows, self._columns, self._word = rows, columns, word
        self._sums = RowSums(session, rows, columns, word)
        self._corrections = np.zeros((rows, columns), word)
        self._asked: list[Labels] = []
        self._turn = 0

    def ask(self, chosen: Labels) -> bytes:
        """Return the message for records with these rows. At most two may be unanswered at a time."""
        wanted = as_indices(chosen, self._rows)
        if len(self._asked) == _PLACES:
            raise ParameterError("two batches of records are under way already")
        place = (self._turn + len(self._asked)) % _PLACES
        self._asked.append(wanted)
        return self._trees[place].ask(wanted, self._rows)

    def receive(self, trees: bytes, rows: bytes) -> None:
        """Process the answer to the earliest unanswered message."""
        if not self._asked:
            raise ParameterError("no records were asked for")
        wanted = self._asked[0]
        expected = len(wanted) * self._columns * self._word.itemsize
        if len(rows) != expected:
            raise BadMessage(f"{len(wanted)} rows of sums take {expected} bytes. Got {len(rows)} instead.")
        seeds = self._trees[self._turn].receive(trees)
        self._asked.pop(0)
        self._turn = (self._turn + 1) % _PLACES
        told = np.frombuffer(rows, self._word).reshape(len(wanted), self._columns)
        # The expanded zero is at the hole in both sums, and cancels.
        np.add.at(self._corrections, wanted.astype(np.intp), told - self._sums.add(seeds))

    def share(self) -> Words:
        """Return this side's share of the table, [rows, columns]."""
        if self._asked:
            raise ParameterError("the answer to some records is missing")
        return np.asarray(self._sums.total() + self._corrections)
