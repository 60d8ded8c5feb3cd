"""Which coefficients the records determine, and refusals that name the columns whose coefficients they do not.

A column that does not vary, or that is a linear function of others, leaves the model open; a category whose records all
have one outcome lets its coefficient grow without end. All of it shows in sums over all records that a fit opens
anyway: means, the products of each two columns, and how many records of a category have the outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import AnswerIsNo, Problem, shown
from masquerade.protocol.learn.inference import Coefficient

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]

_DEPENDENT = 1e-12  # of a column's variance: what others leave unexplained is rounding
_TAKES_PART = 1e-6  # in a linear function of standardised columns
_SHOWN = 5  # further categories or columns, in an error
_GROWS_TOO = 0.5  # of the coefficient that grows most
ADVICE = "leave it out, or set ridge"
JOIN = "leave the column out, join the category with another, or set ridge"


@dataclass(frozen=True)
class Moments:
    """The number of all records, and of their columns mean, deviation, and correlation.

    Of columns that vary by rounding alone the deviation is infinite, so that they count as 0.
    """

    n: int
    mean: Numbers
    deviation: Numbers
    correlation: Numbers


@dataclass(frozen=True)
class DesignColumns:
    """What the columns of numbers stand for: an attribute, or one of its categories other than the first."""

    attributes: tuple[str, ...]
    categories: Mapping[str, Sequence[str]]  # of the attributes that have some; the first has no column

    @classmethod
    def unnamed(cls, n: int) -> DesignColumns:
        """Return columns of numbers without names."""
        return cls(tuple(f"x{at + 1}" for at in range(n)), {})

    @property
    def labels(self) -> list[str]:
        """Each column as a person reads it."""
        return [
            label
            for name in self.attributes
            for label in (
                [f'{name} = "{value}"' for value in self.categories[name][1:]] if name in self.categories else [name]
            )
        ]

    def groups(self) -> Iterator[tuple[str, slice]]:
        """Yield each attribute and its columns."""
        start = 0
        for name in self.attributes:
            width = len(self.categories[name]) - 1 if name in self.categories else 1
            yield name, slice(start, start + width)
            start += width


@dataclass(frozen=True)
class Determined:
    """The columns that a model is fitted to, and of each attribute with categories the one that the others differ from.

    That is the first category that some record has. One that no record has is not in the model.
    """

    columns: DesignColumns
    kept: Places
    references: Mapping[str, int]

    def spread(self, numbers: Numbers) -> Numbers:
        """Return the fitted columns' numbers at the places of all: 0 for references, NaN for what no record has."""
        found = np.full(len(self.columns.labels), np.nan)
        found[self.kept] = numbers
        for name, own in self.columns.groups():
            if self.references.get(name, 0):
                found[own.start + self.references[name] - 1] = 0.0
        return found

    def by_attribute(self, numbers: Sequence[float]) -> dict[str, Coefficient]:
        """Return numbers that were spread by attribute, for categories by category."""
        found: dict[str, Coefficient] = {}
        for name, own in self.columns.groups():
            some = list(numbers[own])
            if name not in self.columns.categories:
                found[name] = some[0]
                continue
            some = [np.nan if self.references[name] else 0.0, *some]
            both = zip(self.columns.categories[name], some, strict=True)
            found[name] = {value: number for value, number in both if not np.isnan(number)}
        return found

    def grows(self, sizes: Numbers, why: str) -> AnswerIsNo:
        """Return the refusal of coefficients that grow without end, naming those of the largest of these sizes."""
        size = np.abs(sizes)
        most = self.kept[size >= _GROWS_TOO * size.max(initial=0.0)].tolist()
        labels, named = self.columns.labels, dict.fromkeys(_attribute(self.columns, at) for at in most)
        text = f"the coefficients of {' and '.join(labels[at] for at in most)} grow without end: {why}; {ADVICE}"
        return AnswerIsNo(Problem(text, column=" and ".join(named)))


def determined(
    columns: DesignColumns, moments: Moments, *, penalised: bool, may_be_constant: bool = False
) -> Determined:
    """Return the columns to fit: all but those of categories that no record has, and of each attribute's reference.

    AnswerIsNo, with a line for each column, where records leave coefficients open.
    """
    fits = np.ones(moments.mean.size, bool)
    having = np.rint(moments.n * moments.mean)
    counts = {  # of each category; the first has what the others leave
        name: np.append(moments.n - having[own].sum(), having[own])
        for name, own in columns.groups()
        if name in columns.categories
    }
    references = {name: int(np.argmax(each > 0.5)) for name, each in counts.items()}
    constant = []
    for name, own in columns.groups():
        if name in counts:
            occurs = counts[name] > 0.5
            fits[own] = occurs[1:]
            fits[own] &= np.arange(1, occurs.size) != references[name]
            if occurs.sum() < 2:
                constant.append(name)
        elif np.isinf(moments.deviation[own]).any():
            constant.append(name)
    if constant and not may_be_constant:
        text = "has the same value in all records, so that it has no coefficient; leave it out"
        raise AnswerIsNo(*(Problem(text, column=name) for name in constant))
    kept = np.flatnonzero(fits)
    if not penalised:
        problems = list(_dependent(columns, kept, moments.correlation[np.ix_(kept, kept)]))
        if problems:
            raise AnswerIsNo(*problems)
    return Determined(columns, kept, references)


def _dependent(columns: DesignColumns, kept: Places, correlation: Numbers) -> Iterator[Problem]:
    """Yield a problem for each attribute of which a column is a linear function of those before it."""
    labels = np.array(columns.labels, object)[kept]
    rest, free, told = correlation.copy(), [], set()
    for at in range(len(rest)):
        if rest[at, at] > _DEPENDENT:
            ahead = rest[at:, at] / np.sqrt(rest[at, at])
            rest[at:, at:] -= np.outer(ahead, ahead)
            free.append(at)
            continue
        parts = np.linalg.lstsq(correlation[np.ix_(free, free)], correlation[free, at], rcond=None)[0]
        taking = labels[np.array(free)[np.abs(parts) > _TAKES_PART]].tolist()
        others = " and ".join([*taking[:_SHOWN], *(["others"] if taking[_SHOWN:] else [])])
        name = _attribute(columns, int(kept[at]))
        if name in told:
            continue
        told.add(name)
        text = f"{labels[at]} is a linear function of {others} over all records, so that their coefficients cannot be"
        yield Problem(f"{text} told apart; {ADVICE}", column=name)


def refuse_rare(columns: DesignColumns, n: int, sums: Numbers, min_records: int) -> None:
    """AnswerIsNo where few of all n records have a category: its products with other columns would be those of few.

    `sums` are the columns' over all records, so of categories how many have them.
    """
    problems = []
    for name, own in columns.groups():
        if name in columns.categories:
            having = np.rint(np.append(n - sums[own].sum(), sums[own]))
            rare = np.array(columns.categories[name], object)[(having > 0) & (having < min_records)].tolist()
            if rare:
                told = f"{', '.join(map(shown, rare[:_SHOWN]))}{', …' if rare[_SHOWN:] else ''}"
                text = f"fewer than {min_records} of all records have {told}; leave the column out, or join categories"
                problems.append(Problem(text, column=name))
    if problems:
        raise AnswerIsNo(*problems)


def refuse_one_sided(known: Determined, moments: Moments, sums: Numbers, whole: float, *, events: bool) -> None:
    """AnswerIsNo where all records of a category have one outcome, so that its coefficient grows without end.

    `sums` are those of the fitted columns, standardised, over the `whole` records with the outcome. Of events, only a
    category without any is refused.
    """
    having = np.zeros(moments.mean.size)
    having[known.kept] = sums * moments.deviation[known.kept] + whole * moments.mean[known.kept]
    counts = np.rint(moments.n * moments.mean)
    problems = []
    for name, own in known.columns.groups():
        if name not in known.columns.categories:
            continue
        some, records = np.append(0.0, having[own]), np.append(moments.n - counts[own].sum(), counts[own])
        some[known.references[name]] = whole - some.sum()
        one_sided = (records > 0.5) & ((some < 0.5) | ((some > records - 0.5) & (not events)))
        if not one_sided.any():
            continue
        first, *others = np.array(known.columns.categories[name], object)[one_sided].tolist()
        also = (
            f" (and with {', '.join(map(shown, others[:_SHOWN]))}{', …' if others[_SHOWN:] else ''})" if others else ""
        )
        told = "no record with {} has the event" if events else "all records with {} have one class"
        text = f"{told.format(shown(first))}{also}, so that its coefficient grows without end; {JOIN}"
        problems.append(Problem(text, column=name))
    if problems:
        raise AnswerIsNo(*problems)


def _attribute(columns: DesignColumns, at: int) -> str:
    return next(name for name, own in columns.groups() if own.start <= at < own.stop)
