"""An oblivious key-value store: an array in which every item finds its value, and which shows nothing of the items.

    value(x) = P[h₁(x)] ⊕ P[h₂(x)] ⊕ P[h₃(x)] ⊕ ⟨dense bits of x, the 64 last slots⟩

Garimella, Pinkas, Rosulek, Trieu, Yanai, "Oblivious Key-Value Stores" (CRYPTO 2021), with three hashes, one into each
third of the sparse slots, and the sizes of Raghuraman, Rindal, "Blazing Fast PSI" (CCS 2022). An item that is alone
in a slot can be set last, whatever the others are: so items are peeled off one after the other, and set in the
opposite order (`peeling`). The few that do not peel are solved for with the help of the dense slots.

A linear map of the array is a linear map of every value, which transfer extension relies on (`oblivious_prf`). If the
values are uniform and unset slots are filled with random words, the array is uniform, whatever the items are.

Items are 128-bit digests under a key of the session (`items`): nobody who chooses identifiers knows where they lie.
Encoding fails with a probability below 2⁻⁴⁰. Everything is done on whole arrays.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, TweakedHash, as_blocks
from masquerade.engine import distinct_values, value_counts, weighted_counts
from masquerade.errors import Bug, ParameterError

# --- items --------------------------------------------------------------------------------------------------
# Identifiers as fixed-length items under a key of the session, and their division into buckets.
#
# An item is the 128-bit digest of an identifier (BLAKE2b with the session's key). All further hashes of it
# are made on whole arrays. Large sets are divided by a hash of the items, so that a bucket at a time fits
# into memory and cache; all buckets have one capacity, which says nothing of the items.

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
            bucket[start : start + _BUCKET] = ((words >> np.uint64(32)) * np.uint64(self.count)) >> np.uint64(32)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self.count + 1))
        return [order[start:end] for start, end in pairwise(ends)]

    def divide_own(self, items: Blocks, family: TweakedHash) -> list[NDArray[np.intp]]:
        """Divide the set that the buckets are for."""
        parts = self.divide(items, family)
        if any(len(part) > self.capacity for part in parts):
            raise Bug("a bucket of identifiers overflowed; this happens once in 2^40 sessions: start another")
        return parts


# --- peeling ------------------------------------------------------------------------------------------------
# Solve for the slots of a key-value store: peel off items that are alone in a slot, and solve for the rest.

_MOST_CORE = 4096  # items that do not peel; a store of the right size leaves a handful


def peel(sparse: Sequence[Places], third: int) -> tuple[list[tuple[Places, Places]], Places]:
    """Return the rounds of peeling, each the items and a slot that each of them has to itself then, and the rest.

    `sparse` has each item's slot in each third.
    """
    n = len(sparse[0])
    within = [places - number * third for number, places in enumerate(sparse)]
    degree = np.concatenate([value_counts(places, third) for places in within])
    # The sum of a slot's items, which is the only one in the end; exact, as all sums are below 2^53.
    numbers = np.arange(n, dtype=np.float64)
    total = np.concatenate([weighted_counts(places, numbers, third) for places in within]).astype(np.int64)
    owner: Places = np.full(n, -1, np.intp)  # the slot by which an item was peeled
    last: Places = np.empty(3 * third, np.intp)
    rounds: list[tuple[Places, Places]] = []
    alone = np.flatnonzero(degree == 1)
    while alone.size:
        items = total[alone]
        owner[items] = alone
        first = owner[items] == alone  # an item may be alone in several of its slots
        items, alone = items[first], alone[first]
        rounds.append((items, alone))
        touched = np.concatenate([places[items] for places in sparse])
        np.subtract.at(degree, touched, 1)
        np.subtract.at(total, touched, np.tile(items, len(sparse)))
        alone = touched[degree[touched] == 1]
        last[alone] = np.arange(alone.size)  # each slot once, without sorting
        alone = alone[last[alone] == np.arange(alone.size)]
    return rounds, np.flatnonzero(owner < 0)


def solve(store: Words, sparse: Sequence[Places], dense: Words, values: Words, first_dense: int) -> None:
    """Set slots so that each item of the core finds its value; Gaussian elimination over the bits of long integers.

    The dense slots follow `first_dense`, and are the lowest unknowns: they are solved for last, and set first.
    """
    if len(dense) > _MOST_CORE:
        raise Bug(f"a key-value store left {len(dense)} items unpeeled; its size does not fit")
    slots, _ = distinct_values(np.concatenate(list(sparse)))
    numbers = [np.searchsorted(slots, places) + 64 for places in sparse]
    pivots: dict[int, tuple[int, int]] = {}
    for item in range(len(dense)):
        row, value = int(dense[item]), int(values[item])
        for places in numbers:
            row ^= 1 << int(places[item])
        while row:
            top = row.bit_length() - 1
            if top not in pivots:
                pivots[top] = row, value
                break
            row, value = row ^ pivots[top][0], value ^ pivots[top][1]
        else:
            if value:
                raise Bug("a key-value store has no solution; this happens once in 2^40 sessions: start another")
    for top in sorted(pivots):  # an equation has lower unknowns only, which are set by now or free
        row, value = pivots[top]
        rest = row ^ (1 << top)
        while rest:
            low = rest.bit_length() - 1
            value ^= int(store[_slot(low, slots, first_dense)])
            rest ^= 1 << low
        store[_slot(top, slots, first_dense)] = value


def _slot(unknown: int, slots: Places, first_dense: int) -> int:
    return first_dense + unknown if unknown < 64 else int(slots[unknown - 64])


# --- key value store ----------------------------------------------------------------------------------------

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

DENSE = 64
_ITEMS_AT_A_TIME = 1 << 15  # items at a time: what is gathered stays in the cache
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class SlotPositions:
    """Where items lie: one sparse slot in each third, and the dense slots by a bit each."""

    sparse: tuple[Places, Places, Places]
    dense: Words

    def __len__(self) -> int:
        return len(self.dense)


@dataclass(frozen=True)
class StoreLayout:
    """The layout of a store for up to `capacity` items: three thirds, then the dense slots."""

    capacity: int

    @property
    def third(self) -> int:
        """Slots in each third."""
        return max(16, math.ceil(expansion(self.capacity) * self.capacity / 3))

    @property
    def sparse(self) -> int:
        """All sparse slots."""
        return 3 * self.third

    @property
    def size(self) -> int:
        """All slots."""
        return self.sparse + DENSE

    def positions(self, items: Blocks, family: TweakedHash, tweak: int) -> SlotPositions:
        """Hash items to their slots; a `tweak`, and the one after it, for each use of the same items."""
        first, second = (family.hash(items, np.full(len(items), each, np.uint64)) for each in (tweak, tweak + 1))
        third = np.uint64(self.third)
        halves = (first[:, 0] & _LOW, first[:, 0] >> _HALF, first[:, 1] & _LOW)
        places = [((half * third) >> _HALF).astype(np.intp) + number * self.third for number, half in enumerate(halves)]
        return SlotPositions((places[0], places[1], places[2]), np.ascontiguousarray(second[:, 0]))


def expansion(n: int) -> float:
    """Return how many sparse slots an item takes: the fit of Raghuraman and Rindal for 40 bits, and a margin."""
    return 1.223 + 49.2 / (4.144 * math.pow(max(n, 64), 0.55)) + 0.03


def encode(shape: StoreLayout, at: SlotPositions, values: Words, filling: Words) -> Words:
    """Return the store in which each item has its value; slots that no item needs are those of `filling`.

    Items are different, or have the same value. ParameterError if there are too many.
    """
    if len(at) > shape.capacity or filling.shape != (shape.size,):
        raise ParameterError(f"a store for {shape.capacity} items got {len(at)}")
    store = filling.copy()
    rounds, core = peel(at.sparse, shape.third)
    if core.size:
        solve(store, [places[core] for places in at.sparse], at.dense[core], values[core], shape.sparse)
    wanted = values ^ selected(store[shape.sparse :], at.dense)
    one, two, three = at.sparse
    for items, slots in reversed(rounds):
        store[slots] ^= wanted[items] ^ store[one[items]] ^ store[two[items]] ^ store[three[items]]
    return store


def decode(shape: StoreLayout, store: Words, at: SlotPositions) -> Words:
    """Return the value of each item; slots may be words or rows of words."""
    if len(store) < shape.size:
        raise ParameterError(f"a store of {shape.size} slots got {len(store)}")
    out = np.empty((len(at), *store.shape[1:]), np.uint64)
    tables = _tables(store[shape.sparse : shape.size])
    for start in range(0, len(at), _ITEMS_AT_A_TIME):
        part = slice(start, start + _ITEMS_AT_A_TIME)
        found = np.take(store, at.sparse[0][part], axis=0, mode="clip")
        found ^= np.take(store, at.sparse[1][part], axis=0, mode="clip")
        found ^= np.take(store, at.sparse[2][part], axis=0, mode="clip")
        _add_selected(found, tables, at.dense[part])
        out[part] = found
    return out


def selected(rows: Words, bits: Words) -> Words:
    """Return, for each word of bits, the XOR of those of the 64 rows whose bit is set."""
    out = np.zeros((len(bits), *rows.shape[1:]), np.uint64)
    tables = _tables(rows)
    for start in range(0, len(bits), _ITEMS_AT_A_TIME):
        _add_selected(out[start : start + _ITEMS_AT_A_TIME], tables, bits[start : start + _ITEMS_AT_A_TIME])
    return out


def _tables(rows: Words) -> list[Words]:
    """For each eight rows, the XOR of every subset of them."""
    tables = []
    for at in range(0, DENSE, 8):
        table = np.zeros((256, *rows.shape[1:]), np.uint64)
        for bit in range(8):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ rows[at + bit]
        tables.append(table)
    return tables


def _add_selected(out: Words, tables: list[Words], bits: Words) -> None:
    octets = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, 8)
    for number, table in enumerate(tables):
        out ^= np.take(table, octets[:, number], axis=0, mode="clip")


# --- zero sharing -------------------------------------------------------------------------------------------
# Shares of zero for every item that all parties of a circle have: each pair's masks cancel.
#
#     share_i(x) = XOR over the other parties j of AES_k(x), k the key of i and j
#
# Kolesnikov, Matania, Pinkas, Rosulek, Trieu, "Practical Multi-Party Private Set Intersection" (CCS 2017).
# For an item of all parties the shares XOR to 0; whoever lacks a key of two of them cannot tell the share
# of either from a random word. Keys are agreed by X25519 (`secure_sum.MaskKey`).


def zero_shares(items: Blocks, keys: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return this party's share for each item, given its keys with the others."""
    data = as_blocks(items).data.cast("B")
    total = np.zeros(len(items), np.uint64)
    for key in keys:
        if len(items):
            masks = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)  # noqa: S305 - each item once
            total ^= np.frombuffer(masks, np.uint64).reshape(-1, 2)[:, 0]
    return total
