"""Circuits on counts that two parties share: thresholds, Secure_COM, set intersection, and one-bit tests of table rows.

circuit            inputs                        output       ANDs
reached            "share 0", "share 1"          "reached"    w − 1
less_than_public   "share 0", "share 1", "mask"  "masked"     about 2w; Secure_COM of the DkA paper
fewer_in_common    "bits 0", "bits 1", "mask"    "masked"     about 2M; circuit-only SSI_t of the DkA paper
equal_blocks       "bits 0", "bits 1"            "holds"      n − 1 a block of n
both               "bit 0", "bit 1"              "both"       1
row_…              "row 0", "row 1"              "good"       of the row's cells: see each
row_different      "row 0", "minus 1", "total …" "good"       w a cell
sized              those of the row's circuit    "good"       those of the row's circuit, and about w a cell

Shares are additive modulo 2^w. A row is the concatenation of its cells' words, lowest bits first. `together` is how
many neighbouring cells are shared as one number, modulo 2^(w · together): its sums carry from cell to cell. "minus 1"
is party 1's row with each word's sign changed; "total 0" and "total 1" are what each party's words of the row add up
to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

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
def less_than_public(width: int, threshold: int) -> Circuit:
    """Secure_COM (Algorithm 3): (share 0 + share 1 < threshold) ⊕ mask."""
    build = Builder()
    shares = [build.input(f"share {party}", width) for party in range(2)]
    (mask,) = build.input("mask", 1)
    total = words.add(build, *shares)
    build.output("masked", [build.xor(below(build, total, threshold), mask)])
    return build.build()


@lru_cache(maxsize=64)
def fewer_in_common(size: int, threshold: int) -> Circuit:
    """Algorithm 8: (how many places are set in both bit strings < threshold) ⊕ mask."""
    build = Builder()
    left, right = (build.input(f"bits {party}", size) for party in range(2))
    (mask,) = build.input("mask", 1)
    common = words.population(build, [build.both(a, b) for a, b in zip(left, right, strict=True)])
    build.output("masked", [build.xor(below(build, common, threshold), mask)])
    return build.build()


def all_equal(size: int) -> Circuit:
    """Test whether two bit strings are equal: every XOR of their bits is 0."""
    return equal_blocks((size,))


@lru_cache(maxsize=8)
def equal_blocks(sizes: tuple[int, ...]) -> Circuit:
    """Test whether two bit strings are equal in each of several neighbouring blocks."""
    build = Builder()
    left, right = (build.input(f"bits {party}", sum(sizes)) for party in range(2))
    same = [build.xor(a, b) ^ 1 for a, b in zip(left, right, strict=True)]
    ends = list(accumulate(sizes))
    build.output(
        "holds", [build.all_of(same[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    )
    return build.build()


@lru_cache(maxsize=1)
def both() -> Circuit:
    """Compute the AND of the parties' bits."""
    build = Builder()
    (left,), (right,) = build.input("bit 0", 1), build.input("bit 1", 1)
    build.output("both", [build.both(left, right)])
    return build.build()


@lru_cache(maxsize=64)
def row_distinct(columns: int, width: int, least: int, together: int = 1) -> Circuit:
    """Distinct ℓ-diversity: at least `least` cells are non-empty, or all are empty. About 2·w ANDs per cell."""
    build, cells = row_inputs(columns, width, together)
    present = [words.is_zero(build, cell) ^ 1 for cell in cells]
    different = words.population(build, present)
    nobody = build.all_of([bit ^ 1 for bit in present])
    build.output("good", [build.either(nobody, below(build, different, least) ^ 1)])
    return build.build()


@lru_cache(maxsize=64)
def row_different(columns: int, width: int, least: int) -> Circuit:
    """Distinct ℓ-diversity as `row_distinct`, where parties prepare their shares: about w ANDs per cell.

    A cell is empty where one share is minus the other, which takes no sum. Nor does the row's total, of which each
    party adds up its shares by itself.
    """
    build = Builder()
    left, right = build.input("row 0", columns * width), build.input("minus 1", columns * width)
    total = words.add(build, build.input("total 0", width), build.input("total 1", width))
    cells = (slice(at, at + width) for at in range(0, columns * width, width))
    different = words.population(build, [words.equal(build, left[cell], right[cell]) ^ 1 for cell in cells])
    build.output("good", [build.either(words.is_zero(build, total), below(build, different, least) ^ 1)])
    return build.build()


@lru_cache(maxsize=64)
def row_bounded(
    columns: int,
    width: int,
    most: tuple[int, int],
    bounded: tuple[int, ...] | None = None,
    k: int = 1,
    together: int = 1,
) -> Circuit:
    """(α,k) and confidence bounding: no bounded cell exceeds most[0] / most[1] of the row, whose total is at least k.

    An empty row is good. `bounded` are the cells with a bound (None: all). The row's total must be below 2^width.
    """
    numerator, denominator = most
    if not 0 <= numerator <= denominator or not denominator:
        raise ParameterError(f"a bound must be a fraction between 0 and 1. Got {numerator}/{denominator}.")
    build, cells = row_inputs(columns, width, together)
    total = words.total(build, cells)
    which = range(columns) if bounded is None else bounded
    tests = [at_most(build, cells[at], total, most) for at in which]
    tests.append(below(build, total, k) ^ 1)
    build.output("good", [build.either(words.is_zero(build, total), build.all_of(tests))])
    return build.build()


def at_most(
    build: Builder,
    x: Sequence[Literal],
    y: Sequence[Literal],
    most: tuple[int, int],
    *,
    shallow: bool = False,
) -> Literal:
    """Compute x ≤ most · y, for a fraction."""
    numerator, denominator = most
    room = [FALSE] * max(numerator.bit_length(), denominator.bit_length())  # for the products
    bound = times_public(build, [*y, *room], numerator, shallow=shallow)
    product = times_public(build, [*x, *room], denominator, shallow=shallow)
    return words.at_least(build, bound, product, shallow=shallow)


def sized(judge: Circuit, width: int, least: int, together: int = 1, *, or_empty: bool = True) -> Circuit:
    """Judge a row as one of the above, and refuse one whose total is neither at least `least` nor, `or_empty`, 0.

    So a group that is too small gives the same answer whatever is in it. Gates that both parts need are built once.
    """
    build = Builder()
    inputs = {name: build.input(name, judge.width(name)) for name in judge.inputs}
    if "total 0" in inputs:
        total = words.add(build, inputs["total 0"], inputs["total 1"])
    else:
        total = words.total(build, row_cells(build, [inputs["row 0"], inputs["row 1"]], width, together))
    (good,) = build.include(judge, inputs)["good"]
    large = below(build, total, least) ^ 1
    allowed = build.either(words.is_zero(build, total), large) if or_empty else large
    build.output("good", [build.both(good, allowed)])
    return build.build()


def row_inputs(columns: int, width: int, together: int) -> tuple[Builder, list[Word]]:
    """Return a builder, and the cells of a row whose two shares are its inputs."""
    build = Builder()
    shares = [build.input(f"row {party}", columns * width) for party in range(2)]
    return build, row_cells(build, shares, width, together)


def row_cells(build: Builder, shares: Sequence[Word], width: int, together: int) -> list[Word]:
    """Return the cells of a row from its two shares."""
    cells: list[Word] = []
    for at in range(0, len(shares[0]), together * width):
        number = words.add(build, *(share[at : at + together * width] for share in shares))
        cells += [number[start : start + width] for start in range(0, len(number), width)]
    return cells


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
