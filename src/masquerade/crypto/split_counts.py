"""Shares of how often each value occurs in each part of public groups: one party has the values, the other the parts.

Each record j of some public groups has a value v_j, which the sender knows, and a part c_j of its group, which the
receiver chooses. Both end with additive shares, for each group, part and value, of how many records have them (modulo
2^16 or 2^32). Nothing else is revealed.

Each record takes a tree of all-but-one transfers (`punctured_trees`) with a leaf per part: the sender has every part's
seed, the receiver all but that of c_j. A seed expands to a row r_j[p] of random words, one for each value.

    sender → receiver   d_j = e_{v_j} + Σ_p r_j[p]             one row of words per record
    receiver's share     r_j[p] for p ≠ c_j;  d_j − Σ_{p≠c_j} r_j[p] = r_j[c_j] + e_{v_j} for p = c_j
    sender's share    −r_j[p]

So whatever the receiver does, a record is in one part, once: it has nothing to choose but the hole of a whole tree, and
the transfers are checked. A tree that is not whole would have holes at no leaf, with which the receiver had all masks.

The rows end with a **tag**, modulo 2^64: of a record with value v it is χ_v + χ, secret weights of the sender, fresh
for these groups. So both also share, for each group and part, Σ_v χ_v · (how many have v) + χ · (how many there are):
whoever has other counts judged than those that came out would have to know the weights (`garble`, `Garbling.weigh`).

    G_c(s) = π(s ⊕ (c ‖ c)) ⊞ s   as in `punctured_trees.RowSums`; the block after the words' is the tag's

Cost of a record: ⌈log₂ parts⌉ transfers, one row of a word per value and 8 bytes, and for each party and part one call
of AES for 8 (or 4) values, and one more. Private against a sender that follows the protocol; records, groups, values
and the number of parts are public.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto.garble import Labels
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, derive_key, random_bytes
from masquerade.crypto.one_of_n import as_indices
from masquerade.crypto.punctured_trees import TreeReceiver, TreeSender, Words, WordType
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import BadMessage, ParameterError

Rows = NDArray[np.integer]
Tags = NDArray[np.uint64]

_RECORDS_AT_ONCE = 1 << 15  # whose trees travel in one message
_SEED_BYTES = 1 << 25  # of their leaves, at most


def word_of_counts(most: int) -> WordType:
    """Return the narrowest word type that holds every count up to `most`."""
    if most >= 1 << 32:
        raise ParameterError(f"counts must stay below 2^32. Got up to {most} instead.")
    return np.dtype(np.uint16) if most < 1 << 16 else np.dtype(np.uint32)


class _SplitGroups:
    """What both sides do: expand each part's seeds, and add up by group. `sizes` are those of the groups, in order."""

    def __init__(self, session: bytes, values: int, sizes: Rows, leaves: int) -> None:
        if leaves < 2 or leaves & (leaves - 1):
            raise ParameterError(f"a tree must be whole: 2, 4, 8, … leaves. Got {leaves} instead.")
        key = derive_key(session, b"split-counts")
        self._permute = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - a permutation, no mode
        self._values, self._leaves, self._word = values, leaves, word_of_counts(int(sizes.max()))
        blocks = -(-values // (BLOCK_BYTES // self._word.itemsize)) + 1
        self._counters = np.arange(1, blocks + 1, dtype=np.uint64)[:, None, None]
        self._group = np.repeat(np.arange(len(sizes)), sizes)
        self._done = 0  # records
        self._counts = np.zeros((len(sizes), leaves, values), self._word)
        self._tags = np.zeros((len(sizes), leaves), np.uint64)

    def _take(self, count: int) -> Rows:
        """Return the groups of the next records."""
        groups = self._group[self._done : self._done + count]
        if len(groups) != count:
            raise ParameterError(f"the groups have {len(self._group)} records, and no more")
        self._done += count
        return groups

    def _add(self, seeds: Blocks, groups: Rows) -> tuple[Words, Tags]:
        """Add up the rows of these trees, uint64[leaves, records, 2], by group; return their sums by record."""
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        found = groups[starts]
        by_record = np.zeros((len(groups), self._values), self._word)
        tag_by_record = np.zeros(len(groups), np.uint64)
        for leaf, each in enumerate(seeds):
            words, tags = self._expanded(np.ascontiguousarray(each))
            by_record += words
            tag_by_record += tags
            self._counts[found, leaf] += np.add.reduceat(words, starts, axis=0, dtype=self._word)
            self._tags[found, leaf] += np.add.reduceat(tags, starts)
        return by_record, tag_by_record

    def _expanded(self, seeds: Blocks) -> tuple[Words, Tags]:
        made = np.frombuffer(self._permute.update((seeds ^ self._counters).data.cast("B")), np.uint64)
        blocks = made.reshape(-1, *seeds.shape)
        words = blocks[:-1].view(self._word) + seeds.view(self._word)
        return words.transpose(1, 0, 2).reshape(len(seeds), -1)[:, : self._values], blocks[-1, :, 0] + seeds[:, 0]


class ValueSender(_SplitGroups):
    """The side that has the values. `session` is the same text on both sides, unique to these groups."""

    def __init__(self, session: bytes, transfers: TransferSender, values: int, sizes: Rows, leaves: int) -> None:
        super().__init__(session, values, sizes, leaves)
        self._trees = TreeSender(session, transfers)
        self.weights: Tags = np.frombuffer(random_bytes(8 * (values + 1)), np.uint64)  # of each value, and of them all

    def answer(self, message: bytes, values: Labels) -> tuple[bytes, bytes]:
        """Return the trees and the masked rows of the next records, which have these values."""
        wanted = as_indices(values, self._values).astype(np.intp)
        seeds, trees = self._trees.answer(message, len(wanted), self._leaves)
        rows, tags = self._add(seeds, self._take(len(wanted)))
        rows[np.arange(len(wanted)), wanted] += 1
        tags += self.weights[wanted] + self.weights[-1]
        return trees, rows.tobytes() + tags.tobytes()

    def share(self) -> tuple[Words, Tags]:
        """Return this side's shares: counts, [groups, leaves, values], and their tags, [groups, leaves]."""
        return np.negative(self._counts), np.negative(self._tags)


class PartReceiver(_SplitGroups):
    """The side that chooses each record's part."""

    def __init__(self, session: bytes, transfers: TransferReceiver, values: int, sizes: Rows, leaves: int) -> None:
        super().__init__(session, values, sizes, leaves)
        self._trees = TreeReceiver(session, transfers)
        self._chosen: Labels = np.zeros(0, np.uint64)

    def ask(self, parts: Labels) -> bytes:
        """Return the message for the next records, which go to these parts."""
        self._chosen = as_indices(parts, self._leaves)
        return self._trees.ask(self._chosen, self._leaves)

    def receive(self, trees: bytes, rows: bytes) -> None:
        """Process the answer."""
        count = len(self._chosen)
        middle = count * self._values * self._word.itemsize
        if len(rows) != middle + 8 * count:
            raise BadMessage(f"{count} masked rows take {middle + 8 * count} bytes. Got {len(rows)} instead.")
        groups = self._take(count)
        by_record, tag_by_record = self._add(self._trees.receive(trees), groups)
        # The expanded zero is at the hole in both sums, and cancels.
        words = np.frombuffer(rows, self._word, count * self._values).reshape(by_record.shape) - by_record
        tags = np.frombuffer(rows[middle:], np.uint64) - tag_by_record
        places = groups * self._leaves + self._chosen.astype(np.intp)
        order = np.argsort(places, kind="stable")
        starts = np.flatnonzero(np.diff(places[order], prepend=-1))
        found = places[order][starts]
        self._counts.reshape(-1, self._values)[found] += np.add.reduceat(words[order], starts, dtype=self._word)
        self._tags.reshape(-1)[found] += np.add.reduceat(tags[order], starts)

    def share(self) -> tuple[Words, Tags]:
        """Return this side's shares: counts, [groups, leaves, values], and their tags, [groups, leaves]."""
        return self._counts, self._tags


def tree_batches(records: int, leaves: int) -> Iterator[slice]:
    """Yield the records whose trees travel together, the same on both sides."""
    size = max(1, min(_RECORDS_AT_ONCE, _SEED_BYTES // (BLOCK_BYTES * leaves)))
    for at in range(0, records, size):
        yield slice(at, min(at + size, records))
