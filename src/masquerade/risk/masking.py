"""Masking: the columns that may be published together, so that none of their subsets is a quasi-identifier.

The greedy heuristic of §3 of the paper: publish the column that adds least to what is told apart (for its weight, the
utility of publishing it), while the ratio of all that is published is at most β. A set of columns never tells fewer
apart than it did with fewer columns, so what a column reached when it was last counted is a bound, and most columns
need no new count; one that did not fit once never will.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masquerade.data import likely_separator, repeated, rows, why_unreadable
from masquerade.errors import AnswerIsNo, ParameterError, given, hint
from masquerade.risk.keys import minimal_quasi_identifiers
from masquerade.risk.sampling import SampleSize, at_most, least_sample_for_masking, masked_beta, sample_of
from masquerade.risk.separation import CodedRows, Measure, SeparatedRows, Separation, ratio

# --- fuzzy duplicates ---------------------------------------------------------------------------------------
# Fuzzy duplicates: rows that are probably one thing, written twice.
#
# Somebody who has looked at a few rows knows about how many are doubles. If a quasi-identifier tells just
# so many rows apart as there are different things, rows that agree on it are probably doubles, whatever
# else they differ in.


@dataclass(frozen=True)
class FuzzyDuplicates:
    """The quasi-identifier, its distinct ratio, and the groups of rows (from 1) that agree on it."""

    columns: tuple[str, ...]
    ratio: float
    groups: tuple[tuple[int, ...], ...]


def fuzzy_duplicates(table: CodedRows, rate: float, max_size: int = 3) -> FuzzyDuplicates:
    """Find the rows that collide on the minimal quasi-identifier whose distinct ratio is closest above 1 − `rate`."""
    if not 0 < rate < 1:
        raise ParameterError(f"rate must be above 0 and below 1; got {rate}")
    goal = table.rows - at_most(rate, table.whole, "distinct")  # as 1 - 0.7 is above 0.3
    found = min(
        minimal_quasi_identifiers(SeparatedRows.of(table), table.width, "distinct", goal, max_size),
        key=lambda each: (each.extent.groups, len(each.columns), each.columns),
        default=None,
    )
    if found is None:
        raise AnswerIsNo(f"no {max_size} columns or fewer tell {1 - rate:.4g} of the rows apart")
    alike = SeparatedRows.of(table, found.columns).alike
    groups = [tuple(int(row) + 1 for row in each) for each in alike]
    return FuzzyDuplicates(
        tuple(table.names[at] for at in found.columns), found.extent.groups / table.rows, tuple(sorted(groups))
    )


# --- masking ------------------------------------------------------------------------------------------------


def publishable(
    separation: Separation, columns: Sequence[int], measure: Measure, limit: float, weights: Sequence[float]
) -> tuple[int, ...]:
    """Return the columns to publish, in their order of choice; groups or pairs told apart stay at most `limit`.

    What the columns chosen before separate counts, too.
    """
    published = list[int]()
    reached = dict.fromkeys(columns, 0)  # what each would reach, as last counted: it reaches no less now
    while (best := _least(separation, reached, measure, limit, weights)) is not None:
        published.append(best)
        del reached[best]
        separation = separation.refined(best)
    return tuple(published)


def _least(
    separation: Separation, reached: dict[int, int], measure: Measure, limit: float, weights: Sequence[float]
) -> int | None:
    """Return the column that adds least for its weight and fits, the first of equals; forget those that do not fit."""
    already = separation.extent.of(measure)
    best: tuple[float, int] | None = None
    order = sorted((max(0.0, (at_least - already) / weights[each]), each) for each, at_least in reached.items())
    for bound, column in order:
        if best is not None and best <= (bound, column):
            break
        reached[column] = separation.extent_with(column).of(measure)
        if reached[column] > limit:
            del reached[column]
            continue
        found = ((reached[column] - already) / weights[column], column)
        best = found if best is None else min(best, found)
    return None if best is None else best[1]


# --- publishing ---------------------------------------------------------------------------------------------
# Choose the columns to publish, on all rows or on a sample of them.


@dataclass(frozen=True)
class RatioLimit:
    """The ratio that no set of published columns may exceed; with a `sample`, but for a chance of `delta`."""

    measure: Measure
    beta: float
    sample: int | None = None  # tuples, or for the separation ratio pairs
    delta: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.beta <= 1:
            raise ParameterError(f"beta must be above 0 and at most 1; got {self.beta}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ParameterError(f"delta must be above 0 and below 1; got {self.delta}")
        if self.sample is not None and self.sample < 1:
            raise ParameterError(f"sample must be a whole number of at least 1; got {self.sample}")
        if (self.sample is None) != (self.delta is None):
            raise ParameterError("sample and delta belong together: give both, or none")

    def sample_rows(self) -> SampleSize:
        """How many rows a sample needs: tuples, or two for each pair."""
        each = 2 if self.measure == "separation" else 1
        return lambda rows: rows if self.sample is None else each * self.sample

    def within_sample(self, columns: int) -> float:
        """β′, the limit in a sample; refuse one that is too small to say anything."""
        assert self.sample is not None
        assert self.delta is not None
        limit = masked_beta(columns, self.sample, self.beta, self.delta)
        if limit <= 0:
            needed = least_sample_for_masking(columns, self.beta, self.delta)
            raise AnswerIsNo(
                f"a sample of {self.sample} is too small for {columns} columns, beta {self.beta} and delta "
                f"{self.delta}: nothing could be published; at least {needed} are needed, and more publish more"
            )
        return limit


@dataclass(frozen=True)
class Masked:
    """The columns that may be published together, in the order of the table."""

    published: tuple[str, ...]
    ratio: float
    measure: Measure
    sampled: int | None  # tuples, or for the separation ratio pairs; None if all rows were looked at
    withheld: tuple[str, ...]
    rows: int
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `mask`."""
        return {
            "published": list(self.published),
            "ratio": self.ratio,
            "measure": self.measure,
            "sampled": self.sampled,
            "withheld": list(self.withheld),
            "rows": self.rows,
            "seconds": dict(self.seconds),
        }


def choose_columns(
    limit: RatioLimit,
    rows: CodedRows,
    weights: list[float],
    *,
    always: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
    seed: int = 7,
) -> Masked:
    """Choose among the columns; `always` are published whatever they tell apart, if that is within the limit.

    The ratio is that of all rows, also where a sample decides; of the sample where that is all there is.
    """
    names, measure, whole = rows.names, limit.measure, rows.whole
    everything = SeparatedRows.of(rows)
    size, beta = limit.sample, limit.beta
    looked_at: Separation = everything
    if size is not None and size >= whole.of(measure) and rows.rows == rows.rows_read:
        size = None  # then all is looked at
    if size is not None:
        beta = limit.within_sample(rows.width)
        looked_at = sample_of(rows, measure, size, seed)
    most = at_most(beta, looked_at.whole, measure)
    fixed = [names.index(name) for name in dict.fromkeys(always)]
    for column in fixed:
        looked_at = looked_at.refined(column)
    if fixed and looked_at.extent.of(measure) > most:
        share = ratio(looked_at.extent, looked_at.whole, measure)
        raise AnswerIsNo(
            f"{', '.join(always)}: to be published always, but their {measure} ratio is {share:.6g}; "
            f"at most {beta:.6g} is allowed"
        )
    free = [at for at, name in enumerate(names) if at not in fixed and name not in never]
    chosen = sorted([*fixed, *publishable(looked_at, free, measure, most, weights)])
    return Masked(
        tuple(names[at] for at in chosen),
        ratio(everything.by(chosen).extent, whole, measure) if chosen else 0.0,
        measure,
        size,
        tuple(name for at, name in enumerate(names) if at not in chosen),
        rows.rows_read,
    )


# --- weights ------------------------------------------------------------------------------------------------
# The weights of columns, from a file: what they cost an attacker, or are worth to a reader. Others weigh 1.

Weights = Mapping[str, float]


def read_weights(path: Path) -> dict[str, float]:
    """Read `name = number` (.toml), an object of numbers (.json) or rows `name,number` (.csv).

    In TOML and JSON they may also be below `weights`, as `masquerade weights` prints them, and in a job file they are
    `[attributes.NAME] weight`.
    """
    reader = _FORMATS.get(path.suffix.lower())
    if reader is None:
        raise ParameterError(f"{path}: a file of weights ends in {', '.join(_FORMATS)}")
    try:
        found = reader(path.read_bytes())
    except OSError as error:
        raise why_unreadable(path, error) from None
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise ParameterError(f"{path}: not a file of weights ({str(error).partition(chr(10))[0]})") from None
    if not isinstance(found, dict):
        raise ParameterError(f"{path}: must be names of columns with a number each")
    if isinstance(found.get("attributes"), dict):
        sections = found["attributes"].items()
        found = {name: each["weight"] for name, each in sections if isinstance(each, dict) and "weight" in each}
    elif isinstance(found.get("weights"), dict):
        found = found["weights"]
    return checked_weights(found, f"{path}: the weight of")


def checked_weights(weights: Mapping[str, Any], of: str = "the weight of") -> dict[str, float]:
    """Check that each is a finite number above 0; `of` begins the sentence about one that is not."""
    for name, weight in weights.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 < weight < math.inf:
            raise ParameterError(f"{of} {name} must be a finite number above 0; got {given(weight)}")
    return {name: float(weight) for name, weight in weights.items()}


def weights_of(names: Sequence[str], weights: Weights | None) -> list[float]:
    """Return the weight of each column; a weight of no column is an error."""
    for name in weights or {}:
        if name not in names:
            raise ParameterError(f'weights: no column "{name}"{hint(name, names)}; the columns are: {", ".join(names)}')
    return [(weights or {}).get(name, 1.0) for name in names]


def _csv(text: bytes) -> dict[str, Any]:
    text.decode()  # raises ValueError
    found = [[cell.decode().strip() for cell in row.cells] for row in rows(text, likely_separator(text).encode())]
    if any(len(row) != 2 for row in found):
        raise ValueError("rows of a name and a number are expected")
    listed = found[1:] if found and found[0][1] == "weight" else found
    if doubled := repeated([name for name, _ in listed]):
        raise ValueError(f"{doubled[0]} is there more than once")
    return {name: _number(word) for name, word in listed}


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


_FORMATS: dict[str, Callable[[bytes], Any]] = {
    ".toml": lambda text: tomllib.loads(text.decode()),
    ".json": json.loads,
    ".csv": _csv,
}
