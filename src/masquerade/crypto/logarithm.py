"""The natural logarithm of a shared whole number, as Lindell and Pinkas propose it, with its scaling corrected.

x is 2^n · (1 + ε) with −1/4 ≤ ε < 1/2. A circuit finds n and ε; the logarithm is n · ln 2 + ln(1 + ε), the last term
by k terms of its series, a polynomial in ε. Everything is scaled up to whole numbers:

    σ · ln x  ≈  n · (σ · ln 2)  +  Σ_i  ±2^{N(k−i)} · (lcm(2..k) / i) · (ε · 2^N)^i        σ = 2^{Nk} · lcm(2..k)

for x below 2^N. Lindell and Pinkas scale by 2^N · lcm alone and divide by 2^{N(i−1)}, which seldom comes out even, so
that modular division gives anything (tests/crypto/test_logarithm.py shows it); with σ nothing is divided. As nothing
is, no inverse is needed either, and the ring may be that of the integers modulo a power of two: then a circuit that
needs x modulo 2^N takes the lowest N bits of its shares.

The circuit gives n and ε in bits. Each bit becomes a share of 0 or 1 (`protocol/learn/shared_numbers.py`), so that
n · (σ · ln 2) is a sum of shares times public numbers: the multiples of ln 2 need no table in the circuit, and no
scaling of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache, cached_property
from math import ceil, comb, lcm, log2

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, Builder, Circuit, evaluate, to_bits
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.errors import ParameterError

SERIES_ERRORS = {2: 0.03047, 3: 0.01121, 4: 0.00443, 5: 0.00183}  # of k terms, at most


RING = PowerOfTwo(64)  # of the shares


def needed_bits(bits: int, terms: int) -> int:
    """Return the ring's bits by the corrected bound, N·k + 2k + log2 N."""
    return ceil(bits * terms + 2 * terms + log2(bits))


@dataclass(frozen=True)
class Precision:
    """Logarithms of numbers below 2^`bits` by `terms` terms of the series, in the integers modulo 2^64."""

    bits: int
    terms: int = 3

    def __post_init__(self) -> None:
        if self.bits < 2 or self.terms not in SERIES_ERRORS:
            raise ParameterError(
                f"logarithms take numbers of at least 2 bits and {min(SERIES_ERRORS)} to {max(SERIES_ERRORS)} terms. "
                f"Got {self.bits} bits and {self.terms} terms instead."
            )
        if (needed := needed_bits(self.bits, self.terms)) > RING.bits:
            raise ParameterError(
                f"logarithms of {self.bits}-bit numbers by {self.terms} terms need a ring of {needed} bits "
                f"(N·k + 2k + log2 N). Got {RING.bits} instead: take fewer terms."
            )

    @cached_property
    def scale(self) -> int:
        """σ, by which logarithms are scaled up."""
        return (1 << self.bits * self.terms) * lcm(*range(2, self.terms + 1))

    @cached_property
    def log_of_2(self) -> int:
        """σ · ln 2, rounded."""
        with localcontext(prec=60):
            return int((Decimal(2).ln() * self.scale).to_integral_value())

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """The polynomial's coefficients in ε · 2^N, that of its first power first."""
        multiple = lcm(*range(2, self.terms + 1))
        return tuple(
            (-1) ** (i - 1) * (1 << self.bits * (self.terms - i)) * (multiple // i) for i in range(1, self.terms + 1)
        )


@cache
def split_circuit(bits: int) -> Circuit:
    """Return the circuit that adds two shares of x and splits x.

    Its output has ε · 2^N first, as N digits and a sign, which is also whether 1 + ε was taken below 1; then the number
    of leading zeros. About N · (log2 N + 3) ANDs.
    """
    build = Builder()
    one, other = (build.input(name, bits) for name in ("one", "other"))
    number = words.add(build, one, other)
    aligned, zeros = words.normalised(build, number)
    below = aligned[-2]  # the digit after the first: 1 + ε is y / 2^N with it, and y / 2^(N−1) without
    fraction = words.multiplex(build, below, [FALSE, *aligned[:-2], FALSE], aligned)
    build.output("split", [*fraction, below, *zeros])
    return build.build()


def from_bits(precision: Precision, bits: Elements) -> tuple[Elements, Elements]:
    """Return n · σ · ln 2 and ε · 2^N from the digits that the circuit found; of shares, shares.

    `bits` has a row a digit. Both are linear, up to a public number which `main_offset` is.
    """
    n = precision.bits
    fraction, below, zeros = bits[:n], bits[n], bits[n + 1 :]
    main = RING.multiply(below, _public(precision.log_of_2, below))
    for place, digit in enumerate(zeros):
        main = RING.subtract(main, RING.multiply(digit, _public(precision.log_of_2 << place, digit)))
    epsilon = RING.multiply(below, _public(-(1 << n), below))
    for place, digit in enumerate(fraction):
        epsilon = RING.add(epsilon, RING.multiply(digit, _public(1 << place, digit)))
    return main, epsilon


def main_offset(precision: Precision) -> int:
    """Return what one party adds to its share of n · σ · ln 2: all digits before the leading zeros are taken off."""
    return (precision.bits - 1) * precision.log_of_2 % RING.modulus


def shifted_coefficients(precision: Precision, known: Elements) -> list[Elements]:
    """Return the coefficients of P(known + y) as a polynomial in y, the constant one first, one number an entry."""
    powers = [np.ones_like(known)]
    for _ in range(precision.terms):
        powers.append(RING.multiply(powers[-1], known))
    shifted = []
    for j in range(precision.terms + 1):
        total = np.zeros_like(known)
        for i, coefficient in enumerate(precision.coefficients, start=1):
            if i >= j:
                term = RING.multiply(powers[i - j], _public(coefficient * comb(i, j), known))
                total = RING.add(total, term)
        shifted.append(total)
    return shifted


def scaled_logarithms(numbers: Sequence[int] | NDArray[np.integer], precision: Precision) -> NDArray[np.int64]:
    """Return what the protocol computes, in the clear: σ · ln x, the same to the last digit; of 0, anything."""
    found = evaluate(
        split_circuit(precision.bits),
        {"one": to_bits(numbers, precision.bits), "other": to_bits([0] * len(numbers), precision.bits)},
    )
    main, epsilon = from_bits(precision, found["split"].astype(np.uint64))
    constant = shifted_coefficients(precision, epsilon)[0]  # at y = 0
    total = RING.add(RING.add(main, constant), _public(main_offset(precision), main))
    return signed(total)


def signed(elements: Elements) -> NDArray[np.int64]:
    """Return elements as integers around 0."""
    return elements.view(np.int64)


def _public(number: int, like: Elements) -> Elements:
    return np.full_like(like, number % RING.modulus)
