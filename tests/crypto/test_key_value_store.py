"""The key-value store: every item finds its value, and the store shows nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import balanced
from examples import examples
from masquerade.crypto import Buckets, SlotPositions, StoreLayout, TweakedHash, decode, digest_items, encode
from masquerade.crypto.hashing import random_blocks
from masquerade.crypto.key_value_store import DENSE, expansion, peel, selected, solve
from masquerade.errors import Bug, ParameterError

FAMILY = TweakedHash(bytes(16))


def words(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 300), st.integers(0, 50), st.integers(0, 2**32))
def test_every_item_finds_its_value(count: int, room: int, seed: int) -> None:
    shape = StoreLayout(count + room)
    items = digest_items([b"%d %d" % (seed, at) for at in range(count)], b"key")
    at, values = shape.positions(items, FAMILY, 1), words(count, seed)
    store = encode(shape, at, values, words(shape.size, seed + 1))
    assert np.array_equal(decode(shape, store, at), values)


@pytest.mark.parametrize("n", [1, 2, 24, 64, 200, 1_000, 4_000])
def test_few_items_do_not_peel(n: int) -> None:
    """Far fewer than the dense slots can make up for: 24, to leave 40 bits."""
    shape = StoreLayout(n)
    for seed in range(20):
        items = digest_items([b"%d %d" % (seed, at) for at in range(n)], b"key")
        rounds, core = peel(shape.positions(items, FAMILY, 1).sparse, shape.third)
        assert sum(len(found) for found, _ in rounds) + core.size == n
        assert core.size <= 24


def test_what_does_not_peel_is_solved_for() -> None:
    """Thirty items in the same three slots: one equation for these, and the dense slots for the others."""
    shape = StoreLayout(30)
    same = np.zeros(30, np.intp)
    at = SlotPositions((same, same + shape.third, same + 2 * shape.third), words(30))
    _, core = peel(at.sparse, shape.third)
    assert core.size == 30
    store = encode(shape, at, words(30, 1), words(shape.size, 2))
    assert np.array_equal(decode(shape, store, at), words(30, 1))


def test_one_item_twice_is_one_item_and_two_values_of_it_are_refused() -> None:
    shape = StoreLayout(3)
    items = digest_items([b"a", b"b", b"a"], b"key")
    at = shape.positions(items, FAMILY, 1)
    values = np.array([5, 6, 5], np.uint64)
    assert np.array_equal(decode(shape, encode(shape, at, values, words(shape.size)), at), values)
    with pytest.raises(Bug, match="no solution"):
        encode(shape, at, np.array([5, 6, 7], np.uint64), words(shape.size))


def test_too_many_items_are_refused() -> None:
    shape = StoreLayout(3)
    at = shape.positions(digest_items([b"%d" % each for each in range(4)], b"key"), FAMILY, 1)
    with pytest.raises(ParameterError, match="a store for 3 items got 4"):
        encode(shape, at, words(4), words(shape.size))
    with pytest.raises(Bug, match="unpeeled"):
        solve(words(9), [np.zeros(5_000, np.intp)] * 3, words(5_000), words(5_000), 0)


def test_a_store_of_random_values_looks_random_whatever_the_items() -> None:
    """Every bit of it, and also which slots were set."""
    shape = StoreLayout(500)
    at = shape.positions(digest_items([b"%d" % each for each in range(500)], b"key"), FAMILY, 1)
    store = encode(shape, at, random_blocks(500)[:, 0], random_blocks(shape.size)[:, 0])
    assert balanced(np.unpackbits(store.view(np.uint8)))


def test_dense_slots_are_selected_by_their_bits() -> None:
    rows, bits = random_blocks(DENSE), words(100)
    for row, word in zip(selected(rows, bits), bits.tolist(), strict=True):
        chosen = [rows[at] for at in range(DENSE) if word >> at & 1]
        assert np.array_equal(row, np.bitwise_xor.reduce(chosen))


def test_the_published_sizes() -> None:
    """Raghuraman, Rindal 2022: 1.23 slots an item for a million, and more for few; ours have a margin of 0.03."""
    assert expansion(1 << 20) == pytest.approx(1.2288 + 0.03, abs=1e-3)
    assert expansion(1 << 11) == pytest.approx(1.402 + 0.03, abs=1e-2)


def test_buckets_hold_what_falls_into_them() -> None:
    buckets = Buckets(600_000)
    items = random_blocks(600_000)
    parts = buckets.divide_own(items, FAMILY)
    assert buckets.count == len(parts) == 3
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(600_000))
    assert 200_000 < buckets.capacity < 204_000
    with pytest.raises(Bug, match="overflowed"):
        buckets.divide_own(np.repeat(items[:1], 600_000, axis=0), FAMILY)
