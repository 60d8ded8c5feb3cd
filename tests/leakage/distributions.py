"""Two worlds that a party must not tell apart: everything it sees, given its own input and coins, compared bit by bit.

In both worlds the party has the same input, the same coins and the same result; its peers have other data. What it
sees is repeated with fresh coins of its peers, and for every bit the two worlds' ones are counted. Besides single bits:
the exclusive or of any two, where there are few (a mask that is used twice), and whether any 16 bytes come twice (a
cipher that is not randomised). The test is Fisher's, exact for any number of repetitions, over all bits together at a
false alarm of 1e-9; and as all coins are on tapes, a run that passes passes always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import comb

import numpy as np
from numpy.typing import NDArray

from leakage.coins import Leak

FALSE_ALARM = 1e-9
_FEW = 64  # bits of which all pairs are looked at

Seen = Sequence[Mapping[str, bytes]]  # by repetition: what was seen, by name


def compare(one: Seen, other: Seen) -> None:
    """Raise Leak if the two worlds look different."""
    names = sorted(one[0])
    if any(sorted(each) != names for each in (*one, *other)):
        raise Leak("which messages are seen depends on the peers' data")
    columns = {name: (_bits(one, name), _bits(other, name)) for name in names}
    total = sum(first.shape[1] for first, _ in columns.values())
    for name, (first, second) in columns.items():
        _compare_columns(name, first, second, total)


def same_multiset(one: Sequence[object], other: Sequence[object], what: str) -> None:
    """Over all coins of the peers: exactly the same outcomes, equally often."""
    if sorted(map(repr, one)) != sorted(map(repr, other)):
        raise Leak(f"{what}: over all coins of the peer, the outcomes depend on its data")


def _bits(world: Seen, name: str) -> NDArray[np.uint8]:
    """One row a repetition: the bits, of few bits all pairs, and whether a block is repeated."""
    if len({len(each[name]) for each in world}) > 1:
        raise Leak(f"the length of {name} depends on coins")
    rows = np.array([np.frombuffer(each[name], np.uint8) for each in world], np.uint8)
    bits = np.unpackbits(rows.reshape(len(world), -1), axis=1)
    parts = [bits]
    if bits.shape[1] <= _FEW:
        left, right = np.triu_indices(bits.shape[1], 1)
        parts.append(bits[:, left] ^ bits[:, right])
    repeats = [_repeats(each[name]) for each in world]
    return np.concatenate([*parts, np.array(repeats, np.uint8)[:, None]], axis=1)


def _repeats(data: bytes) -> bool:
    blocks = [data[at : at + 16] for at in range(0, len(data) - 15, 16)]
    return len(set(blocks)) < len(blocks)


def _compare_columns(name: str, first: NDArray[np.uint8], second: NDArray[np.uint8], total: int) -> None:
    if first.shape[1] != second.shape[1]:
        raise Leak(f"the length of {name} depends on the peers' data")
    runs = len(first), len(second)
    ones = first.sum(axis=0, dtype=int), second.sum(axis=0, dtype=int)
    for column, (a, b) in enumerate(zip(*map(np.ndarray.tolist, ones), strict=True)):
        if a != b and fisher(a, b, *runs) < FALSE_ALARM / total:
            raise Leak(f"{name}: bit {column} is one in {a} and {b} of {runs[0]} runs, by the peers' data")


@cache
def fisher(a: int, b: int, n: int, m: int) -> float:
    """The chance, were both worlds alike, of counts a of n and b of m or less likely ones (Fisher's exact test)."""
    ones = a + b
    chances = {x: comb(n, x) * comb(m, ones - x) for x in range(max(0, ones - m), min(n, ones) + 1)}
    return sum(each for each in chances.values() if each <= chances[a]) / comb(n + m, ones)
