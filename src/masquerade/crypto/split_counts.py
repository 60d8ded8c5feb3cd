"""Shares of how often each value occurs in each part of public groups: values are one party's and stay, parts vary.

For each record j the receiver has a value v_j, once and for all. Whenever the sender splits public groups of records,
it has a part c_j of each record's group, and both end with additive shares (modulo 2^16 or 2^32), for each group, part
and value, of how many records have them. Nothing else is revealed.

Each record takes one tree of all-but-one transfers (`punctured_trees`) with a leaf per value, at the beginning: the
sender has every value's seed, the receiver all but that of v_j. For every split a seed expands to a fresh row r_j[v]
of random words, one for each part.

    sender → receiver   d_j = e_{c_j} + Σ_v r_j[v]             one row of words per record
    receiver's share     r_j[v] for v ≠ v_j;  d_j − Σ_{v≠v_j} r_j[v] = r_j[v_j] + e_{c_j} for v = v_j
    sender's share    −r_j[v]

Both add up their shares over the records of each group, which they know; d_j is masked by r_j[v_j], which the receiver
cannot make, and which serves no other split. `unit_products` does the same for parts of nowhere in particular: it needs
a word per record and label, and new transfers each time.

    G_c(s) = π(s ⊕ (c ‖ c)) ⊞ s   as in `punctured_trees.RowSums`; c goes on counting from split to split

Cost of a record: ⌈log₂ values⌉ transfers once; for a split one word per part, and for each party one call of AES per
value and 8 (or 4) parts. Memory: 16 bytes per record and value. Semi-honest; records, values, groups and the number of
parts are public.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto.garble import Labels
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, derive_key
from masquerade.crypto.one_of_n import as_indices
from masquerade.crypto.punctured_trees import TreeReceiver, TreeSender, Words, WordType
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import BadMessage, ParameterError

Rows = NDArray[np.integer]

RECORDS_AT_ONCE = 1 << 15  # whose trees travel in one message


def word_of_counts(most: int) -> WordType:
    """Return the narrowest word type that holds every count up to `most`."""
    if most >= 1 << 32:
        raise ParameterError(f"counts must stay below 2^32. Got up to {most} instead.")
    return np.dtype(np.uint16) if most < 1 << 16 else np.dtype(np.uint32)


class _Expansion:
    """What both sides do: expand each value's seeds, and add up by group."""

    def __init__(self, session: bytes, values: int, records: int) -> None:
        key = derive_key(session, b"split-counts")
        self._permute = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation, no mode
        self._values, self._records, self._word = values, records, word_of_counts(records)
        self._seeds = np.zeros((values, 0, 2), np.uint64)
        self._counter = 0

    def _keep(self, seeds: Blocks) -> None:
        self._seeds = np.concatenate((self._seeds, seeds), axis=1)

    def _sums(self, rows: Rows, starts: Rows, n_parts: int) -> tuple[Words, Words]:
        """Return the sums over each group's records, [groups, parts, values], and over each record's values."""
        if self._seeds.shape[1] != self._records:
            raise ParameterError("trees of some records are missing")
        blocks = -(-n_parts // (BLOCK_BYTES // self._word.itemsize))
        numbers = range(self._counter + 1, self._counter + 1 + blocks)
        self._counter += blocks
        by_group = np.empty((len(starts), n_parts, self._values), self._word)
        by_record = np.zeros((len(rows), n_parts), self._word)
        for value, seeds in enumerate(self._seeds):
            words = self._expanded(np.ascontiguousarray(seeds[rows]), numbers)[:, :n_parts]
            by_record += words
            by_group[:, :, value] = np.add.reduceat(words, starts, axis=0)
        return by_group, by_record

    def _expanded(self, seeds: Blocks, numbers: range) -> Words:
        lanes = seeds.view(self._word)
        made = [self._permute.update((seeds ^ np.uint64(number)).data.cast("B")) for number in numbers]
        words = [np.frombuffer(each, self._word).reshape(lanes.shape) + lanes for each in made]
        return words[0] if len(words) == 1 else np.concatenate(words, axis=1)


class ValueSender(_Expansion):
    """The side that splits groups. `session` is the same text on both sides, unique to one column of values."""

    def __init__(self, session: bytes, transfers: TransferSender, values: int, records: int) -> None:
        super().__init__(session, values, records)
        self._trees = TreeSender(session, transfers)

    def answer(self, message: bytes, count: int) -> bytes:
        """Return the trees of the next `count` records."""
        seeds, trees = self._trees.answer(message, count, self._values)
        self._keep(seeds)
        return trees

    def split(self, rows: Rows, starts: Rows, parts: Rows, n_parts: int) -> tuple[bytes, Words]:
        """Return the message and this side's shares, [groups, parts, values], of a split.

        `rows` are the records, group by group, `starts` where each group begins; a part of `n_parts` counts nowhere.
        """
        wanted = as_indices(parts.astype(np.uint64), n_parts + 1).astype(np.intp)
        by_group, told = self._sums(rows, starts, n_parts)
        inside = np.flatnonzero(wanted < n_parts)
        told[inside, wanted[inside]] += 1
        return told.tobytes(), np.asarray(np.zeros((), self._word) - by_group)


class ValueReceiver(_Expansion):
    """The side that has the values."""

    def __init__(self, session: bytes, transfers: TransferReceiver, values: int, records: int) -> None:
        super().__init__(session, values, records)
        self._trees = TreeReceiver(session, transfers)
        self._chosen: Labels = np.zeros(0, np.uint64)

    def ask(self, chosen: Labels) -> bytes:
        """Return the message for the next records, with these values."""
        wanted = as_indices(chosen, self._values)
        self._chosen = np.concatenate((self._chosen, wanted))
        return self._trees.ask(wanted, self._values)

    def receive(self, trees: bytes) -> None:
        """Process the answer."""
        self._keep(self._trees.receive(trees))

    def split(self, message: bytes, rows: Rows, starts: Rows, n_parts: int) -> Words:
        """Return this side's shares of a split, [groups, parts, values]."""
        expected = len(rows) * n_parts * self._word.itemsize
        if len(message) != expected:
            raise BadMessage(f"the parts of {len(rows)} records take {expected} bytes. Got {len(message)} instead.")
        by_group, by_record = self._sums(rows, starts, n_parts)
        # The expanded zero is at the hole in both sums, and cancels.
        corrections = np.frombuffer(message, self._word).reshape(by_record.shape) - by_record
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
        places = group * self._values + self._chosen[rows].astype(np.intp)
        order = np.argsort(places, kind="stable")
        found = places[order]
        first = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
        sums = np.add.reduceat(corrections[order], first, axis=0)
        by_group[found[first] // self._values, :, found[first] % self._values] += sums
        return by_group


def tree_batches(records: int) -> Iterator[slice]:
    """Yield the records whose trees travel together, the same on both sides."""
    for at in range(0, records, RECORDS_AT_ONCE):
        yield slice(at, min(at + RECORDS_AT_ONCE, records))
