"""The circuits that all providers evaluate together: whether a part is private, and which of its children has records.

Each provider's input is one word per part. A count is capped at 2k: a provider with more records of a part either is
among the m largest, where its count does not matter, or is left, and then 2k records are left. So words are short.

circuit     input "provider p"                                  output           ANDs
private     count up to 2k, k, alone, some; values present      "good", "more"   n²/2 · log 2k + 30 n, and n a value
                                                                                 or, one by one, 2 to 3 a look-up
sole        which children it has records of                    "sole"           about (n + 2) a child
any_of      bits                                                "any"            n − 1 a bit

A part gets one of four verdicts, hence two output bits. If it is "good", "more" says that it is divisible; if not, that
it is empty. "enough", that k records are left, is opened only for the group of all records, and only if it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, TRUE, Bits, Builder, Circuit, Literal, Word, to_bits
from masquerade.engine.counts import Counts, Flags
from masquerade.protocol.collaborate.criterion import Criterion


def count_bits(criterion: Criterion) -> int:
    """Return the binary digits of a count capped at 2k."""
    return (2 * criterion.k).bit_length()


def private_input(criterion: Criterion, counts: Counts, present: Sequence[Flags]) -> Bits:
    """Encode one provider's input: its counts of the parts, and which values it has there (parts × values)."""
    alone = criterion.alone(counts, present)
    rows = [
        to_bits(np.minimum(counts, 2 * criterion.k), count_bits(criterion)),
        (counts >= criterion.k)[None].astype(np.uint8),
        alone[None].astype(np.uint8),
        (counts > 0)[None].astype(np.uint8),
        *(flags.T.astype(np.uint8) for flags in present),
    ]
    return np.concatenate(rows)


@lru_cache(maxsize=8)
def private(criterion: Criterion, n_values: tuple[int, ...]) -> Circuit:
    """Build the test of `Criterion.good` and `Criterion.divisible`; `n_values` is per sensitive attribute."""
    build = Builder()
    width, k = count_bits(criterion), criterion.k
    inputs = [
        build.input(f"provider {each}", width + 3 + sum(n_values)) for each in range(criterion.n_providers)
    ]
    counts = [word[:width] for word in inputs]
    some_k, alone, some = ([word[width + at] for word in inputs] for at in range(3))
    empty = build.any_of(some) ^ 1
    left = _left(build, counts, criterion)
    enough = _at_least(build, left, k)
    together = [enough]
    first = width + 3
    for size, (_, least) in zip(n_values, criterion.diversities, strict=True):
        present = [word[first : first + size] for word in inputs]
        together.append(_diverse(build, present, criterion, least))
        first += size
    good = build.both(build.either(build.all_of(alone), build.all_of(together)), empty ^ 1)
    divisible = _at_least(build, left, 2 * k)
    if criterion.m:  # otherwise all are left
        doubled = _at_least(build, _total(build, counts), 2 * k)
        divisible = build.either(divisible, build.both(build.any_of(some_k), doubled))
    build.output("good", [good])
    build.output("more", [build.xor(empty, build.both(good, build.xor(divisible, empty)))])
    build.output("enough", [enough])
    return build.build()


@lru_cache(maxsize=64)
def sole(n_providers: int, n_children: int) -> Circuit:
    """Build the circuit that marks the only child with records; no bit is set when several have some."""
    build = Builder()
    inputs = [build.input(f"provider {each}", n_children) for each in range(n_providers)]
    filled = [build.any_of([word[child] for word in inputs]) for child in range(n_children)]
    before, after = [FALSE], [FALSE]  # whether some child before, or after, has records
    for child in range(n_children - 1):
        before.append(build.either(before[-1], filled[child]))
        after.append(build.either(after[-1], filled[-1 - child]))
    after.reverse()
    build.output(
        "sole",
        [
            build.both(filled[child], build.either(before[child], after[child]) ^ 1)
            for child in range(n_children)
        ],
    )
    return build.build()


@lru_cache(maxsize=8)
def any_of(n_providers: int) -> Circuit:
    """Build the OR of one bit from each provider."""
    build = Builder()
    inputs = [build.input(f"provider {each}", 1)[0] for each in range(n_providers)]
    build.output("any", [build.any_of(inputs)])
    return build.build()


def _left(build: Builder, counts: list[Word], criterion: Criterion) -> Word:
    """Sum the counts without the m largest."""
    n, m = criterion.n_providers, criterion.m
    if m >= n:
        return [FALSE]
    if m:
        # All pairs are compared at once: a provider's rank is the number of its victories.
        later_wins = {
            (early, late): words.less_than(build, counts[early], counts[late])
            for early, late in combinations(range(n), 2)
        }
        kept = []
        for each in range(n):
            won = [later_wins[other, each] for other in range(each)]
            won += [later_wins[each, other] ^ 1 for other in range(each + 1, n)]
            stays = _at_least(build, words.population(build, won), n - m) ^ 1
            kept.append([build.both(bit, stays) for bit in counts[each]])
        counts = kept
    return _total(build, counts)


def _diverse(build: Builder, present: list[Word], criterion: Criterion, least: int) -> Literal:
    """Test that every coalition leaves `least` values; `present` has one word per provider, one bit per value."""
    by_value = [list(holders) for holders in zip(*present, strict=True)]
    test = criterion.exact_test(len(by_value), least)
    if test is None:
        safe = [_at_least(build, words.population(build, holders), criterion.m + 1) for holders in by_value]
        return _at_least(build, words.population(build, safe), least)
    held = by_value if test.leaves_out_values else present
    left = (words.population(build, word) for word in _unions(build, held, test.left_out))
    return build.all_of([_at_least(build, count, test.least) for count in left])


def _unions(build: Builder, sets: Sequence[Word], left_out: int) -> list[Word]:
    """Return the union of all sets but `left_out` of them, for each choice of those.

    Built from the unions of both halves, which many share: hardly more than one OR per bit of each result.
    """
    if left_out == len(sets):
        return [[FALSE] * len(sets[0])]
    if len(sets) == 1:
        return [sets[0]]
    half = len(sets) // 2
    fewest, most = max(left_out - (len(sets) - half), 0), min(left_out, half)
    return [
        [build.either(a, b) for a, b in zip(one, other, strict=True)]
        for out in range(fewest, most + 1)
        for others in [_unions(build, sets[half:], left_out - out)]
        for one in _unions(build, sets[:half], out)
        for other in others
    ]


def _total(build: Builder, numbers: Sequence[Word]) -> Word:
    """Add the numbers column by column: three bits of a column become one, and one of the next."""
    columns: list[list[Literal]] = [list(column) for column in zip(*numbers, strict=True)]
    total: Word = []
    while columns:
        column, *columns = columns
        carries: list[Literal] = []
        while len(column) > 1:
            a, b, c = [*column[:2], FALSE] if len(column) == 2 else column[:3]
            column = [*column[3:], build.parity((a, b, c))]
            carries.append(build.xor(c, build.both(build.xor(a, c), build.xor(b, c))))
        total.append(column[0])
        if carries:
            columns = [[*columns[0], *carries], *columns[1:]] if columns else [carries]
    return total


def _at_least(build: Builder, number: Word, bound: int) -> Literal:
    if bound <= 0:
        return TRUE
    if bound >> len(number):
        return FALSE
    return words.at_least(build, number, words.constant(bound, len(number)))
