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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.all_keys import minimal_quasi_identifiers
from masquerade.risk.exact_key import exact_key
from masquerade.risk.greedy_key import greedy_key
from masquerade.risk.row_sample import SampleSize
from masquerade.risk.sample_sizes import covered_for_beta, pairs_for_beta, pairs_for_key, tuples_for_key
from masquerade.risk.sampled_pairs import sample_of
from masquerade.risk.separation import CodedRows, Measure, SeparatedRows, Separation, ratio
from masquerade.risk.targets import at_least


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
            raise ParameterError(
                "exact looks for the smallest key: give it without beta, epsilon, delta and all"
            )
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
        for each in minimal_quasi_identifiers(
            separation, len(weights), question.measure, goal, question.max_size
        )
    )
    if not found:
        raise AnswerIsNo(
            f"no {question.max_size} columns or fewer reach a {question.measure} ratio of {question.beta}"
        )
    return [columns for _, _, columns in found]


def _greedy(
    question: Question, separation: Separation, size: int | None, weights: list[float]
) -> tuple[int, ...]:
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
