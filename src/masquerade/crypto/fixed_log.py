"""Logarithms to base 2 in fixed point, by shifts and additions: in whole numbers, and the same in gates.

Entropy decides a requirement, and parties that share counts must decide as somebody does who sees them. So both use one
function of whole numbers: x is scaled to m in [1, 2), and multiplied by those of the factors 1 + 2⁻¹, 1 + 2⁻², …
that keep it below 2 (Briggs' method); log x is its exponent + 1, less the logarithms of these factors, less that of
what is missing to 2, which is so near to 1 that its logarithm is linear.

The error is below 2⁻³¹ for numbers up to 2^40. Cost in gates, for numbers of w bits: about 2,400 ANDs; `shallow`
(crypto/words.py) three times as many, on a path of some 180 instead of 900.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, Builder, Literal, Word

PLACES = 32  # binary digits after the point

_INNER = PLACES + 4  # while adding up
_MANTISSA = 40  # digits of m after its point
_FACTORS = 18  # what is missing to 2 is then at most 2⁻¹⁸, and its square below the last digit
_SLOPE_PLACES = 18
_DIGITS = 23  # of what is missing


@cache
def _factor_logs() -> tuple[int, ...]:
    """Return log(1 + 2⁻ⁱ) for i = 1, 2, …, with `_INNER` digits after the point; the same on every machine."""
    return tuple(
        int((_log2(1 + Fraction(1, 2**i)) * 2**_INNER).to_integral_value()) for i in range(1, _FACTORS + 1)
    )


@cache
def _slope() -> int:
    """Return 1 / ln 2 in fixed point: how fast the logarithm grows at 1."""
    with localcontext(prec=40):
        return int((2**_SLOPE_PLACES / Decimal(2).ln()).to_integral_value())


def _log2(number: Fraction) -> Decimal:
    with localcontext(prec=40):
        return (Decimal(number.numerator) / number.denominator).ln() / Decimal(2).ln()


def public_log2(number: Fraction) -> int:
    """Return the logarithm of a public number in fixed point, rounded down."""
    with localcontext(prec=40):
        return int((_log2(number) * 2**PLACES).to_integral_value("ROUND_FLOOR"))


def log2(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the logarithms of numbers from 1 to 2^40 in fixed point."""
    exponents = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    m = numbers.astype(np.int64) << (_MANTISSA - exponents)
    logs = (exponents + 1) << _INNER
    for i, log in enumerate(_factor_logs(), start=1):
        larger = m + (m >> i)
        below = larger < 1 << (_MANTISSA + 1)
        m = np.where(below, larger, m)
        logs -= np.where(below, log, 0)
    missing = (1 << (_MANTISSA + 1)) - m
    logs -= (missing * _slope()) >> (_SLOPE_PLACES + _MANTISSA + 1 - _INNER)
    result: NDArray[np.int64] = logs >> (_INNER - PLACES)
    return result


def log2_word(build: Builder, number: Sequence[Literal], *, shallow: bool = False) -> Word:
    """Build the same function; of 0 it is anything."""
    n_bits = len(number)
    mantissa, zeros = words.normalised(build, number)
    m = [FALSE] * (_MANTISSA + 1 - n_bits) + mantissa
    terms: list[Word] = []
    for i, log in enumerate(_factor_logs(), start=1):
        shifted = m[i:] + [FALSE] * (i + 1)
        larger = words.add(build, [*m, FALSE], shifted, shallow=shallow)
        below = larger[-1] ^ 1
        m = words.multiplex(build, below, m, larger[:-1])
        terms.append([below if log >> place & 1 else FALSE for place in range(_INNER + 6)])
    missing = words.subtract(build, [FALSE] * _DIGITS, m[:_DIGITS], shallow=shallow)
    # What is missing is above 0 and at most 2^23: its word is 0 for 2^23 alone, which no m here leaves.
    product = words.times(
        build,
        [*missing, *[FALSE] * (_SLOPE_PLACES + 2)],
        words.constant(_slope(), _SLOPE_PLACES + 1),
        shallow=shallow,
    )
    linear = product[_SLOPE_PLACES + _MANTISSA + 1 - _INNER :]
    terms.append(linear + [FALSE] * (_INNER + 6 - len(linear)))
    exponent = words.subtract(  # + 1: as many as the number has digits
        build, words.constant(n_bits, 6), zeros + [FALSE] * (6 - len(zeros)), shallow=shallow
    )
    logs = words.subtract(
        build,
        [FALSE] * _INNER + exponent,
        words.total(build, terms, shallow=shallow),
        shallow=shallow,
    )
    return logs[_INNER - PLACES :]
