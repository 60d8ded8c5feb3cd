"""Shares of σ · ln x, and of x · ln x, from shares of x, for many x at once (`crypto/logarithm.py` explains the parts).

    phase one    garbled circuit of about N·(log2 N + 3) ANDs; then one transfer for each of its outputs
    phase two    oblivious polynomial evaluation, k·w transfers

What either party sees: masked messages of lengths that follow from the number of logarithms and the precision.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import digits
from masquerade.crypto.logarithm import (
    Precision,
    from_bits,
    main_offset,
    rough_circuit,
    scaled_logarithms,
    shifted_coefficients,
    split_circuit,
)
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.pair import Pair, shared_outputs
from masquerade.protocol.learn.arithmetic import (
    SIDES,
    combined,
    evaluated,
    from_digits,
    halved,
    multiplied,
    plus_public,
)
from masquerade.protocol.learn.scaling import scaled


def logarithms(pair: Pair, shares: Elements, precision: Precision) -> Script[Elements]:
    """Return our shares of σ · ln x; σ is the precision's scale. Of 0 it is anything."""
    ring = precision.ring
    ours = {SIDES[pair.me]: digits(shares, precision.bits)}
    split = yield from shared_outputs(pair, split_circuit(precision.bits), len(shares), ours)
    main, epsilon = from_bits(precision, (yield from from_digits(pair, split["split"], ring)))
    polynomial = shifted_coefficients(precision, epsilon) if pair.me == 0 else epsilon
    series = yield from evaluated(pair, polynomial, precision.terms, ring)
    return plus_public(pair, ring.add(main, series), main_offset(precision), ring)


def unscaled_logarithms(pair: Pair, shares: Elements, precision: Precision, places: int) -> Script[Elements]:
    """Return our shares of 2^`places` · ln x, with an error below 1.5 and the series' own; x is at least 1."""
    logs = yield from logarithms(pair, shares, precision)
    return (yield from scaled(pair, logs, Fraction(1 << places, precision.scale), precision.ring))


def rough_logarithms(pair: Pair, shares: Elements, bits: int, ring: PowerOfTwo) -> Script[Elements]:
    """Return our shares of 16 · log2 x for x below 2^`bits`, too small by at most 0.148 · 16; of 0 it is anything.

    The paper's §6: no series, and so neither products nor a wide ring. Good enough to compare scores roughly.
    """
    ours = {SIDES[pair.me]: digits(shares, bits)}
    found = yield from shared_outputs(pair, rough_circuit(bits), len(shares), ours)
    places = yield from from_digits(pair, found["log2"], ring)
    return combined(places, [1 << place for place in range(len(places))], ring)


def weighted_logarithms(pair: Pair, shares: Elements, precision: Precision) -> Script[Elements]:
    """Return our shares of x · ⌊σ · ln x / 2^d⌋, with d the `dropped_digits`; of 0 it is 0.

    What goes is rounded down in a circuit, exactly, so that the result is a function of x alone.
    """
    logs = yield from logarithms(pair, shares, precision)
    if dropped := dropped_digits(precision):
        logs = yield from halved(pair, logs, dropped, precision.ring)
    return (yield from multiplied(pair, shares, logs, precision.ring))


def plain_weighted_logarithms(numbers: NDArray[np.int64], precision: Precision) -> NDArray[np.int64]:
    """Compute the same in the clear."""
    products: NDArray[np.int64] = numbers * (
        scaled_logarithms(numbers, precision) >> dropped_digits(precision)
    )
    return products


def dropped_digits(precision: Precision) -> int:
    """Return how many digits of a scaled logarithm must go, so that it still fits when multiplied by its number."""
    needed = precision.bits + precision.scale.bit_length() + precision.bits.bit_length() + 1
    return max(0, needed - precision.ring_bits)
