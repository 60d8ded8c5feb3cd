"""Shares of a sum of products of two unit vectors: one party knows every left one, the other every right one.

For each record j the picker has a row a_j, the planter a column b_j, and both end with additive shares (modulo 2^16 or
2^32) of the table Σ_j e_{a_j} ⊗ e_{b_j}: how often each pair of row and column occurs. Nothing else is revealed.

Each record takes a tree of all-but-one transfers (`punctured_trees`) with one leaf per row: the planter has every row's
seed, the picker all but that of a_j. A seed stretches to a row r_j[p] of random words (`pseudorandom_row_sums`).

    planter → picker   d_j = e_{b_j} + Σ_p r_j[p]             one row of words per record
    picker's share     r_j[p] for p ≠ a_j;  d_j − Σ_{p≠a_j} r_j[p] = r_j[a_j] + e_{b_j} for p = a_j
    planter's share    −r_j[p]

In the place of e_{b_j} the planter may put any row of words (`plant_rows`): then both share the sum of the rows by a_j.

Both add up their shares over all records as they go; nothing of size records × rows × columns is ever stored.

The extension of "vector OLE by punctured trees" (Schoppmann, Gascón, Reichert, Raykova, CCS 2019) from a scalar to a
whole row. Cost of a record: ⌈log₂ rows⌉ transfers, one row of words, and for each party rows · columns / 8 (or / 4)
calls of AES. Semi-honest; the numbers of records, rows and columns are public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.hashing import BLOCK_BYTES
from masquerade.crypto.one_of_n import as_indices
from masquerade.crypto.pseudorandom_row_sums import RowSums, Word, Words
from masquerade.crypto.punctured_trees import TreeReceiver, TreeSender
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import ParameterError

Labels = NDArray[np.uint64]

_BATCH_BYTES = 1 << 21  # seeds and sums of the records of one message
_PLACES = 2  # batches in flight: the picker processes one while the planter makes the next


def batch_size(rows: int, columns: int) -> int:
    """Return how many records go into one message, so that memory stays bounded."""
    return max(1, _BATCH_BYTES // (BLOCK_BYTES * rows + 4 * columns))


class UnitPlanter:
    """The side that knows the columns. `session` is the same text on both sides, unique to one table."""

    def __init__(
        self, session: bytes, transfers: TransferSender, rows: int, columns: int, word: Word
    ) -> None:
        self._trees = [TreeSender(session + b"/%d" % place, transfers) for place in range(_PLACES)]
        self._rows, self._columns, self._word = rows, columns, word
        self._sums = RowSums(session, rows, columns, word)
        self._turn = 0

    def plant(self, message: bytes, chosen: Labels) -> tuple[bytes, bytes]:
        """Add records with these columns (`columns` itself means none); return the trees and one row per record."""
        wanted = as_indices(chosen, self._columns + 1).astype(np.intp)
        trees, rows = self._masks(message, len(wanted))
        inside = np.flatnonzero(wanted < self._columns)
        rows[inside, wanted[inside]] += 1
        return trees, rows.tobytes()

    def plant_rows(self, message: bytes, own: Words) -> tuple[bytes, bytes]:
        """Add records with these rows, words[records, columns]; return the trees and one row per record."""
        trees, rows = self._masks(message, len(own))
        return trees, (rows + own).tobytes()

    def _masks(self, message: bytes, count: int) -> tuple[bytes, Words]:
        seeds, trees = self._trees[self._turn].plant(message, count, self._rows)
        self._turn = (self._turn + 1) % _PLACES
        return trees, self._sums.add(seeds)

    def share(self) -> Words:
        """Return this side's share of the table, [rows, columns]."""
        return np.asarray(np.zeros((), self._word) - self._sums.total())


class UnitPicker:
    """The side that knows the rows."""

    def __init__(
        self, session: bytes, transfers: TransferReceiver, rows: int, columns: int, word: Word
    ) -> None:
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
        # The stretched zero is at the hole in both sums, and cancels.
        np.add.at(self._corrections, wanted.astype(np.intp), told - self._sums.add(seeds))

    def share(self) -> Words:
        """Return this side's share of the table, [rows, columns]."""
        if self._asked:
            raise ParameterError("the answer to some records is missing")
        return np.asarray(self._sums.total() + self._corrections)
