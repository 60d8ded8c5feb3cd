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

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.hashing import Blocks, TweakedHash
from masquerade.crypto.peeling import peel, solve
from masquerade.errors import ParameterError

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

DENSE = 64
_STEP = 1 << 15  # items at a time: what is gathered stays in the cache
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Positions:
    """Where items lie: one sparse slot in each third, and the dense slots by a bit each."""

    sparse: tuple[Places, Places, Places]
    dense: Words

    def __len__(self) -> int:
        return len(self.dense)


@dataclass(frozen=True)
class Shape:
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

    def positions(self, items: Blocks, family: TweakedHash, tweak: int) -> Positions:
        """Hash items to their slots; a `tweak`, and the one after it, for each use of the same items."""
        first = family.hash(items, _same(tweak, len(items)))
        second = family.hash(items, _same(tweak + 1, len(items)))
        third = np.uint64(self.third)
        halves = (first[:, 0] & _LOW, first[:, 0] >> _HALF, first[:, 1] & _LOW)
        places = [
            ((half * third) >> _HALF).astype(np.intp) + number * self.third
            for number, half in enumerate(halves)
        ]
        return Positions((places[0], places[1], places[2]), np.ascontiguousarray(second[:, 0]))


def expansion(n: int) -> float:
    """Return how many sparse slots an item takes: the fit of Raghuraman and Rindal for 40 bits, and a margin."""
    return 1.223 + 49.2 / (4.144 * math.pow(max(n, 64), 0.55)) + 0.03


def encode(shape: Shape, at: Positions, values: Words, filling: Words) -> Words:
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


def decode(shape: Shape, store: Words, at: Positions) -> Words:
    """Return the value of each item; slots may be words or rows of words."""
    if len(store) < shape.size:
        raise ParameterError(f"a store of {shape.size} slots got {len(store)}")
    out = np.empty((len(at), *store.shape[1:]), np.uint64)
    tables = _tables(store[shape.sparse : shape.size])
    for start in range(0, len(at), _STEP):
        part = slice(start, start + _STEP)
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
    for start in range(0, len(bits), _STEP):
        _add_selected(out[start : start + _STEP], tables, bits[start : start + _STEP])
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


def _same(tweak: int, count: int) -> Words:
    return np.full(count, tweak, np.uint64)
