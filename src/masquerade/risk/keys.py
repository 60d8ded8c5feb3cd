"""Find keys and quasi-identifiers, by the algorithm that the question asks for.

| question | algorithm | looks at |
|---|---|---|
| a small key | greedy minimum key | all rows |
| …that may miss a share ε, with probability 1 − δ | the same, on a sample (§2.3, §2.4) | tuples, or pairs |
| a small set that reaches a ratio β | greedy | all rows |
| …or (1 − ε)β of pairs, with probability 1 − δ | greedy on a sample (§2.5) | pairs |
| the smallest key | exact search | all rows |
| all minimal sets that reach β | size by size | all rows |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Arrays, Chunk, Counts, Rows, counted_shares, first_rows, group_rows
from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.sampling import (
    SampleSize,
    at_least,
    covered_for_beta,
    drawn_rows,
    pairs_for_beta,
    pairs_for_key,
    sample_of,
    tuples_for_key,
)
from masquerade.risk.separation import (
    BYTES_PER_PICKED_CELL,
    CodedRows,
    Extent,
    Measure,
    SeparatedRows,
    Separation,
    code_columns,
    count_labels,
    picked_rows,
    ratio,
    row_labels,
)

# --- hitting set --------------------------------------------------------------------------------------------
# The lightest set of columns that has a column of each of several sets: branch and bound.
#
# Sets are bit masks. The search takes an unhit set with fewest columns and tries each of them; below a
# bound it gives up: no solution is lighter than the cheapest columns of sets that share no column.

_MOST_NODES = 300_000  # some tens of seconds


def minimal_sets(sets: Iterable[int]) -> list[int]:
    """Drop each set that contains another one: hitting that one hits it, too."""
    kept = list[int]()
    for each in sorted(set(sets), key=int.bit_count):
        if not any(other & each == other for other in kept):
            kept.append(each)
    return kept


def columns_of(mask: int) -> list[int]:
    """The columns of a set, in ascending order."""
    return [at for at in range(mask.bit_length()) if mask >> at & 1]


def lightest_hitting_set(sets: Sequence[int], weights: Sequence[float], above: float = float("inf")) -> int:
    """Return the lightest mask that meets all sets, which must be minimal; it weighs less than `above`, or is 0.

    Raise AnswerIsNo where the search takes too long.
    """
    search = _HittingSetSearch(weights, above)
    search.run(list(sets), 0, 0.0, 0)
    return search.best


class _HittingSetSearch:
    def __init__(self, weights: Sequence[float], above: float) -> None:
        self.weights, self.weight = weights, above
        self.best, self.nodes = 0, 0

    def run(self, unhit: list[int], chosen: int, weight: float, barred: int) -> None:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise AnswerIsNo(
                "the search for the smallest key takes too long on this table; the greedy one, without --exact, "
                "gives a key that is usually as small"
            )
        if not unhit:
            self.best, self.weight = chosen, weight
            return
        left = [each & ~barred for each in unhit]
        if weight + self._at_least(left) >= self.weight:
            return
        branch = min(left, key=int.bit_count)
        # A column that several unhit sets have is tried first; those tried before need not be tried again below.
        often = {column: sum(each >> column & 1 for each in left) for column in columns_of(branch)}
        for column in sorted(often, key=lambda each: (self.weights[each] / often[each], each)):
            bit = 1 << column
            rest = [each for each in unhit if not each & bit]
            if weight + self.weights[column] < self.weight:
                self.run(rest, chosen | bit, weight + self.weights[column], barred)
            barred |= bit

    def _at_least(self, sets: list[int]) -> float:
        """The weight of the cheapest columns of sets that share none; infinite if a set has no column left."""
        total, used = 0.0, 0
        for each in sorted(sets, key=int.bit_count):
            if not each:
                return float("inf")
            if not each & used:
                used |= each
                total += min(self.weights[column] for column in columns_of(each))
        return total


# --- all keys -----------------------------------------------------------------------------------------------
# All minimal quasi-identifiers: every set of columns, up to a size, that reaches a ratio while no part of
# it does.
#
# Sets are tried size by size, so that whatever contains one found before is passed over. Within a size the
# search adds columns in ascending order and refines the groups on the way. It turns back where no columns
# that may follow can reach the target: one more column multiplies the groups by at most its number of
# values, and tells at most as many further pairs apart as it does alone.


@dataclass(frozen=True)
class QuasiIdentifier:
    """A minimal set of columns that reaches the ratio, and what it tells apart."""

    columns: tuple[int, ...]
    extent: Extent


def minimal_quasi_identifiers(
    everything: Separation, width: int, measure: Measure, at_least: int, most_columns: int
) -> Iterator[QuasiIdentifier]:
    """Yield them, the smaller ones first; `at_least` groups or pairs must be told apart, by some of `width` columns."""
    search = _KeySearch(everything, width, measure, at_least)
    if search.everything.extent.of(measure) >= at_least:  # even no column at all is enough
        yield QuasiIdentifier((), search.everything.extent)
        return
    for size in range(1, min(most_columns, width) + 1):
        yield from list(search.of_size(size))


class _KeySearch:
    def __init__(self, everything: Separation, width: int, measure: Measure, at_least: int) -> None:
        self.everything, self.width, self.measure, self.at_least = everything, width, measure, at_least
        alone = [everything.extent_with(column) for column in range(width)]
        none = everything.extent.pairs
        self.values = [extent.groups for extent in alone]
        self.pairs = [extent.pairs - none for extent in alone]
        self.found = list[int]()

    def of_size(self, size: int) -> Iterator[QuasiIdentifier]:
        for each in self._below(self.everything, 0, 0, size):
            self.found.append(sum(1 << column for column in each.columns))
            yield each

    def _below(self, groups: Separation, chosen: int, first: int, size: int) -> Iterator[QuasiIdentifier]:
        """Add `size` columns, none before `first`, to the chosen ones."""
        for column in range(first, self.width - size + 1):
            if not self._within_reach(groups.extent, column, size):
                return  # later columns can only do what this one and they could
            mask = chosen | 1 << column
            if any(mask & known == known for known in self.found):
                continue
            if size == 1:
                extent = groups.extent_with(column)
                if extent.of(self.measure) >= self.at_least:
                    yield QuasiIdentifier(tuple(columns_of(mask)), extent)
            else:
                yield from self._below(groups.refined(column), mask, column + 1, size - 1)

    def _within_reach(self, extent: Extent, first: int, size: int) -> bool:
        """Return whether `size` columns from `first` on could reach the target."""
        if self.measure == "separation":
            return extent.pairs + sum(sorted(self.pairs[first:])[-size:]) >= self.at_least
        groups = extent.groups
        for bound in sorted(self.values[first:])[-size:]:
            groups *= bound
        return groups >= self.at_least


# --- greedy key ---------------------------------------------------------------------------------------------
# The greedy minimum key: take the column that tells most further pairs apart, until enough is told apart.
#
# Set cover's greedy algorithm, with its bound: at most 1 + ln(pairs) times as many columns as the smallest
# key (§2.2 of the paper). With weights it takes the column with most further pairs for its weight. A column
# never adds more than it added before, so the gain it had when it was last counted is a bound, and most
# columns need no new count. At the end, columns that later ones made superfluous are dropped.

Enough = Callable[[Extent], bool]


def greedy_key(
    separation: Separation, columns: Sequence[int], enough: Enough, weights: Sequence[float]
) -> tuple[int, ...] | None:
    """Return the columns chosen, in their order of choice, or None if all together are not enough."""
    start, key = separation, list[int]()
    bounds = dict.fromkeys(columns, float("inf"))
    while not enough(separation.extent):
        best = _best(separation, bounds, weights)
        if best is None:
            return None
        key.append(best)
        del bounds[best]
        separation = separation.refined(best)
    return _without_superfluous(start, key, enough)


def _best(separation: Separation, bounds: dict[int, float], weights: Sequence[float]) -> int | None:
    """Return the column with most new pairs for its weight, the first of equals; update the bounds of those tried."""
    told_apart = separation.extent.pairs
    best: tuple[float, int] | None = None
    for bound, column in sorted((-bounds[column], column) for column in bounds):
        if best is not None and best <= (bound, column):
            break
        bounds[column] = (separation.extent_with(column).pairs - told_apart) / weights[column]
        if bounds[column] > 0:
            found = (-bounds[column], column)
            best = found if best is None else min(best, found)
    return None if best is None else best[1]


def _without_superfluous(start: Separation, key: list[int], enough: Enough) -> tuple[int, ...]:
    """Drop each column, the last chosen first, without which the others are still enough."""
    kept = list(key)
    for column in reversed(key[:-1]):  # without the last one it was not enough
        rest = start
        for each in kept:
            if each != column:
                rest = rest.refined(each)
        if enough(rest.extent):
            kept.remove(column)
    return tuple(kept)


# --- exact key ----------------------------------------------------------------------------------------------
# The exact minimum key: the lightest set of columns that tells all different rows apart.
#
# Each pair of rows names the columns in which it differs, and a key has one of these columns for every
# pair: it hits all **difference sets**. There are too many pairs to list, and few sets that matter. So keep
# a list, find the lightest set of columns that hits all of it (`keys.py`), and try that as a key. If it is
# one, no key is lighter. If not, rows that it does not tell apart give further difference sets: add columns
# for as long as some rows still look alike, and what is left to add is a smallest possible difference set.

_ORDERS = 8  # in which columns are added to what is no key: each may end at another difference set
_FIRST = "first"  # 1 for the first of the rows that are equal in all columns


def different_rows(rows: CodedRows) -> CodedRows:
    """Return one of each group of rows that are equal in all columns, the first."""
    if rows.are_one_chunk:
        first = rows.chunks.only(0, partial(_first_of_equal, names=rows.names))
        return rows if first.size == rows.rows else rows.take(first)
    if SeparatedRows.of(rows, range(rows.width)).extent.groups == rows.rows:
        return rows
    rows.chunks.change(partial(_mark_first, names=rows.names))
    _unmark_later(rows)
    chunks = rows.chunks.derive(partial(_marked, names=rows.names))
    sizes = tuple(chunks.each(partial(_size, name=rows.names[0])))
    return replace(rows, chunks=chunks, sizes=sizes)


def _unmark_later(rows: CodedRows) -> None:
    """Keep the mark of those rows alone that no earlier chunk has an equal of."""
    for counted in counted_shares(rows.chunks, partial(count_labels, columns=rows.names), rows.engine):
        several = counted.keys[counted.counts > 1]
        if not several.size:
            continue
        owner = np.full(several.size, -1, np.int32)
        for at in range(len(rows.chunks)):
            there = rows.chunks.only(at, partial(_which_are_there, names=rows.names, labels=several))
            owner[(owner < 0) & there] = at
        rows.chunks.change(
            [partial(_unmark, names=rows.names, labels=several[owner != at]) for at in range(len(rows.chunks))]
        )


def _not_separated(rows: CodedRows, columns: tuple[int, ...]) -> SeparatedRows:
    """Return the groups of rows that these columns do not separate, or of some such rows where there are too many."""
    if rows.are_one_chunk:
        return SeparatedRows.of(rows, columns)
    most = max(2, rows.engine.summing_memory // (BYTES_PER_PICKED_CELL * rows.width))
    if not columns:
        return SeparatedRows.of(drawn_rows(rows, min(most, rows.rows), 7))
    names = tuple(rows.names[at] for at in columns)
    found: list[Arrays] = []
    n_found = 0
    for counted in counted_shares(rows.chunks, partial(count_labels, columns=names), rows.engine):
        several = counted.counts > 1
        keys, times = counted.keys[several], counted.counts[several]
        fitting = int(np.searchsorted(np.cumsum(times), most - n_found, "right"))
        keys = keys[: max(fitting, 0 if found else 1)]
        if keys.size:
            found += rows.chunks.each(partial(_with_labels, names=rows.names, columns=names, labels=keys))
            n_found += int(times[: keys.size].sum())
        if several.any() and keys.size < times.size:
            break
    return SeparatedRows.of(rows.together(found), columns)


def exact_key(rows: CodedRows, weights: Sequence[float], seed: int = 7) -> tuple[int, ...]:
    """Return the columns of a lightest key of the different rows, in the order of the table."""
    rows = different_rows(rows)
    if rows.rows < 2:
        return ()
    separation, n_rows = SeparatedRows.of(rows), rows.rows
    key = greedy_key(separation, range(rows.width), lambda extent: extent.groups == n_rows, weights)
    assert key is not None  # different rows differ in some column
    best, heaviest = sorted(key), sum(weights[column] for column in key)
    random = np.random.default_rng(seed)
    sets = minimal_sets(
        each
        for column in key
        for each in _difference_sets(rows, tuple(other for other in key if other != column), random)
    )
    while True:
        found = lightest_hitting_set(sets, weights, heaviest)
        if not found:  # nothing is lighter than the best key so far
            return tuple(best)
        tried = tuple(columns_of(found))
        further = list(_difference_sets(rows, tried, random))
        if not further:
            return tried
        sets = minimal_sets([*sets, *further])


def _difference_sets(rows: CodedRows, columns: tuple[int, ...], random: np.random.Generator) -> Iterator[int]:
    """Difference sets that these columns do not hit; none if they are a key."""
    alike = _not_separated(rows, columns)
    others = [column for column in range(rows.width) if column not in columns]
    for _ in range(_ORDERS if alike.are_open else 0):
        left, groups = list[int](), alike
        for column in random.permutation(others).tolist():
            finer = groups.refined(column)
            if finer.are_open:
                groups = finer
            else:
                left.append(column)
        yield sum(1 << column for column in left)


def _mark_first(chunk: Chunk, names: Sequence[str]) -> Arrays:
    marks = np.zeros(_size(chunk, names[0]), np.uint8)
    marks[_first_of_equal(chunk, names)] = 1
    return {_FIRST: marks}


def _first_of_equal(chunk: Chunk, names: Sequence[str]) -> Rows:
    """Return the first of the rows of a chunk that are equal in all columns."""
    labels, n_labels = group_rows(code_columns(chunk, names), _size(chunk, names[0]))
    return first_rows(labels, n_labels)


def _which_are_there(chunk: Chunk, names: Sequence[str], labels: Counts) -> NDArray[np.bool_]:
    """Tell which of some labels a chunk's rows have."""
    found = np.zeros(labels.size, bool)
    places = _position(labels, row_labels(chunk, names))
    found[places[places >= 0]] = True
    return found


def _unmark(chunk: Chunk, names: Sequence[str], labels: Counts) -> Arrays:
    """Take the mark from the rows that have one of some labels."""
    marks = np.array(chunk[_FIRST])
    marks[_position(labels, row_labels(chunk, names)) >= 0] = 0
    return {_FIRST: marks}


def _marked(chunk: Chunk, names: Sequence[str]) -> Arrays:
    return picked_rows(chunk, names, np.flatnonzero(chunk[_FIRST]))


def _with_labels(chunk: Chunk, names: Sequence[str], columns: Sequence[str], labels: Counts) -> Arrays:
    """Pick the rows that have one of some labels in these columns."""
    return picked_rows(chunk, names, np.flatnonzero(_position(labels, row_labels(chunk, columns)) >= 0))


def _size(chunk: Chunk, name: str) -> int:
    [(codes, _)] = code_columns(chunk, [name])
    return int(codes.size)


def _position(labels: Counts, of: Counts) -> Counts:
    """Return the place of each of these among labels in ascending order, -1 where it is none."""
    if not labels.size:
        return np.full(of.size, -1)
    places = np.minimum(np.searchsorted(labels, of), labels.size - 1)
    return np.where(labels[places] == of, places, -1)


# --- finding ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What is looked for; see the table above. Without any option, a small key."""

    measure: Measure = "distinct"
    epsilon: float | None = None
    delta: float | None = None
    beta: float | None = None
    exact: bool = False
    all: bool = False
    max_size: int = 3

    def __post_init__(self) -> None:
        for name, share in (("epsilon", self.epsilon), ("delta", self.delta)):
            if share is not None and not 0 < share < 1:
                raise ParameterError(f"{name} must be above 0 and below 1; got {share}")
        if self.beta is not None and not 0 < self.beta <= 1:
            raise ParameterError(f"beta must be above 0 and at most 1; got {self.beta}")
        if self.max_size < 1:
            raise ParameterError(f"max_size must be a whole number of at least 1; got {self.max_size}")
        if (self.epsilon is None) != (self.delta is None):
            raise ParameterError("epsilon and delta belong together: give both, or none")
        if self.exact and (self.all or self.beta is not None or self.sampled):
            raise ParameterError("exact looks for the smallest key: give it without beta, epsilon, delta and all")
        if self.all and (self.beta is None or self.sampled):
            raise ParameterError("all needs beta, the ratio to reach, and looks at all rows: give no epsilon")
        if self.sampled and self.beta is not None and self.measure == "distinct":
            raise ParameterError(
                'beta with epsilon needs measure "separation": no small sample tells the distinct ratio of a table'
            )

    @property
    def sampled(self) -> bool:
        """Whether a sample of the rows is enough."""
        return self.epsilon is not None

    def sample(self, columns: int, rows: int) -> int | None:
        """How many tuples, or for the separation ratio pairs, to draw; None if all rows are looked at."""
        if self.epsilon is None or self.delta is None:
            return None
        if self.beta is not None:
            return pairs_for_beta(columns, self.beta, self.epsilon, self.delta)
        if self.measure == "separation":
            return pairs_for_key(columns, self.epsilon, self.delta)
        return tuples_for_key(columns, rows, self.epsilon, self.delta)

    def sample_rows(self, columns: int) -> SampleSize:
        """How many rows a sample needs: tuples, or two for each pair."""
        each = 2 if self.measure == "separation" else 1
        return lambda rows: rows if (size := self.sample(columns, rows)) is None else each * size


@dataclass(frozen=True)
class Keys:
    """The key found; with `all`, the first of all `keys`."""

    key: tuple[str, ...]
    ratio: float
    measure: Measure
    sampled: int | None  # tuples, or for the separation ratio pairs; None if all rows were looked at
    duplicates: int  # rows that equal an earlier one in all columns; of the sample, where only that was held
    rows: int
    keys: tuple[tuple[tuple[str, ...], float], ...] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `keys`."""
        found: dict[str, Any] = {
            "key": list(self.key),
            "ratio": self.ratio,
            "measure": self.measure,
            "sampled": self.sampled,
            "duplicates": self.duplicates,
            "rows": self.rows,
            "seconds": dict(self.seconds),
        }
        if self.keys is not None:
            found["keys"] = [{"key": list(key), "ratio": share} for key, share in self.keys]
        return found


def find_keys(question: Question, rows: CodedRows, weights: list[float], seed: int = 7) -> Keys:
    """Answer the question on a table, or on a sample of it.

    Ratios and duplicates are of all rows, also where a sample decides; of the sample where that is all there is.
    """
    separation, whole = SeparatedRows.of(rows), rows.whole
    size = question.sample(rows.width, rows.rows_read)
    if size is not None and size >= whole.of(question.measure) and rows.rows == rows.rows_read:
        size = None  # then all is looked at
    if question.all:
        found = _all(question, separation, weights)
    elif question.exact:
        found = [exact_key(rows, weights, seed)]
    elif size is None:
        found = [_greedy(question, separation, None, weights)]
    else:
        sample = sample_of(rows, question.measure, size, seed)
        found = [_greedy(question, sample, size, weights)]
    ratios = [ratio(separation.by(each).extent, whole, question.measure) for each in found]
    named = [tuple(rows.names[at] for at in each) for each in found]
    return Keys(
        named[0],
        ratios[0],
        question.measure,
        size,
        rows.rows - separation.by(range(rows.width)).extent.groups,
        rows.rows_read,
        tuple(zip(named, ratios, strict=True)) if question.all else None,
    )


def _all(question: Question, separation: Separation, weights: list[float]) -> list[tuple[int, ...]]:
    """Return all minimal quasi-identifiers, the lightest first, of these the one with the highest ratio."""
    assert question.beta is not None
    goal = at_least(question.beta, separation.whole, question.measure)
    found = sorted(
        (sum(weights[at] for at in each.columns), -each.extent.of(question.measure), each.columns)
        for each in minimal_quasi_identifiers(separation, len(weights), question.measure, goal, question.max_size)
    )
    if not found:
        raise AnswerIsNo(f"no {question.max_size} columns or fewer reach a {question.measure} ratio of {question.beta}")
    return [columns for _, _, columns in found]


def _greedy(question: Question, separation: Separation, size: int | None, weights: list[float]) -> tuple[int, ...]:
    columns, everything = range(len(weights)), separation
    for column in columns:
        everything = everything.refined(column)
    if question.beta is None:
        most = everything.extent.pairs
        key = greedy_key(separation, columns, lambda extent: extent.pairs == most, weights)
        assert key is not None  # all columns together tell as much apart as all columns
        return key
    if size is None or question.epsilon is None:
        goal = at_least(question.beta, separation.whole, question.measure)
    else:
        goal = math.ceil(covered_for_beta(size, question.beta, question.epsilon))
    key = greedy_key(separation, columns, lambda extent: extent.of(question.measure) >= goal, weights)
    if key is None:
        share = ratio(everything.extent, separation.whole, question.measure)
        raise AnswerIsNo(
            f"no set of columns reaches a {question.measure} ratio of {question.beta}: all together have {share:.6g}"
        )
    return key
