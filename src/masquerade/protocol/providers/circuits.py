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
Of groups at their boundaries "good" and "divisible" are opened, so that what is empty and what is refused look alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from masquerade.crypto import FALSE, TRUE, Bits, Builder, Circuit, Literal, Word, at_most, to_bits, words
from masquerade.engine import Counts
from masquerade.privacy import CircuitCounts
from masquerade.protocol.providers.criterion import Criterion


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
        _stepped(np.minimum(counts, 2 * criterion.k), count_bits(criterion)),
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
    return sum(_levels(count_bits(criterion))) + 3 + sum(diverse) + counted * shape.most_records.bit_length()


_FEW = 3  # bits more, or less, than none that are counted one by one
_DIGIT = 3  # binary digits of a count that are compared at a time


def _levels(width: int) -> list[int]:
    """Return how many values beside 0 each digit of a count has, the lowest first."""
    return [(1 << min(_DIGIT, width - start)) - 1 for start in range(0, width, _DIGIT)]


def _stepped(counts: Counts, width: int) -> Bits:
    """Encode counts by whether each of their digits is above 0, above 1, …"""
    rows = []
    for digit, most in enumerate(_levels(width)):
        value = counts >> (_DIGIT * digit) & most
        rows += [value > level for level in range(most)]
    return np.array(rows, np.uint8)


class Count(NamedTuple):
    """A count that one provider knows: as a word, and for each digit which value it has and which it exceeds."""

    word: Word
    is_value: list[list[Literal]]
    exceeds: list[list[Literal]]

    @classmethod
    def of(cls, build: Builder, steps: Word, levels: Sequence[int]) -> Count:
        """Read a count that was encoded by `_stepped`. No AND: whoever knows it computes all of this alone."""
        word: Word = []
        is_value, exceeds = [], []
        first = 0
        for most in levels:
            above = steps[first : first + most]
            first += most
            for place in range(most.bit_length()):
                # The bit of this place changes at every multiple of 2^place.
                word.append(build.parity(above[(1 << place) - 1 :: 1 << place]))
            bounds = [TRUE, *above, FALSE]
            is_value.append([build.xor(*bounds[at : at + 2]) for at in range(most + 1)])
            exceeds.append(above)
        return cls(word, is_value, exceeds)

    def is_less(self, build: Builder, other: Count) -> Literal:
        """Compare with another provider's count, two ANDs deep where counts have two digits."""
        less = FALSE
        for own, higher, values in zip(self.is_value, other.exceeds, other.is_value, strict=True):
            # Exactly one value is ours, so that XOR equals OR.
            digit_less = build.parity([build.both(a, b) for a, b in zip(own, higher, strict=False)])
            if less == FALSE:
                less = digit_less
                continue
            digit_equal = build.parity([build.both(a, b) for a, b in zip(own, values, strict=True)])
            less = build.xor(digit_less, build.both(digit_equal, less))
        return less


class Judged(NamedTuple):
    """What is known of a part."""

    good: Literal
    empty: Literal
    enough: Literal
    divisible: Literal  # and good
    present: list[list[Word]]  # for each attribute whose different values are counted: one word a provider


def judged(build: Builder, criterion: Criterion, shape: Shape, inputs: list[Word]) -> Judged:
    """Build the test of `Criterion.good` and `Criterion.divisible`; `inputs` are those of `private_input`."""
    width, k = count_bits(criterion), criterion.k
    levels = _levels(width)
    first = sum(levels)
    given = [Count.of(build, word[:first], levels) for word in inputs]
    some_k, alone, some = ([word[first + at] for word in inputs] for at in range(3))
    empty = build.any_of(some) ^ 1
    # Of the counts that are left: whether they reach 2k, and whether k.
    left = _kept(build, [count.word for count in given], criterion, given)
    twice, rest = words.reaches(build, _columns(left), 2 * k)
    enough = build.either(twice, _at_least(build, rest, (1 << len(rest)) - k))
    diverse, presence = [], []
    first += 3
    for labels, (_, least) in zip(shape.labels, criterion.diversities, strict=False):
        presence.append([word[first : first + len(labels)] for word in inputs])
        diverse.append(_diverse(build, presence[-1], criterion, least))
        first += len(labels)
    # What is left is known late: everything else is combined before, so that a single AND comes after it.
    all_alone = build.all_of([*alone, empty ^ 1])
    if_enough = build.both(build.all_of([*diverse, empty ^ 1]), all_alone ^ 1)
    good = build.xor(build.both(enough, if_enough), all_alone)
    # Good and divisible: twice as many are left, or some provider has k and all together have 2k.
    otherwise = FALSE
    if criterion.m:  # otherwise all are left
        together = _reach_together(build, [count.word for count in given], 2 * k)
        otherwise = build.both(build.any_of(some_k), together)
    divisible_if_enough = build.both(if_enough, otherwise)
    divisible_alone = build.both(all_alone, otherwise)
    if_twice = build.parity((if_enough, all_alone, divisible_if_enough, divisible_alone))
    divisible = build.parity((build.both(twice, if_twice), build.both(enough, divisible_if_enough), divisible_alone))
    tests = _on_counts(build, criterion, shape, [word[first:] for word in inputs], some)
    if tests:
        counts_good = build.all_of(tests)
        good, divisible = build.both(good, counts_good), build.both(divisible, counts_good)
    return Judged(good, empty, enough, divisible, presence)


@lru_cache(maxsize=8)
def private(criterion: Criterion, shape: Shape) -> Circuit:
    """Build the circuit that tells which of four verdicts a part gets."""
    build = Builder()
    width = input_bits(criterion, shape)
    inputs = [build.input(f"provider {each}", width) for each in range(criterion.n_providers)]
    good, empty, enough, divisible, _ = judged(build, criterion, shape, inputs)
    build.output("good", [good])
    build.output("more", [build.xor(empty, divisible)])  # never both
    build.output("enough", [enough])
    build.output("divisible", [divisible])
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
        [build.both(filled[child], build.either(before[child], after[child]) ^ 1) for child in range(n_children)],
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
            by_provider = [[word[start : start + digits] for start in range(first, stop, digits)] for word in inputs]
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
            counts = CircuitCounts(cells, wholes.get(at, ()), shape.most_records, bounded)
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
        words.total(build, [nothing, *(cell for at, cell in enumerate(cells) if at not in values)], shallow=True)
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
    return words.add_columns(build, _columns(_kept(build, counts, criterion))) or [FALSE]


def _kept(build: Builder, counts: list[Word], criterion: Criterion, given: list[Count] | None = None) -> list[Word]:
    """Replace the m largest counts by 0; `given` are the same numbers if one provider knows each."""
    n, m = criterion.n_providers, criterion.m
    if m >= n:
        return []
    if not m:
        return counts
    # All pairs are compared at once: a provider's rank is the number of its victories.
    later_wins = {
        (early, late): given[early].is_less(build, given[late])
        if given is not None
        else words.less_than(build, counts[early], counts[late], shallow=True)
        for early, late in combinations(range(n), 2)
    }
    stays = []
    for each in range(n - 1):
        won = [later_wins[other, each] for other in range(each)]
        won += [later_wins[each, other] ^ 1 for other in range(each + 1, n)]
        stays.append(_at_least_of(build, won, n - m) ^ 1)
    stays.append(build.parity(stays) ^ ((n - m) & 1))  # n − m stay
    return [[build.both(bit, each) for bit in count] for count, each in zip(counts, stays, strict=True)]


def _reach_together(build: Builder, counts: Sequence[Word], bound: int) -> Literal:
    """Test whether counts add up to a bound: those of each half by that half alone, so that few hold most wires."""
    half = len(counts) // 2
    if half < 2:
        return words.reaches(build, _columns(counts), bound)[0]
    reached, one = words.reaches(build, _columns(counts[:half]), bound)  # with what the bound lacks
    exceeded, other = words.reaches(build, _columns(counts[half:]), 1 << len(one))
    carry = words.less_than(build, words.inverted(other), one)
    return build.any_of([reached, exceeded, carry])


def _at_least_of(build: Builder, bits: Sequence[Literal], bound: int) -> Literal:
    """Test whether at least `bound` of the bits are set, each of which few providers hold.

    Where the bound is near either end, how many are set (or not) is found for each half of the bits apart, one literal
    for each number: an AND of both is then of wires that half of the providers hold each.
    """
    if bound - 1 <= _FEW:
        return _at_most_of(build, bits, bound - 1) ^ 1
    if len(bits) - bound <= _FEW:
        return _at_most_of(build, [bit ^ 1 for bit in bits], len(bits) - bound)
    return words.at_least_of(build, bits, bound)


def _at_most_of(build: Builder, bits: Sequence[Literal], most: int) -> Literal:
    if most < 0 or most >= len(bits):
        return TRUE if most >= 0 else FALSE
    half = len(bits) // 2
    one, other = (_numbers(build, part, most) for part in (bits[:half], bits[half:]))
    # Exactly one of each half's literals is true, so that XOR equals OR.
    return build.parity([build.both(each, build.parity(other[: most + 1 - at])) for at, each in enumerate(one)])


def _numbers(build: Builder, bits: Sequence[Literal], most: int) -> list[Literal]:
    """Return, for each number up to `most`, whether as many bits are set."""
    if len(bits) <= 1:
        return [bits[0] ^ 1, bits[0]][: most + 1] if bits else [TRUE]
    half = len(bits) // 2
    one, other = (_numbers(build, part, len(bits)) for part in (bits[:half], bits[half:]))

    def exactly(number: int) -> Literal:
        pairs = [(at, number - at) for at in range(len(one)) if 0 <= number - at < len(other)]
        return build.parity([build.both(one[a], other[b]) for a, b in pairs])

    found: dict[int, Literal] = {}
    odd = build.parity(bits)
    for parity, of_parity in ((0, odd ^ 1), (1, odd)):
        # Of the numbers of one parity the last follows from the others.
        numbers = range(parity, len(bits) + 1, 2)
        wanted = [number for number in numbers if number <= most]
        beyond = [number for number in numbers if number > most]
        direct = wanted
        if wanted and len(beyond) <= 1:
            hardest = max(wanted, key=lambda number: min(number, len(bits) - number))
            direct = [*(number for number in wanted if number != hardest), *beyond]
        found |= {number: exactly(number) for number in direct}
        for number in wanted:
            if number not in found:
                found[number] = build.parity([of_parity, *(found[each] for each in direct)])
    return [found[number] for number in range(min(most, len(bits)) + 1)]


def _columns(numbers: Sequence[Word]) -> list[list[Literal]]:
    """Return the bits of each place."""
    return [list(column) for column in zip(*numbers, strict=True)]


def _diverse(build: Builder, present: list[Word], criterion: Criterion, least: int) -> Literal:
    """Test that every coalition leaves `least` values; `present` has one word per provider, one bit per value."""
    by_value = [list(holders) for holders in zip(*present, strict=True)]
    test = criterion.exact_test(len(by_value), least)
    if test is None:
        safe = [_at_least_of(build, holders, criterion.m + 1) for holders in by_value]
        return words.at_least_of(build, safe, least)
    held = by_value if test.leaves_out_values else present
    left = _unions(build, held, test.left_out)
    return build.all_of([words.at_least_of(build, word, test.least) for word in left])


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


def _at_least(build: Builder, number: Word, bound: int) -> Literal:
    if bound <= 0:
        return TRUE
    if bound >> len(number):
        return FALSE
    return words.at_least(build, number, words.constant(bound, len(number)))


# --- fitness circuits ---------------------------------------------------------------------------------------
# Circuits that find the fittest cut of a group: the privacy fitness score of each part, and then the best cut.
#
# circuit     input                                                   output             ANDs
# scored      "provider p": as for `circuits.private`, and its        "fine", "fitness"  those of `private`, n·w to add
#          count of the part                                                          up, n a value, w·w a weight
# fittest     "cut c": "fine" and "fitness" of each of its parts      "fittest"          about 3 w a part, w² a cut
#
# What `scored` puts out is never opened: its shares go into `fittest`, which opens one bit for each cut, set for the
# one whose least fit part is fittest. A cut is out of the question if some part is neither empty nor private.


def score_bits(criterion: Criterion, shape: Shape) -> int:
    """Return the binary digits of a fitness score."""
    record, values = criterion.fitness_weights
    most = shape.most_records * record
    most += sum(weight * len(labels) for weight, labels in zip(values, shape.labels, strict=False))
    return most.bit_length()


@lru_cache(maxsize=8)
def scored(criterion: Criterion, shape: Shape) -> Circuit:
    """Build the score of a part, the highest if it is empty, and whether it may be made."""
    build = Builder()
    first, digits, width = (input_bits(criterion, shape), shape.most_records.bit_length(), score_bits(criterion, shape))
    inputs = [build.input(f"provider {each}", first + digits) for each in range(criterion.n_providers)]
    found = judged(build, criterion, shape, [word[:first] for word in inputs])
    record, values = criterion.fitness_weights
    count = words.total(build, [word[first:] for word in inputs], shallow=True)
    terms = [_weighted(build, count, record, width)]
    for present, weight in zip(found.present, values, strict=True):
        held = [build.any_of(list(holders)) for holders in zip(*present, strict=True)]
        terms.append(_weighted(build, words.population(build, held), weight, width))
    score = words.total(build, terms, shallow=True)
    build.output("fine", [build.either(found.good, found.empty)])
    build.output("fitness", [build.either(bit, found.empty) for bit in score])
    return build.build()


@lru_cache(maxsize=256)
def fittest(n_parts: tuple[int, ...], width: int) -> Circuit:
    """Build the choice between cuts into `n_parts` parts, whose scores have `width` digits."""
    build = Builder()
    keys: list[Word] = []
    inputs = [build.input(f"cut {cut}", parts * (1 + width)) for cut, parts in enumerate(n_parts)]
    for given in inputs:
        each = [given[start : start + 1 + width] for start in range(0, len(given), 1 + width)]
        allowed = build.all_of([part[0] for part in each])
        least = _least(build, [part[1:] for part in each])
        keys.append([*least, allowed])
    best = words.champions(build, keys, shallow=True)
    build.output("fittest", [build.both(bit, key[-1]) for bit, key in zip(best, keys, strict=True)])
    return build.build()


def _weighted(build: Builder, number: Word, weight: int, width: int) -> Word:
    padded = [*number, *[FALSE] * width][:width]
    return words.times(build, padded, words.constant(weight, weight.bit_length()), shallow=True)


def _least(build: Builder, scores: Sequence[Word]) -> Word:
    least = scores[0]
    for score in scores[1:]:
        least = words.multiplex(build, words.less_than(build, score, least, shallow=True), least, score)
    return least
