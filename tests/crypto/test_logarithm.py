"""The logarithm of a shared number: its circuit, its polynomial, its bounds; and what the original division does."""

from __future__ import annotations

from math import lcm, log

import numpy as np
import pytest

import masquerade as mq
from masquerade.crypto import Precision, scaled_logarithms, split_circuit
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
    with pytest.raises(mq.ParameterError, match=rf"need a ring of {needed} bits .* Got 60 instead"):
        Precision(bits, terms, ring_bits=60)
    numbers = np.arange(1, 1 << bits, 37)
    narrow, wide = Precision(bits, terms, 60, narrow=True), Precision(bits, terms)
    # The bound leaves room: these settings still come out right.
    assert (scaled_logarithms(numbers, narrow) == scaled_logarithms(numbers, wide)).all()


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
