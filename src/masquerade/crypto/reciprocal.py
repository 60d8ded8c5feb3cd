"""The circuit of 1/x, for x in fixed point and of unknown size, by long division of its leading digits.

x is shifted up until its highest digit is set; its first `MANTISSA` digits divide a power of two; the quotient is
shifted up by as much. So the relative error is below 2^(2 − MANTISSA) whatever the size of x.

About M² · log₂ M + 2w · log₂ w ANDs on a path of M · (log₂ M + 2), for words of w digits and a mantissa of M: n-party
sharing pays a round for each AND on the path.
"""

from __future__ import annotations

from functools import lru_cache

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, Builder, Circuit, Word

MANTISSA = 20


@lru_cache(maxsize=16)
def reciprocal_circuit(n_addends: int, width: int, dropped: int, out: int) -> Circuit:
    """Return the circuit that adds up words "provider 0" … and gives `out` digits of the sum's "reciprocal".

    Of a sum x, that is about 2^(width + MANTISSA − 2 − dropped) / x. A reciprocal of more digits is cut off at the top.
    """
    build = Builder()
    x = words.total(
        build, [build.input(f"provider {number}", width) for number in range(n_addends)], shallow=True
    )
    aligned, zeros = words.normalised(build, x)
    quotient = _divided(build, ([FALSE] * MANTISSA + aligned)[-MANTISSA:])
    word = (quotient + [FALSE] * (out + dropped))[: out + dropped]
    for place, bit in enumerate(zeros):
        word = words.multiplex(build, bit, word, ([FALSE] * (1 << place) + word)[: len(word)])
    build.output("reciprocal", word[dropped:])
    return build.build()


def _divided(build: Builder, divisor: Word) -> Word:
    """Return ⌊2^(2M − 2) / divisor⌋, for a divisor of M digits of which the highest is set."""
    m = len(divisor)
    wide = [*divisor, FALSE]
    rest = words.constant(1 << (m - 2), m)
    quotient: Word = []
    for _ in range(m):
        doubled = [FALSE, *rest]
        difference = words.subtract(build, [*doubled, FALSE], [*wide, FALSE], shallow=True)
        fits = difference[-1] ^ 1
        rest = words.multiplex(build, fits, doubled, difference[:-1])[:m]
        quotient.append(fits)
    return quotient[::-1]
