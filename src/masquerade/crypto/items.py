"""Identifiers as fixed-length items under a key of the session, and their division into buckets.

An item is the 128-bit digest of an identifier (BLAKE2b with the session's key). All further hashes of it are made on
whole arrays. Large sets are divided by a hash of the items, so that a bucket at a time fits into memory and cache; all
buckets have one capacity, which says nothing of the items.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, TweakedHash
from masquerade.errors import Bug

BUCKET_TWEAK = 0  # of the family of hashes that items are hashed further with; 1 to 5 are places and values
_BUCKET = 1 << 18  # items in a bucket, about
_STEP = 1 << 16


def digest_items(identifiers: Sequence[bytes], key: bytes) -> Blocks:
    """Return the item of each identifier; `key` has up to 64 bytes, and is not known before the lists are made."""
    keyed = hashlib.blake2b(key=key, digest_size=BLOCK_BYTES)
    found = np.empty((len(identifiers), 2), np.uint64)
    for start in range(0, len(identifiers), _STEP):
        digests = []
        for each in identifiers[start : start + _STEP]:
            state = keyed.copy()
            state.update(each)
            digests.append(state.digest())
        found[start : start + _STEP] = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    return found


@dataclass(frozen=True)
class Buckets:
    """The division of a set of up to `most` items; others may be divided in the same way, however many they are."""

    most: int

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return max(1, -(-self.most // _BUCKET))

    @property
    def capacity(self) -> int:
        """Items that a bucket can have: more come with a probability below 2⁻⁴⁰."""
        if self.count == 1:
            return self.most
        mean = self.most / self.count
        # Chernoff: more than mean + d in one bucket with probability exp(−d² / (2·(mean + d/3))), and count buckets.
        bits = math.log(2) * (41 + math.log2(self.count))
        return min(self.most, math.ceil(mean + bits / 3 + math.sqrt(bits * bits / 9 + 2 * mean * bits)))

    def divide(self, items: Blocks, family: TweakedHash) -> list[NDArray[np.intp]]:
        """Return the numbers of the items in each bucket."""
        if self.count == 1:
            return [np.arange(len(items))]
        bucket = np.empty(len(items), np.uint16 if self.count < 1 << 16 else np.uint32)
        for start in range(0, len(items), _BUCKET):
            part = items[start : start + _BUCKET]
            words = family.hash(part, np.full(len(part), BUCKET_TWEAK, np.uint64))[:, 0]
            bucket[start : start + _BUCKET] = ((words >> np.uint64(32)) * np.uint64(self.count)) >> np.uint64(
                32
            )
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self.count + 1))
        return [order[start:end] for start, end in pairwise(ends)]

    def divide_own(self, items: Blocks, family: TweakedHash) -> list[NDArray[np.intp]]:
        """Divide the set that the buckets are for."""
        parts = self.divide(items, family)
        if any(len(part) > self.capacity for part in parts):
            raise Bug("a bucket of identifiers overflowed; this happens once in 2^40 sessions: start another")
        return parts
