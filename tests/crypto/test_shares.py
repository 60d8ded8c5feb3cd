"""Rings and the masked sum, against plain arithmetic with whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import looks_random
from examples import examples
from masquerade.crypto import MaskKey, PairwiseMasks, PowerOfTwo, unmask_sum
from masquerade.errors import BadMessage, ParameterError

RINGS = [PowerOfTwo(bits) for bits in (1, 7, 8, 32, 63, 64)]
rings = st.sampled_from(RINGS)


@st.composite
def ring_and_values(draw: st.DrawFn, vectors: int = 1) -> tuple[PowerOfTwo, list[list[int]]]:
    ring = draw(rings)
    count = draw(st.integers(0, 8))
    numbers = st.one_of(st.integers(0, ring.modulus - 1), st.just(ring.modulus - 1))
    return ring, [draw(st.lists(numbers, min_size=count, max_size=count)) for _ in range(vectors)]


@settings(max_examples=examples(150), deadline=None)
@given(ring_and_values(2))
def test_ring_arithmetic(case: tuple[PowerOfTwo, list[list[int]]]) -> None:
    ring, (left, right) = case
    a, b = ring.elements(np.array(left, np.uint64)), ring.elements(np.array(right, np.uint64))
    pairs = list(zip(left, right, strict=True))
    assert ring.add(a, b).tolist() == [(x + y) % ring.modulus for x, y in pairs]
    assert ring.subtract(a, b).tolist() == [(x - y) % ring.modulus for x, y in pairs]
    assert ring.multiply(a, b).tolist() == [x * y % ring.modulus for x, y in pairs]
    assert int(ring.total(a)) == sum(left) % ring.modulus
    assert ring.decode(ring.encode(a), len(a)).tolist() == left


@pytest.mark.parametrize("ring", RINGS, ids=lambda ring: str(ring.modulus))
def test_totals_of_many_large_elements(ring: PowerOfTwo) -> None:
    values = np.full((1000, 2), ring.modulus - 1, np.uint64)
    assert ring.total(values).tolist() == [1000 * (ring.modulus - 1) % ring.modulus] * 2
    assert ring.total(values, axis=1).tolist() == [2 * (ring.modulus - 1) % ring.modulus] * 1000


@settings(max_examples=examples(50), deadline=None)
@given(rings, st.integers(0, 2**64 - 1))
def test_elements_from_random_words(ring: PowerOfTwo, word: int) -> None:
    assert ring.from_words(np.array([[word]], np.uint64)).tolist() == [word % ring.modulus]


def test_random_elements_cover_the_ring_evenly() -> None:
    assert looks_random(PowerOfTwo(64).random(10_000).tobytes())


def test_negative_numbers_count_down_from_the_modulus() -> None:
    assert PowerOfTwo(8).elements([-1, 0, -255]).tolist() == [255, 0, 1]
    assert PowerOfTwo(64).elements([-1]).tolist() == [2**64 - 1]


def masked_parties(count: int, ring: PowerOfTwo, session: bytes = b"session") -> list[PairwiseMasks]:
    keys = [MaskKey() for _ in range(count)]
    return [
        PairwiseMasks(
            me, {peer: keys[me].seed(keys[peer].public, session) for peer in range(count) if peer != me}, ring
        )
        for me in range(count)
    ]


@settings(max_examples=examples(25), deadline=None)
@given(ring_and_values(4), st.integers(2, 4), st.integers(0, 2**40))
def test_masked_values_sum_to_the_sum(case: tuple[PowerOfTwo, list[list[int]]], count: int, round_number: int) -> None:
    ring, vectors = case
    parties = masked_parties(count, ring)
    shown = [
        party.mask(np.array(values, np.uint64), round_number)
        for party, values in zip(parties, vectors[:count], strict=True)
    ]
    expected = [sum(column) % ring.modulus for column in zip(*vectors[:count], strict=True)]
    assert unmask_sum(shown, ring).tolist() == expected


@pytest.mark.parametrize("value", [0, 12345])
def test_what_a_party_shows_does_not_depend_on_its_value(value: int) -> None:
    """Also not together with what all but one of its peers know: their masks taken off."""
    ring = PowerOfTwo(64)
    keys = [MaskKey() for _ in range(3)]
    seeds = {peer: keys[0].seed(keys[peer].public, b"s") for peer in (1, 2)}
    values = np.full(8000, value, np.uint64)
    shown = PairwiseMasks(0, seeds, ring).mask(values, 0)
    assert looks_random(shown.tobytes())
    colluder = PairwiseMasks(1, {0: keys[1].seed(keys[0].public, b"s")}, ring)
    unmasked = ring.add(shown, colluder.mask(np.zeros(8000, np.uint64), 0))
    assert looks_random(unmasked.tobytes())
    assert not looks_random(values.tobytes())
    later = PairwiseMasks(0, seeds, ring).mask(values, 1)
    assert looks_random(ring.subtract(later, shown).tobytes())


def test_both_ends_of_a_pair_agree_and_sessions_differ() -> None:
    one, other, third = MaskKey(), MaskKey(), MaskKey()
    assert one.seed(other.public, b"s") == other.seed(one.public, b"s")
    assert one.seed(other.public, b"s") != one.seed(other.public, b"t")
    assert one.seed(other.public, b"s") != one.seed(third.public, b"s")


def test_masks_misused() -> None:
    ring, key, peer = PowerOfTwo(32), MaskKey(), MaskKey()
    seed = key.seed(peer.public, b"s")
    masks = PairwiseMasks(0, {1: seed}, ring)
    masks.mask([1], 3)
    for used in (3, 2):
        with pytest.raises(ParameterError, match="was used before"):
            masks.mask([1], used)
    with pytest.raises(ParameterError, match="own seed"):
        PairwiseMasks(0, {1: seed, 2: seed}, ring)
    with pytest.raises(ParameterError, match="own seed"):
        PairwiseMasks(0, {1: seed[:-1]}, ring)
    with pytest.raises(ParameterError, match="all other parties"):
        PairwiseMasks(0, {}, ring)
    with pytest.raises(ParameterError, match="all other parties"):
        PairwiseMasks(0, {0: seed}, ring)
    with pytest.raises(BadMessage, match=r"32 bytes\. Got 31"):
        key.seed(bytes(31), b"s")
    with pytest.raises(BadMessage, match="small order"):
        key.seed(bytes(32), b"s")
    with pytest.raises(BadMessage, match="our own"):
        key.seed(key.public, b"s")
    with pytest.raises(BadMessage, match="one shape"):
        unmask_sum([ring.random(2), ring.random(3)], ring)


def test_rings_misused() -> None:
    for bits in (0, 65):
        with pytest.raises(ParameterError, match="between 1 and 64"):
            PowerOfTwo(bits)
    with pytest.raises(ParameterError, match="elements must lie between"):
        PowerOfTwo(8).elements([256])
    with pytest.raises(ParameterError, match="elements must lie between"):
        PowerOfTwo(8).elements([-256])
    with pytest.raises(ParameterError, match="whole numbers"):
        PowerOfTwo(8).elements([0.5])
    with pytest.raises(BadMessage, match=r"3 elements take 6 bytes\. Got 5"):
        PowerOfTwo(9).decode(bytes(5), 3)
    with pytest.raises(BadMessage, match="must lie below 512"):
        PowerOfTwo(9).decode(b"\x00\x02", 1)
