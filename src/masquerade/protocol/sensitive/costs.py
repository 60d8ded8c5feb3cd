"""The cost of a joint histogram by transfers and by encryption: a model in seconds, from public figures alone.

The constants were measured on one core of the machine of `docs/crypto.md`, without gmpy2. Where both parties work at
the same time they are those of the busier one; what matters is their ratio. Both parties get the same figures,
and swapping the parties changes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.crypto import LANES, Slots, depth_for, stages_of
from masquerade.protocol.sensitive.histogram import MOST_CELLS, Bounds
from masquerade.protocol.sensitive.sorted_histogram import BATCH, Sorting

KEY_BITS = 2048
PLAINTEXT_BITS = KEY_BITS - 1

_BLOCK = 6.5e-9  # expanding and adding one block of 16 bytes
_LEAF = 80e-9  # growing one leaf
_WORD = 30e-9  # one word of a masked row, made, sent and added
_SORTED_WORD = 6e-9  # the same where a record has few leaves
_SWITCH = 0.17e-6  # one switch of a network
_VECTOR, _VECTOR_LEAF = 2e-6, 0.17e-6  # one unit vector at a shared place, and each leaf of it
_WAIT = 1e-3  # one message that waits for another
_ENTRY, _ENTRY_BYTE = 14e-9, 4.5e-9  # one entry of a look-up table, and each byte of it
_ENTRY_BIT = 11.5e-9  # one entry of a single bit
_AND = 0.3e-6  # one AND, garbled and evaluated
_ENCRYPT = 2.9e-3  # one ciphertext of a unit
_RETURN = 0.1  # one that is masked, sent back and decrypted
_KEY = 1.3  # a key, and both parties' tables for it


@dataclass(frozen=True)
class Packing:
    """How one party's labels become slots of ciphertexts."""

    encryptor: int  # whose labels are slots; the other's are groups, whose ciphertexts are added up
    slots: int  # of a ciphertext
    pieces: int  # ciphertexts per record

    @staticmethod
    def of(bounds: Bounds, encryptor: int) -> Packing:
        """Use as few ciphertexts as possible, filled as evenly as possible: fewer empty slots in the circuits."""
        labels = bounds.labels[encryptor]
        pieces = -(-labels // Slots.most(bounds.records.bit_length(), PLAINTEXT_BITS))
        return Packing(encryptor, -(-labels // pieces), pieces)


def packing_for(bounds: Bounds) -> Packing:
    """Choose the encryptor that makes it cheaper, party 0 on a tie."""
    choices = (Packing.of(bounds, party) for party in (0, 1))
    return min(choices, key=lambda each: encrypted_seconds(bounds, each))  # min takes the first on a tie


def sorting_for(bounds: Bounds, sorters: Sequence[int] = (0, 1)) -> Sorting | None:
    """Choose the sorter that makes it cheaper, the first on a tie; None where it is cheaper not to sort."""
    choices = (Sorting.of(bounds, party) for party in sorters)
    seconds = {
        sorting: sorted_count_seconds(bounds, sorting)
        for sorting in choices
        if sorting.rows(bounds.records) * bounds.labels[1 - sorting.sorter] <= MOST_CELLS
    }
    best = min(seconds, key=lambda each: seconds[each], default=None)  # min takes the first on a tie
    return best if best and seconds[best] < transferred_count_seconds(bounds) else None


def transferred_count_seconds(bounds: Bounds) -> float:
    """Estimate the cost of shares of the table by transfers, unsorted: a row for each record and label."""
    rows, columns = bounds.labels[bounds.receiver], bounds.labels[1 - bounds.receiver]
    return bounds.records * ((rows + 1) * _row(bounds, columns) + columns * _WORD)


def sorted_count_seconds(bounds: Bounds, sorting: Sorting) -> float:
    """Estimate the cost of shares of the table by records that are sorted first, and of its rows beyond the labels."""
    columns, blocks = bounds.labels[1 - sorting.sorter], sorting.blocks(bounds.records)
    depth, leaves = depth_for(bounds.records), -(-(columns + 1) // LANES)
    sort = (stages_of(depth) << (depth - 1)) * _SWITCH
    wait = (2 * depth_for(leaves) + 10) * (1 + bounds.records // BATCH) * _WAIT
    record = _VECTOR + leaves * _VECTOR_LEAF + sorting.leaves * _row(bounds, columns) + columns * _SORTED_WORD
    joined = 2 * blocks * ((blocks + 1) * _row(bounds, columns) + columns * _WORD)
    more = max(0, sorting.rows(bounds.records) - bounds.labels[sorting.sorter])
    return sort + wait + bounds.records * (record + more * _entry(bounds)) + joined


def _entry(bounds: Bounds) -> float:
    """Estimate the cost of one entry of a look-up table."""
    return _ENTRY + bounds.word.itemsize * _ENTRY_BYTE


def _row(bounds: Bounds, columns: int) -> float:
    """Estimate the cost of one leaf and its row."""
    return -(-columns // (16 // bounds.word.itemsize)) * _BLOCK + _LEAF


def encrypted_count_seconds(bounds: Bounds, packing: Packing) -> float:
    """Estimate the cost of masked sums of all groups by encryption."""
    groups = bounds.labels[1 - packing.encryptor]
    return packing.pieces * (bounds.records * _ENCRYPT + groups * _RETURN) + _KEY


def transferred_seconds(bounds: Bounds) -> float:
    """Estimate the cost of one bit per record by transfers: count, look counts up, compare each."""
    each = max(bounds.labels) * _entry(bounds) + bounds.width * _AND
    sorting = sorting_for(bounds)
    count = transferred_count_seconds(bounds) if sorting is None else sorted_count_seconds(bounds, sorting)
    return count + bounds.records * each


def encrypted_seconds(bounds: Bounds, packing: Packing) -> float:
    """Estimate the cost of one bit per record by encryption: count, compare every cell, look bits up."""
    cells = bounds.labels[1 - packing.encryptor] * packing.pieces * packing.slots
    look_up = bounds.records * max(bounds.labels) * _ENTRY_BIT
    return encrypted_count_seconds(bounds, packing) + 2 * cells * bounds.width * _AND + look_up
