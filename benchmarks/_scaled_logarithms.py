"""Parts of the secure logarithm's paper that no method needs: scaling by a fraction (§4, §5), the rough logarithm (§6).

A share times a fraction ρ may be rounded by its holder alone, but only where the shares' sum does not exceed the
modulus m: where it does, ρ · m is too much. Two ways to know:

- `scaled`: a circuit of 64 ANDs finds the carry, which becomes a share and takes ρ · m off. Perfectly hidden; the error
  is below 1.5.
- `scaled_excessive`: the shares were made so that their sum always exceeds m (`shared_excessively`), and no message is
  needed. Secrecy is imperfect: a share that is near the ends of its range tells something of γ, the other share being
  drawn from [t + 1, m) instead of [0, m) for values up to t. The statistical distance between the other party's views
  of any two values is at most t / (m − t − 1): 2^-57 for values of 7 bits.

Values must not be negative, and the result must fit the ring.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from masquerade.crypto import FALSE, Builder, Circuit, Elements, PowerOfTwo, Precision, digits, words
from masquerade.errors import ParameterError
from masquerade.net import Script
from masquerade.protocol.learn.shared_numbers import SIDES, composed, from_digits, logarithms
from masquerade.protocol.pairs import Pair, shared_outputs

RING = PowerOfTwo(64)


def scaled(pair: Pair, shares: Elements, factor: Fraction) -> Script[Elements]:
    """Return our shares of the shared numbers times `factor`, with an error below 1.5."""
    whole, rest = divmod(factor, 1)
    ours = {SIDES[pair.me]: digits(shares, RING.bits)}
    found = yield from shared_outputs(pair, _carry_circuit(), len(shares), ours)
    exceeds = yield from from_digits(pair, found["exceeds"][0])
    excess = _times(exceeds, round(rest * RING.modulus))
    return RING.subtract(RING.add(_times(shares, int(whole)), _rounded(shares, rest)), excess)


def shared_excessively(values: Elements, largest: int, ring: PowerOfTwo = RING) -> tuple[Elements, Elements]:
    """Split values from 0 to `largest` into two shares whose sum always exceeds the modulus."""
    if not 0 <= largest < ring.modulus // 4 or (values.size and int(values.max()) > largest):
        raise ParameterError(f"values to share excessively must lie between 0 and {largest}")
    drawn = ring.random(values.shape)
    while (low := drawn <= largest).any():  # all but never
        drawn[low] = ring.random(int(low.sum()))
    return drawn, ring.subtract(values, drawn)


def scaled_excessive(me: int, shares: Elements, factor: Fraction) -> Elements:
    """Return our shares of the numbers times `factor`, given excessive ones of theirs; the error is below 1.5."""
    whole, rest = divmod(factor, 1)
    ours = RING.add(_times(shares, int(whole)), _rounded(shares, rest))
    excess = round(rest * RING.modulus) % RING.modulus
    return ours if me == 1 else RING.subtract(ours, np.full_like(ours, excess))


def unscaled_logarithms(pair: Pair, shares: Elements, precision: Precision, places: int) -> Script[Elements]:
    """Return our shares of 2^`places` · ln x, with an error below 1.5 and the series' own; x is at least 1."""
    logs = yield from logarithms(pair, shares, precision)
    return (yield from scaled(pair, logs, Fraction(1 << places, precision.scale)))


def rough_logarithms(pair: Pair, shares: Elements, bits: int) -> Script[Elements]:
    """Return our shares of 16 · log2 x for x below 2^`bits`, too small by at most 0.148 · 16; of 0 it is anything.

    No series, and so neither products nor a wide ring: good enough to compare scores roughly.
    """
    ours = {SIDES[pair.me]: digits(shares, bits)}
    found = yield from shared_outputs(pair, rough_circuit(bits), len(shares), ours)
    return composed((yield from from_digits(pair, found["log2"])))


@cache
def rough_circuit(bits: int) -> Circuit:
    """Return the circuit of a logarithm to base 2 that is good enough to compare scores roughly.

    Its output is in sixteenths: the number of digits before the last, then the four digits after the first. It is too
    small by at most 0.148; the four digits add up to a straight line, which is below the curve, and are cut off.
    """
    build = Builder()
    one, other = (build.input(name, bits) for name in SIDES)
    aligned, zeros = words.normalised(build, words.add(build, one, other))
    exponent = words.subtract(build, words.constant(bits - 1, len(zeros)), zeros)
    fraction = ([FALSE] * 4 + aligned[:-1])[-4:]
    build.output("log2", [*fraction, *exponent])
    return build.build()


@cache
def _carry_circuit() -> Circuit:
    """Return the circuit that finds whether two shares exceed the modulus: if one is above the other's complement."""
    build = Builder()
    one, other = (build.input(name, RING.bits) for name in SIDES)
    build.output("exceeds", [words.less_than(build, words.inverted(one), other)])
    return build.build()


def _times(elements: Elements, number: int) -> Elements:
    return RING.multiply(elements, np.full_like(elements, number % RING.modulus))


def _rounded(shares: Elements, fraction: Fraction) -> Elements:
    """Return each share times a fraction below 1, rounded to the nearest; in whole numbers of any size."""
    top, bottom = fraction.numerator, fraction.denominator
    return np.array([(2 * top * int(share) + bottom) // (2 * bottom) for share in shares], np.uint64)
