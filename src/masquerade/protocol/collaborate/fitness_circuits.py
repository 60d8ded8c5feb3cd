"""Circuits that find the fittest cut of a group: the privacy fitness score of each part, and then the best cut.

circuit     input                                                   output             ANDs
scored      "provider p": as for `circuits.private`, and its        "fine", "fitness"  those of `private`, n·w to add
            count of the part                                                          up, n a value, w·w a weight
fittest     "cut c": "fine" and "fitness" of each of its parts      "fittest"          about 3 w a part, w² a cut

What `scored` puts out is never opened: its shares go into `fittest`, which opens one bit for each cut, set for the one
whose least fit part is fittest. A cut is out of the question if some part is neither empty nor private.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, Builder, Circuit, Word
from masquerade.protocol.collaborate.circuits import Shape, input_bits, judged
from masquerade.protocol.collaborate.criterion import Criterion


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
    first, digits, width = (
        input_bits(criterion, shape),
        shape.most_records.bit_length(),
        score_bits(criterion, shape),
    )
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
