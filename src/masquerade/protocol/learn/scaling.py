"""Shares of σ · γ, rounded, from shares of γ, for a factor σ that is no whole number.

A share times a fraction ρ may be rounded by its holder alone, but only where the shares' sum does not exceed the
modulus m: where it does, ρ · m is too much. Two ways to know:

- `scaled`: a circuit of w ANDs finds the carry, which becomes a share and takes ρ · m off. Perfectly hidden; the
  error is below 1.5.
- `scaled_excessive`: the shares were made so that their sum always exceeds m (`shared_excessively`), and no message
  is needed. Secrecy is imperfect: a share that is near the ends of its range tells something of γ, the other share
  being drawn from [t + 1, m) instead of [0, m) for values up to t. The statistical distance between the other party's
  views of any two values is at most t / (m − t − 1): 2^-57 for 64 bits and values of 7 bits.

Values must not be negative, and σ · γ must fit the ring.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from masquerade.crypto.bits import digits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.crypto.words import less_than
from masquerade.errors import ParameterError
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.pair import Pair, shared_outputs
from masquerade.protocol.learn.arithmetic import SIDES, from_digits


def scaled(pair: Pair, shares: Elements, factor: Fraction, ring: PowerOfTwo) -> Script[Elements]:
    """Return our shares of the shared numbers times `factor`, with an error below 1.5."""
    whole, rest = divmod(factor, 1)
    found = yield from shared_outputs(
        pair, _carry_circuit(ring.bits), len(shares), {SIDES[pair.me]: digits(shares, ring.bits)}
    )
    exceeds = yield from from_digits(pair, found["exceeds"][0], ring)
    excess = _times(exceeds, round(rest * ring.modulus), ring)
    return ring.subtract(ring.add(_times(shares, int(whole), ring), _rounded(shares, rest)), excess)


def shared_excessively(values: Elements, largest: int, ring: PowerOfTwo) -> tuple[Elements, Elements]:
    """Split values from 0 to `largest` into two shares whose sum always exceeds the modulus."""
    if not 0 <= largest < ring.modulus // 4 or (values.size and int(values.max()) > largest):
        raise ParameterError(f"values to share excessively must lie between 0 and {largest}")
    drawn = ring.random(values.shape)
    while (low := drawn <= largest).any():  # all but never
        drawn[low] = ring.random(int(low.sum()))
    return drawn, ring.subtract(values, drawn)


def scaled_excessive(me: int, shares: Elements, factor: Fraction, ring: PowerOfTwo) -> Elements:
    """Return our shares of the numbers times `factor`, given excessive ones of theirs; the error is below 1.5."""
    whole, rest = divmod(factor, 1)
    ours = ring.add(_times(shares, int(whole), ring), _rounded(shares, rest))
    if me == 1:
        return ours
    return ring.subtract(ours, np.full_like(ours, round(rest * ring.modulus) % ring.modulus))


def _times(elements: Elements, number: int, ring: PowerOfTwo) -> Elements:
    return ring.multiply(elements, np.full_like(elements, number % ring.modulus))


def _rounded(shares: Elements, fraction: Fraction) -> Elements:
    """Return each share times a fraction below 1, rounded to the nearest; in whole numbers of any size."""
    top, bottom = fraction.numerator, fraction.denominator
    return np.array([(2 * top * int(share) + bottom) // (2 * bottom) for share in shares], np.uint64)


@cache
def _carry_circuit(bits: int) -> Circuit:
    """Return the circuit that finds whether two shares exceed the modulus: if one is above the other's complement."""
    build = Builder()
    one, other = (build.input(name, bits) for name in SIDES)
    build.output("exceeds", [less_than(build, [bit ^ 1 for bit in one], other)])
    return build.build()
