"""Circuits on counts that two parties share: thresholds, Secure_COM, set intersection, and one-bit tests of table rows.

circuit            inputs                        output       ANDs
reached            "share 0", "share 1"          "reached"    w − 1
all_equal          "bits 0", "bits 1"            "holds"      n − 1
all_of_blocks      "good"                        "holds"      n − 1 a block of n
both               "bit 0", "bit 1"              "both"       1
row_…              "row 0", "row 1"              "good"       of the row's cells: see each
sized              those of the row's circuit    "good"       those of the row's circuit, and about w a cell

Shares are additive modulo 2^w. A row is the concatenation of its cells' words, lowest bits first; so is "told", a
second output of `sized` where it is asked for, of the cells and their total: the counts that were judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, TRUE, Builder, Circuit, Literal, Word
from masquerade.errors import ParameterError


@lru_cache(maxsize=64)
def reached(width: int) -> Circuit:
    """Test whether the sum of two shares, as a signed number, is not negative.

    One party subtracts the threshold from its share beforehand; then "at least k" is this sign, at half the cost of a
    comparison.
    """
    build = Builder()
    shares = [build.input(f"share {party}", width) for party in range(2)]
    build.output("reached", [words.add(build, *shares)[-1] ^ 1])
    return build.build()


@lru_cache(maxsize=64)
def all_equal(size: int) -> Circuit:
    """Test whether two bit strings are equal: every XOR of their bits is 0."""
    build = Builder()
    left, right = (build.input(f"bits {party}", size) for party in range(2))
    build.output("holds", [build.all_of([build.xor(a, b) ^ 1 for a, b in zip(left, right, strict=True)])])
    return build.build()


@lru_cache(maxsize=8)
def all_of_blocks(sizes: tuple[int, ...]) -> Circuit:
    """Compute the AND of the bits of each of several neighbouring blocks."""
    build = Builder()
    bits, ends = build.input("good", sum(sizes)), list(accumulate(sizes))
    build.output("holds", [build.all_of(bits[end - size : end]) for size, end in zip(sizes, ends, strict=True)])
    return build.build()


@lru_cache(maxsize=1)
def both() -> Circuit:
    """Compute the AND of the parties' bits."""
    build = Builder()
    (left,), (right,) = build.input("bit 0", 1), build.input("bit 1", 1)
    build.output("both", [build.both(left, right)])
    return build.build()


@lru_cache(maxsize=64)
def row_distinct(columns: int, width: int, least: int) -> Circuit:
    """Distinct ℓ-diversity: at least `least` cells are non-empty, or all are empty. About 2·w ANDs per cell."""
    build, cells = row_inputs(columns, width)
    present = [words.is_zero(build, cell) ^ 1 for cell in cells]
    different = words.population(build, present)
    nobody = build.all_of([bit ^ 1 for bit in present])
    build.output("good", [build.either(nobody, below(build, different, least) ^ 1)])
    return build.build()


@lru_cache(maxsize=64)
def row_bounded(
    columns: int, width: int, most: tuple[int, int], bounded: tuple[int, ...] | None = None, k: int = 1
) -> Circuit:
    """(α,k) and confidence bounding: no bounded cell exceeds most[0] / most[1] of the row, whose total is at least k.

    An empty row is good. `bounded` are the cells with a bound (None: all). The row's total must be below 2^width.
    """
    numerator, denominator = most
    if not 0 <= numerator <= denominator or not denominator:
        raise ParameterError(f"a bound must be a fraction between 0 and 1. Got {numerator}/{denominator}.")
    build, cells = row_inputs(columns, width)
    total = words.total(build, cells)
    which = range(columns) if bounded is None else bounded
    tests = [at_most(build, cells[at], total, most) for at in which]
    tests.append(below(build, total, k) ^ 1)
    build.output("good", [build.either(words.is_zero(build, total), build.all_of(tests))])
    return build.build()


def at_most(
    build: Builder, x: Sequence[Literal], y: Sequence[Literal], most: tuple[int, int], *, shallow: bool = False
) -> Literal:
    """Compute x ≤ most · y, for a fraction."""
    numerator, denominator = most
    room = [FALSE] * max(numerator.bit_length(), denominator.bit_length())  # for the products
    bound = times_public(build, [*y, *room], numerator, shallow=shallow)
    product = times_public(build, [*x, *room], denominator, shallow=shallow)
    return words.at_least(build, bound, product, shallow=shallow)


def sized(judge: Circuit, width: int, least: int, *, or_empty: bool = True, tells: bool = False) -> Circuit:
    """Judge a row as one of the above, and refuse one whose total is neither at least `least` nor, `or_empty`, 0.

    So a group that is too small gives the same answer whatever is in it. Gates that both parts need are built once.
    If it `tells` what it judged, the cells and then the total, parties give their shares of the total, too: no more has
    to be added up, as whoever weighs the cells weighs the total with them.
    """
    build = Builder()
    inputs = {name: build.input(name, judge.width(name)) for name in judge.inputs}
    totals = [build.input(f"total {party}", width) for party in range(2) if tells]
    cells = row_cells(build, [inputs["row 0"], inputs["row 1"]], width)
    total = words.total(build, totals or cells)
    (good,) = build.include(judge, inputs)["good"]
    large = below(build, total, least) ^ 1
    allowed = build.either(words.is_zero(build, total), large) if or_empty else large
    build.output("good", [build.both(good, allowed)])
    if tells:
        build.output("told", [bit for cell in (*cells, total) for bit in cell])
    return build.build()


def row_inputs(columns: int, width: int) -> tuple[Builder, list[Word]]:
    """Return a builder, and the cells of a row whose two shares are its inputs."""
    build = Builder()
    shares = [build.input(f"row {party}", columns * width) for party in range(2)]
    return build, row_cells(build, shares, width)


def row_cells(build: Builder, shares: Sequence[Word], width: int) -> list[Word]:
    """Return the cells of a row from its two shares."""
    starts = range(0, len(shares[0]), width)
    return [words.add(build, *(share[at : at + width] for share in shares)) for at in starts]


def times_public(build: Builder, number: Word, factor: int, *, shallow: bool = False) -> Word:
    """Compute number · factor modulo 2^w for any public factor."""
    public = words.constant(factor, max(factor.bit_length(), 1))
    return words.times(build, number, public, shallow=shallow)


def below(build: Builder, number: Sequence[Literal], bound: int) -> Literal:
    """Compute number < bound for any public bound."""
    if bound <= 0:
        return FALSE
    if bound >> len(number):
        return TRUE
    return words.less_than(build, number, words.constant(bound, len(number)))


# --- fixed log ----------------------------------------------------------------------------------------------
# Logarithms to base 2 in fixed point, by shifts and additions: in whole numbers, and the same in gates.
#
# Entropy decides a requirement, and parties that share counts must decide as somebody does who sees them.
# So both use one function of whole numbers: x is scaled to m in [1, 2), and multiplied by those of the
# factors 1 + 2⁻¹, 1 + 2⁻², … that keep it below 2 (Briggs' method); log x is its exponent + 1, less the
# logarithms of these factors, less that of what is missing to 2, which is so near to 1 that its logarithm
# is linear.
#
# The error is below 2⁻³¹ for numbers up to 2^40. Cost in gates, for numbers of w bits: about 2,400 ANDs;
# `shallow` (crypto/words.py) three times as many, on a path of some 180 instead of 900.

PLACES = 32  # binary digits after the point

_INNER = PLACES + 4  # while adding up
_MANTISSA = 40  # digits of m after its point
_FACTORS = 18  # what is missing to 2 is then at most 2⁻¹⁸, and its square below the last digit
_SLOPE_PLACES = 18
_DIGITS = 23  # of what is missing


@cache
def _factor_logs() -> tuple[int, ...]:
    """Return log(1 + 2⁻ⁱ) for i = 1, 2, …, with `_INNER` digits after the point; the same on every machine."""
    return tuple(int((_log2(1 + Fraction(1, 2**i)) * 2**_INNER).to_integral_value()) for i in range(1, _FACTORS + 1))


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
        build, [*missing, *[FALSE] * (_SLOPE_PLACES + 2)], words.constant(_slope(), _SLOPE_PLACES + 1), shallow=shallow
    )
    linear = product[_SLOPE_PLACES + _MANTISSA + 1 - _INNER :]
    terms.append(linear + [FALSE] * (_INNER + 6 - len(linear)))
    exponent = words.subtract(  # + 1: as many as the number has digits
        build, words.constant(n_bits, 6), zeros + [FALSE] * (6 - len(zeros)), shallow=shallow
    )
    logs = words.subtract(
        build, [FALSE] * _INNER + exponent, words.total(build, terms, shallow=shallow), shallow=shallow
    )
    return logs[_INNER - PLACES :]


# --- distribution circuits ----------------------------------------------------------------------------------
# Tests of how a group's shared counts are distributed: entropy, the most frequent value, distance from a
# whole.
#
# circuit          inputs                        output   ANDs, for Q cells of w bits row_mixed        "row
# 0", "row 1"              "good"   Q · (2,400 + 72·w) row_recursive    "row 0", "row 1"              "good"
# Q · 2·ℓ·w row_close        "row 0", "row 1", "whole"     "good"   Q · 2·w², and as many again where values
# are in order
#
# "whole" are the counts of the whole table, which one party knows and gives: nobody else learns them. An
# empty row is good. The tests work on words of any circuit (`mixed`, `recursive`, `close`): `shallow` is
# for n-party sharing.

Ratio = tuple[int, int]


@lru_cache(maxsize=8)
def row_mixed(columns: int, width: int, least: int) -> Circuit:
    """Entropy ℓ-diversity: an entropy of at least `least`, a number in the fixed point of `log2`."""
    build, cells = row_inputs(columns, width)
    build.output("good", [mixed(build, cells, least)])
    return build.build()


@lru_cache(maxsize=64)
def row_recursive(columns: int, width: int, most: Ratio, rank: int) -> Circuit:
    """Recursive (c,ℓ)-diversity: the largest cell is at most `most` times all from the one of this rank on."""
    build, cells = row_inputs(columns, width)
    build.output("good", [recursive(build, cells, most, rank)])
    return build.build()


@lru_cache(maxsize=64)
def row_close(columns: int, width: int, most: Ratio, n_records: int, *, ordered: bool) -> Circuit:
    """t-closeness: `close` of the row and of a whole of `n_records`, a further input."""
    build = Builder()
    shares = [build.input(f"row {party}", columns * width) for party in range(2)]
    whole = build.input("whole", columns * n_records.bit_length())
    cells = row_cells(build, shares, width)
    size = n_records.bit_length()
    there = [whole[at : at + size] for at in range(0, len(whole), size)]
    build.output("good", [close(build, cells, there, most, words.constant(n_records, size), ordered=ordered)])
    return build.build()


def mixed(build: Builder, cells: Sequence[Word], least: int, *, shallow: bool = False) -> Literal:
    """Test n · (log n − `least`) ≥ Σ h · log h, with n the sum of all cells h; it must be below 2^w."""
    room = PLACES + 7  # a logarithm is below 2⁶, and so is what is asked for: else nobody reaches it
    total = words.total(build, cells, shallow=shallow)
    weighed = []
    for cell in (*cells, total):
        log = log2_word(build, cell, shallow=shallow)
        wide = log + [FALSE] * (room + len(cell) - len(log))
        weighed.append(words.times(build, wide, cell, shallow=shallow))
    *inside, outside = weighed
    asked = times_public(build, [*total, *[FALSE] * room], min(max(least, 0), 1 << (PLACES + 6)), shallow=shallow)
    # Both sides are sums of positive numbers: nothing is below 0.
    left = words.total(build, [*inside, asked], shallow=shallow)
    enough = words.at_least(build, outside, left, shallow=shallow)
    return build.either(words.is_zero(build, total), enough)


def recursive(build: Builder, cells: Sequence[Word], most: Ratio, rank: int, *, shallow: bool = False) -> Literal:
    """Test r₁ ≤ most · (r_ℓ + … + r_m), and that the right is not 0, for cells sorted r₁ ≥ r₂ ≥ … and ℓ = `rank`."""
    remaining, first = [list(cell) for cell in cells], None
    nobody = words.is_zero(build, words.total(build, cells, shallow=shallow))
    for _ in range(min(rank - 1, len(cells))):
        largest, *others = remaining
        remaining = []
        for other in others:
            swap = words.less_than(build, largest, other, shallow=shallow)
            largest, smaller = words.exchange(build, swap, largest, other)
            remaining.append(smaller)
        first = first if first is not None else largest
    if first is None:
        _, first = words.arg_max(build, cells, shallow=shallow)
    if not remaining:
        return nobody
    tail = words.total(build, remaining, shallow=shallow)
    rare = at_most(build, first, tail, most, shallow=shallow)
    return build.either(nobody, build.both(rare, words.is_zero(build, tail) ^ 1))


def close(
    build: Builder,
    cells: Sequence[Word],
    whole: Sequence[Word],
    most: Ratio,
    size: Word,
    *,
    ordered: bool,
    scaled: bool = False,
    shallow: bool = False,
) -> Literal:
    """Test Σ |N·hᵢ − n·Wᵢ| ≤ most · n, for cells h of sum n, and a whole W of sum N = `size`; if `scaled`, most · n·N.

    In order, hᵢ and Wᵢ are the sums of the first i cells; otherwise the sum is of the differences above 0 alone,
    which is half of it.
    """
    total = words.total(build, cells, shallow=shallow)
    here, there = list(cells), list(whole)
    if ordered:
        here = list(accumulate(here, lambda a, b: words.add(build, a, b, shallow=shallow)))[:-1]
        there = list(accumulate(there, lambda a, b: words.add(build, a, b, shallow=shallow)))[:-1]
    room = [FALSE] * (len(size) + 1)  # for the product, and a sign
    further = []
    for h, w in zip(here, there, strict=True):
        found = words.times(build, [*h, *room], size, shallow=shallow)
        expected = words.times(build, [*total, *room], w, shallow=shallow)
        difference = words.subtract(build, found, expected, shallow=shallow)
        sign = difference[-1]
        if ordered:  # −d is the inverse of d − 1
            flipped = [build.xor(bit, sign) for bit in difference]
            one = [sign, *[FALSE] * (len(flipped) - 1)]
            further.append(words.add(build, flipped, one, shallow=shallow))
        else:
            further.append([build.both(bit, sign ^ 1) for bit in difference])
    if not further:
        return 1
    carries = [FALSE] * len(further).bit_length()
    distance = words.total(build, [[*each, *carries] for each in further], shallow=shallow)
    reference = [*total, *[FALSE] * (len(distance) - len(total))]
    if scaled:
        reference = words.times(build, reference, size, shallow=shallow)
    return at_most(build, distance, reference, most, shallow=shallow)
