"""The cost of a joint histogram by transfers and by encryption: a model in seconds, from public figures alone.

The constants were measured on one core of the machine of `docs/crypto.md`, without gmpy2. Where both parties work at
the same time they are those of the busier one; what matters is their ratio. Both parties get the same figures,
and swapping the parties changes none.
"""

from __future__ import annotations

from dataclasses import dataclass

from masquerade.crypto.homomorphic import Slots
from masquerade.protocol.joint_histogram.histogram import Bounds

KEY_BITS = 2048
PLAINTEXT_BITS = KEY_BITS - 1

_BLOCK = 6.5e-9  # stretching and adding one block of 16 bytes
_LEAF = 80e-9  # growing one leaf
_WORD = 30e-9  # one word of a masked row, made, sent and added
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


def transferred_count_seconds(bounds: Bounds) -> float:
    """Estimate the cost of shares of the table by transfers."""
    rows, columns = bounds.labels[bounds.picker], bounds.labels[1 - bounds.picker]
    blocks = -(-columns // (16 // bounds.word.itemsize))
    return bounds.records * ((rows + 1) * (blocks * _BLOCK + _LEAF) + columns * _WORD)


def encrypted_count_seconds(bounds: Bounds, packing: Packing) -> float:
    """Estimate the cost of masked sums of all groups by encryption."""
    groups = bounds.labels[1 - packing.encryptor]
    return packing.pieces * (bounds.records * _ENCRYPT + groups * _RETURN) + _KEY


def transferred_seconds(bounds: Bounds) -> float:
    """Estimate the cost of one bit per record by transfers: count, look counts up, compare each."""
    entry = _ENTRY + bounds.word.itemsize * _ENTRY_BYTE
    each = max(bounds.labels) * entry + bounds.width * _AND
    return transferred_count_seconds(bounds) + bounds.records * each


def encrypted_seconds(bounds: Bounds, packing: Packing) -> float:
    """Estimate the cost of one bit per record by encryption: count, compare every cell, look bits up."""
    cells = bounds.labels[1 - packing.encryptor] * packing.pieces * packing.slots
    look_up = bounds.records * max(bounds.labels) * _ENTRY_BIT
    return encrypted_count_seconds(bounds, packing) + 2 * cells * bounds.width * _AND + look_up
