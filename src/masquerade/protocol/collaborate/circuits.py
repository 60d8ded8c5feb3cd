"""The circuits that all providers evaluate together: whether a part is private, and which of its children has records.

Each provider's input is one word per part. A count is capped at 2k: a provider with more records of a part either is
among the m largest, where its count does not matter, or is left, and then 2k records are left. So words are short.

circuit     input "provider p"                                  output           ANDs
private     count up to 2k, k, alone, some; values present      "good", "more"   n²/2 · log 2k + 30 n, and n a value
                                                                                 or, one by one, 2 to 3 a look-up;
            counts of values, where they are asked about                         their own tests, see below
sole        which children it has records of                    "sole"           about (n + 2) a child
any_of      bits                                                "any"            n − 1 a bit

Requirements on how often values occur take each provider's counts of every value, in as many binary digits as all
records may need. Without coalitions the counts are added up, n·w ANDs a value, and the model's own test follows
(crypto/distribution_circuits, shallow); against coalitions a bound on shares takes n²/2 · w ANDs for each value, and
for recursive ℓ-diversity for each set of ℓ − 1 values.

A part gets one of four verdicts, hence two output bits. If it is "good", "more" says that it is divisible; if not, that
it is empty. "enough", that k records are left, is opened only for the group of all records, and only if it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, TRUE, Bits, Builder, Circuit, Literal, Word, to_bits
from masquerade.crypto.count_circuits import at_most
from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import SharedCounts
from masquerade.protocol.collaborate.criterion import Criterion


def count_bits(criterion: Criterion) -> int:
    """Return the binary digits of a count capped at 2k."""
    return (2 * criterion.k).bit_length()


class Shape(NamedTuple):
    """The names of the values of each sensitive attribute, and a number that all records together do not exceed."""

    labels: tuple[tuple[str, ...], ...] = ()
    most_records: int = 0


def private_input(
    criterion: Criterion,
    counts: Counts,
    tallies: Sequence[Counts],
    wholes: Sequence[Counts] = (),
    most_records: int = 0,
) -> Bits:
    """Encode one provider's input: its counts of the parts, and of the values there (parts × values) and of all."""
    alone = criterion.alone(counts, tallies)
    rows = [
        to_bits(np.minimum(counts, 2 * criterion.k), count_bits(criterion)),
        (counts >= criterion.k)[None].astype(np.uint8),
        alone[None].astype(np.uint8),
        (counts > 0)[None].astype(np.uint8),
        *((tally > 0).T.astype(np.uint8) for tally, _ in zip(tallies, criterion.diversities, strict=False)),
    ]
    digits = most_records.bit_length()
    for at, compared in _counted(criterion):
        rows += [to_bits(column, digits) for column in tallies[at].T]
        if compared:
            rows += [np.repeat(to_bits([count], digits), len(counts), axis=1) for count in wholes[at]]
    return np.concatenate(rows)


def _counted(criterion: Criterion) -> list[tuple[int, bool]]:
    """Return the sensitive attributes whose counts are asked for, and whether those of the whole are, too."""
    found = dict[int, bool]()
    for part in criterion.on_counts:
        assert part.sensitive is not None  # which all of them are about
        at = criterion.attributes.index(part.sensitive)
        found[at] = found.get(at, False) or part.compares_with_whole
    return sorted(found.items())


def input_bits(criterion: Criterion, shape: Shape) -> int:
    """Return how many bits `private_input` has of a part."""
    diverse = [len(labels) for labels, _ in zip(shape.labels, criterion.diversities, strict=False)]
    counted = sum((1 + compared) * len(shape.labels[at]) for at, compared in _counted(criterion))
    return count_bits(criterion) + 3 + sum(diverse) + counted * shape.most_records.bit_length()


class Judged(NamedTuple):
    """What is known of a part."""

    good: Literal
    empty: Literal
    enough: Literal
    divisible: Literal
    present: list[list[Word]]  # for each attribute whose different values are counted: one word a provider


def judged(build: Builder, criterion: Criterion, shape: Shape, inputs: list[Word]) -> Judged:
    """Build the test of `Criterion.good` and `Criterion.divisible`; `inputs` are those of `private_input`."""
    width, k = count_bits(criterion), criterion.k
    counts = [word[:width] for word in inputs]
    some_k, alone, some = ([word[width + at] for word in inputs] for at in range(3))
    empty = build.any_of(some) ^ 1
    left = _left(build, counts, criterion)
    enough = _at_least(build, left, k)
    together, presence = [enough], []
    first = width + 3
    for labels, (_, least) in zip(shape.labels, criterion.diversities, strict=False):
        presence.append([word[first : first + len(labels)] for word in inputs])
        together.append(_diverse(build, presence[-1], criterion, least))
        first += len(labels)
    good = build.both(build.either(build.all_of(alone), build.all_of(together)), empty ^ 1)
    good = build.all_of([good, *_on_counts(build, criterion, shape, [word[first:] for word in inputs], some)])
    divisible = _at_least(build, left, 2 * k)
    if criterion.m:  # otherwise all are left
        doubled = _at_least(build, _total(build, counts), 2 * k)
        divisible = build.either(divisible, build.both(build.any_of(some_k), doubled))
    return Judged(good, empty, enough, divisible, presence)


@lru_cache(maxsize=8)
def private(criterion: Criterion, shape: Shape) -> Circuit:
    """Build the circuit that tells which of four verdicts a part gets."""
    build = Builder()
    width = input_bits(criterion, shape)
    inputs = [build.input(f"provider {each}", width) for each in range(criterion.n_providers)]
    good, empty, enough, divisible, _ = judged(build, criterion, shape, inputs)
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


def _on_counts(
    build: Builder, criterion: Criterion, shape: Shape, inputs: list[Word], some: list[Literal]
) -> list[Literal]:
    """Test what the counts of values must satisfy; `inputs` is what each provider gives of them."""
    digits, first = shape.most_records.bit_length(), 0
    tallies, wholes = dict[int, list[list[Word]]](), dict[int, list[Word]]()
    for at, compared in _counted(criterion):
        for of_whole in (False, True) if compared else (False,):
            stop = first + len(shape.labels[at]) * digits
            by_provider = [
                [word[start : start + digits] for start in range(first, stop, digits)] for word in inputs
            ]
            if of_whole:
                wholes[at] = _sums(build, by_provider)
            else:
                tallies[at] = by_provider
            first = stop
    tests = []
    for part in criterion.on_counts:
        assert part.sensitive is not None
        at = criterion.attributes.index(part.sensitive)
        labels = shape.labels[at]
        bounded = [each for each, label in enumerate(labels) if part.values is None or label in part.values]
        if not criterion.m:
            cells = _sums(build, tallies[at])
            counts = SharedCounts(cells, wholes.get(at, ()), shape.most_records, bounded)
            tests.append(part.shared_test(build, counts))
            continue
        most = part.worst_share(shape.most_records)
        assert most is not None  # or the criterion would not have taken it
        together = min(1 + part.passed_over, len(bounded))
        sets = combinations(bounded, together)
        tests += [_share_kept(build, tallies[at], each, criterion, most, some) for each in sets]
    return tests


def _sums(build: Builder, by_provider: list[list[Word]]) -> list[Word]:
    """Add up each value's counts."""
    return [words.total(build, column, shallow=True) for column in zip(*by_provider, strict=True)]


def _share_kept(
    build: Builder,
    tally: list[list[Word]],
    values: Sequence[int],
    criterion: Criterion,
    most: tuple[int, int],
    some: list[Literal],
) -> Literal:
    """Test that no coalition brings one of some values above its share beside all others than these.

    The worst leaves all records of the value, and takes out all others.
    """
    totals = [words.total(build, [cells[value] for cells in tally], shallow=True) for value in values]
    total = words.arg_max(build, totals, shallow=True)[1] if len(totals) > 1 else totals[0]
    nothing: Word = [FALSE] * len(total)
    others = [
        words.total(
            build, [nothing, *(cell for at, cell in enumerate(cells) if at not in values)], shallow=True
        )
        for cells in tally
    ]
    left = (_left(build, others, criterion) + nothing)[: len(total)]
    # The one that is left where m or fewer feed the part. Where more do, their sum is no less.
    feeding = [[build.both(bit ^ 1, each) for bit in word] for word, each in zip(others, some, strict=True)]
    _, most_inverted = words.arg_max(build, feeding, shallow=True)
    fewest = words.inverted(most_inverted)
    left = words.multiplex(build, words.less_than(build, left, fewest, shallow=True), left, fewest)
    within = words.add(build, total, left, shallow=True)
    return at_most(build, total, within, most, shallow=True)


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
