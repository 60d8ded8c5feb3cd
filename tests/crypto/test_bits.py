"""Packing and transposing, against numpy's slow and obvious ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import digits, pack, unpack
from masquerade.crypto.bits import as_bits, choose, transpose
from masquerade.errors import ParameterError


@given(st.lists(st.integers(0, 1), max_size=100))
def test_packing_goes_both_ways_lowest_bit_first(bits: list[int]) -> None:
    packed = pack(as_bits(bits))
    assert int.from_bytes(packed.tobytes(), "little") == sum(bit << place for place, bit in enumerate(bits))
    assert unpack(packed, len(bits)).tolist() == bits


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_a_transposition_is_one(words: int, seed: int) -> None:
    columns = np.random.default_rng(seed).integers(0, 256, (128, 8 * words), dtype=np.uint8)
    bits = np.unpackbits(columns, axis=1, bitorder="little")
    blocks = transpose(columns)
    assert blocks.shape == (64 * words, 2)
    assert np.array_equal(np.unpackbits(blocks.view(np.uint8), axis=1, bitorder="little"), bits.T)


def test_a_transposition_longer_than_the_cache_leaves_its_input_alone() -> None:
    columns = np.random.default_rng(0).integers(0, 256, (128, 3 * 1024 + 8), dtype=np.uint8)
    before = columns.copy()
    blocks = transpose(columns)
    assert np.array_equal(columns, before)
    bits = np.unpackbits(columns, axis=1, bitorder="little")
    assert np.array_equal(np.unpackbits(blocks.view(np.uint8), axis=1, bitorder="little"), bits.T)


def test_digits_are_those_of_the_numbers() -> None:
    values = np.array([0, 1, 6, 2**63], np.uint64)
    assert digits(values, 64).shape == (64, 4)
    assert digits(values, 3).tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]]
    assert digits(values, 64)[63].tolist() == [0, 0, 0, 1]


def test_choosing_keeps_or_clears_whole_rows() -> None:
    rows = np.array([[1, 2], [3, 4], [5, 6]], np.uint64)
    assert choose(as_bits([1, 0, 1]), rows).tolist() == [[1, 2], [0, 0], [5, 6]]
    assert choose(as_bits([0, 1, 1]), rows[:, 0]).tolist() == [0, 3, 5]


@pytest.mark.parametrize("values", [[0, 2], [-1], [[0, 1]], [0.5], "01"])
def test_what_is_no_bit_is_refused(values: object) -> None:
    with pytest.raises(ParameterError, match="bits must be"):
        as_bits(values)  # type: ignore[arg-type]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"9 bits take 2 bytes\. Got 1"):
        unpack(np.zeros(1, np.uint8), 9)
    for shape in ((127, 8), (128, 7), (128,)):
        with pytest.raises(ParameterError, match="128 vectors"):
            transpose(np.zeros(shape, np.uint8))
