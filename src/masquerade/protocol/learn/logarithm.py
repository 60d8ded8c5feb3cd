"""Shares of σ · ln x, and of x · ln x, from shares of x, for many x at once (`crypto/logarithm.py` explains the parts).

    phase one    garbled circuit of about N·(log2 N + 3) ANDs; then one transfer for each of its outputs
    phase two    oblivious polynomial evaluation, k·w transfers

What either party sees: masked messages of lengths that follow from the number of logarithms and the precision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import digits
from masquerade.crypto.logarithm import (
    Precision,
    from_bits,
    main_offset,
    scaled_logarithms,
    shifted_coefficients,
    split_circuit,
)
from masquerade.crypto.rings import Elements
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.pair import Pair, shared_outputs
from masquerade.protocol.learn.arithmetic import (
    SIDES,
    evaluated,
    from_digits,
    halved,
    multiplied,
    plus_public,
)


def logarithms(pair: Pair, shares: Elements, precision: Precision) -> Script[Elements]:
    """Return our shares of σ · ln x; σ is the precision's scale. Of 0 it is anything."""
    ring = precision.ring
    ours = {SIDES[pair.me]: digits(shares, precision.bits)}
    split = yield from shared_outputs(pair, split_circuit(precision.bits), len(shares), ours)
    main, epsilon = from_bits(precision, (yield from from_digits(pair, split["split"], ring)))
    polynomial = shifted_coefficients(precision, epsilon) if pair.me == 0 else epsilon
    series = yield from evaluated(pair, polynomial, precision.terms, ring)
    return plus_public(pair, ring.add(main, series), main_offset(precision), ring)


def weighted_logarithms(pair: Pair, shares: Elements, precision: Precision) -> Script[Elements]:
    """Return our shares of x · ⌊σ · ln x / 2^d⌋, with d the `dropped_digits`; of 0 it is 0.

    What goes is rounded down in a circuit, exactly, so that the result is a function of x alone.
    """
    logs = yield from logarithms(pair, shares, precision)
    if dropped := dropped_digits(precision):
        logs = yield from halved(pair, logs, dropped, precision.ring)
    return (yield from multiplied(pair, shares, logs, precision.ring))


def uncertainties(pair: Pair, tables: Sequence[Elements], precision: Precision) -> Script[list[Elements]]:
    """Return our shares of what each table's rows leave uncertain of its columns, in units of σ / 2^d.

    Of shared counts N, that is Σ_r N(r) · ln N(r) − Σ_r Σ_c N(r, c) · ln N(r, c): the conditional entropy, times n.
    """
    ring = precision.ring
    terms = [np.concatenate((ring.total(table, axis=1), table.ravel())) for table in tables]
    logs = yield from weighted_logarithms(pair, np.concatenate(terms), precision)
    parts = np.split(logs, np.cumsum([each.size for each in terms])[:-1])
    return [
        ring.subtract(ring.total(part[: len(table)]), ring.total(part[len(table) :]))
        for part, table in zip(parts, tables, strict=True)
    ]


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
