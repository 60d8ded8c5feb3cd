"""The logarithm of a shared number and its bounds, what the original division does; and the circuit of 1/x."""

from __future__ import annotations

from math import lcm, log

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.crypto import (
    MANTISSA,
    Precision,
    needed_bits,
    reciprocal_circuit,
    scaled_logarithms,
    split_circuit,
    to_bits,
)
from masquerade.crypto.circuit import evaluate
from masquerade.crypto.logarithm import SERIES_ERRORS

PAPER = [(17, 3, 1497), (13, 4, 1386), (10, 5, 1314)]  # bits of x, terms, gates


@pytest.mark.parametrize(("bits", "terms"), [(17, 2), *((bits, terms) for bits, terms, _ in PAPER)])
def test_the_error_is_that_of_the_series_over_the_whole_range(bits: int, terms: int) -> None:
    numbers = np.arange(1, 1 << bits)
    precision = Precision(bits, terms)
    found = scaled_logarithms(numbers, precision) / precision.scale
    error = np.abs(found - np.log(numbers)).max()
    assert 0.9 * SERIES_ERRORS[terms] < error <= SERIES_ERRORS[terms]


@pytest.mark.parametrize(("bits", "terms", "gates"), PAPER)
def test_the_circuit_is_a_small_part_of_the_papers(bits: int, terms: int, gates: int) -> None:
    circuit = split_circuit(bits)
    assert circuit.n_and < gates / 8
    assert terms == Precision(bits, terms).terms


@pytest.mark.parametrize(("bits", "terms", "needed"), [(17, 3, 62), (13, 4, 64), (10, 5, 64)])
def test_the_papers_sixty_bits_fall_short_of_the_corrected_bound(bits: int, terms: int, needed: int) -> None:
    assert needed_bits(bits, terms) == needed


def test_settings_that_need_a_wider_ring_are_refused() -> None:
    with pytest.raises(mq.ParameterError, match=r"need a ring of 65 bits .* Got 64 instead"):
        Precision(18, 3)


@pytest.mark.parametrize(("bits", "terms"), [(1, 3), (13, 1), (13, 6)])
def test_settings_out_of_range_are_refused(bits: int, terms: int) -> None:
    with pytest.raises(mq.ParameterError, match="at least 2 bits and 2 to 5 terms"):
        Precision(bits, terms)


def test_dividing_in_the_field_as_first_proposed_gives_anything() -> None:
    """Scaled by 2^N · lcm alone, most terms are no whole numbers, and their modular quotients are arbitrary."""
    bits, terms, prime = 13, 4, (1 << 127) - 1
    multiple = lcm(*range(2, terms + 1))
    wrong = 0
    numbers = range(3, 1 << bits, 97)
    for x in numbers:
        n = x.bit_length() - 1
        n += x >> (n - 1) & 1  # the digit after the first one
        epsilon = (x << (bits - n)) - (1 << bits)  # ε · 2^N
        quotient = sum(
            (-1) ** (i - 1) * (multiple // i) * epsilon**i * pow(pow(2, bits * (i - 1), prime), -1, prime)
            for i in range(1, terms + 1)
        )
        centred = (quotient + prime // 2) % prime - prime // 2
        value = n * log(2) + centred / (multiple << bits)
        wrong += abs(value - log(x)) > 1
    assert wrong > 0.9 * len(numbers)


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(20, 44), st.lists(st.floats(0.3, 1.0), min_size=1, max_size=9), st.integers(0, 4))
def test_the_relative_error_is_small_whatever_the_size(width: int, sizes: list[float], dropped: int) -> None:
    x = np.array([int(2 ** (width * size)) - 1 for size in sizes])
    thirds = x // 3
    circuit = reciprocal_circuit(2, width, dropped, 54)
    inputs = {"provider 0": to_bits(thirds, width), "provider 1": to_bits(x - thirds, width)}
    found = evaluate(circuit, inputs)["reciprocal"]
    numbers = (found.astype(object) * (1 << np.arange(54, dtype=object))[:, None]).sum(axis=0)
    for got, each in zip(numbers, x.tolist(), strict=True):
        exact = 2.0 ** (width + MANTISSA - 2 - dropped) / each
        assert abs(got - exact) <= exact * 2.0 ** (2 - MANTISSA) + 1


def test_the_circuit_is_small_and_shallow() -> None:
    circuit = reciprocal_circuit(3, 36, 4, 40)
    assert circuit.n_and < 2800
    assert circuit.depth < 160
