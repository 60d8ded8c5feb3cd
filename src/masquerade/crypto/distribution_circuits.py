"""Tests of how a group's shared counts are distributed: entropy, the most frequent value, distance from a whole.

circuit          inputs                        output   ANDs, for Q cells of w bits
row_mixed        "row 0", "row 1"              "good"   Q · (2,400 + 72·w)
row_recursive    "row 0", "row 1"              "good"   Q · 2·ℓ·w
row_close        "row 0", "row 1", "whole"     "good"   Q · 2·w², and as many again where values are in order

"whole" are the counts of the whole table, which one party knows and gives: nobody else learns them. An empty row is
good. The tests work on words of any circuit (`mixed`, `recursive`, `close`): `shallow` is for n-party sharing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, Builder, Circuit, Literal, Word
from masquerade.crypto.count_circuits import at_most, row_cells, row_inputs, times_public
from masquerade.crypto.fixed_log import PLACES, log2_word

Ratio = tuple[int, int]


@lru_cache(maxsize=8)
def row_mixed(columns: int, width: int, least: int, together: int = 1) -> Circuit:
    """Entropy ℓ-diversity: an entropy of at least `least`, a number in the fixed point of `fixed_log`."""
    build, cells = row_inputs(columns, width, together)
    build.output("good", [mixed(build, cells, least)])
    return build.build()


@lru_cache(maxsize=64)
def row_recursive(columns: int, width: int, most: Ratio, rank: int, together: int = 1) -> Circuit:
    """Recursive (c,ℓ)-diversity: the largest cell is at most `most` times all from the one of this rank on."""
    build, cells = row_inputs(columns, width, together)
    build.output("good", [recursive(build, cells, most, rank)])
    return build.build()


@lru_cache(maxsize=64)
def row_close(
    columns: int, width: int, most: Ratio, n_records: int, *, ordered: bool, together: int = 1
) -> Circuit:
    """t-closeness: `close` of the row and of a whole of `n_records`, a further input."""
    build = Builder()
    shares = [build.input(f"row {party}", columns * width) for party in range(2)]
    whole = build.input("whole", columns * n_records.bit_length())
    cells = row_cells(build, shares, width, together)
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
    asked = times_public(
        build, [*total, *[FALSE] * room], min(max(least, 0), 1 << (PLACES + 6)), shallow=shallow
    )
    # Both sides are sums of positive numbers: nothing is below 0.
    left = words.total(build, [*inside, asked], shallow=shallow)
    enough = words.at_least(build, outside, left, shallow=shallow)
    return build.either(words.is_zero(build, total), enough)


def recursive(
    build: Builder, cells: Sequence[Word], most: Ratio, rank: int, *, shallow: bool = False
) -> Literal:
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
