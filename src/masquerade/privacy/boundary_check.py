"""Cells beyond their boundary: counted with the original beside them, or as far as a release alone tells.

A release alone tells a violation for certain when its cell is beyond the boundary of every value that it covers. Where
one maximal allowed generalisation is above another, a cell may be allowed for some of its values and not for others:
such cells are counted apart, as possible ones. Boundaries by width follow from the original's values; without it
they are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from masquerade.data.boundary import Boundary, named_boundary
from masquerade.data.coarsening import pruned
from masquerade.data.column import Coded
from masquerade.data.continuum import ANYTHING, MISSING_CELL, read_interval
from masquerade.data.released_range import allowed_cells, released_range
from masquerade.data.schema import Attribute
from masquerade.data.table import Table
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, value_counts, weighted_counts
from masquerade.errors import DataError, one_line, shown
from masquerade.privacy.check import Verdict
from masquerade.privacy.requirement import plural


@dataclass(frozen=True)
class Violations:
    """The cells of a release that are beyond a boundary, by attribute."""

    certain: Mapping[str, int] = field(default_factory=dict)
    possible: Mapping[str, int] = field(
        default_factory=dict
    )  # beyond that of some value, and allowed for others
    unchecked: tuple[str, ...] = ()  # attributes whose boundaries follow from the original
    finer: Mapping[str, int] = field(default_factory=dict)  # than a release may show

    @property
    def cells(self) -> dict[str, int]:
        """The cells of each attribute that are beyond its boundaries for certain, in either direction."""
        names = dict.fromkeys([*self.certain, *self.finer])
        return {name: self.certain.get(name, 0) + self.finer.get(name, 0) for name in names}

    def and_those(self, others: Violations) -> Violations:
        """These, and those of other attributes."""
        return Violations(
            {**self.certain, **others.certain},
            {**self.possible, **others.possible},
            (*self.unchecked, *others.unchecked),
            {**self.finer, **others.finer},
        )

    def summary(self) -> dict[str, object]:
        """The entries of a JSON summary; none where there are no boundaries."""
        told: dict[str, object] = {}
        if self.certain or self.unchecked:
            told = {
                "violations": sum(self.certain.values()),
                "possible_violations": sum(self.possible.values()),
                "unchecked_boundaries": list(self.unchecked),
            }
        return told | ({"too_fine": sum(self.finer.values())} if self.finer else {})


def violations_alone(release: Table, names: Sequence[str], times: Counts | None = None) -> Violations:
    """Count the cells of these attributes that are beyond a boundary of the release's own schema.

    `times` is how often each row occurs, where equal rows are given once.
    """
    certain: dict[str, int] = {}
    possible: dict[str, int] = {}
    unchecked = []
    for attribute in release.schema:
        if attribute.name not in names or not attribute.is_bounded:
            continue
        if attribute.max_width is not None:
            unchecked.append(attribute.name)
            continue
        coded = release.coded(attribute.name)
        counts = _times_of(coded, times).tolist()
        surely, maybe = _beyond(attribute, coded.labels, release)
        certain[attribute.name] = sum(counts[code] for code in surely)
        possible[attribute.name] = sum(counts[code] for code in maybe if code not in surely)
    finer = {
        attribute.name: _too_fine(attribute, release, times)
        for attribute in release.schema
        if attribute.name in names and attribute.is_coarsened
    }
    return Violations(certain, possible, tuple(unchecked), finer)


def _times_of(coded: Coded, times: Counts | None) -> Counts:
    """Return how often each value occurs."""
    if times is None:
        return value_counts(coded.codes, len(coded.labels))
    return weighted_counts(coded.codes, times, len(coded.labels)).astype(np.int64)


def _too_fine(attribute: Attribute, release: Table, times: Counts | None) -> int:
    """Count the cells that are finer than the attribute may be shown."""
    coded = release.coded(attribute.name)
    counts = _times_of(coded, times).tolist()
    return sum(
        count
        for label, count in zip(coded.labels, counts, strict=True)
        if label != MISSING_CELL and not _coarse_enough(attribute, label)
    )


def _coarse_enough(attribute: Attribute, label: str) -> bool:
    if isinstance(attribute.taxonomy, Taxonomy):
        return pruned(attribute.taxonomy, attribute.min_generalization)[0].range_of(label) is not None
    assert attribute.min_width is not None
    interval = read_interval(label, "date" if attribute.kind == "date" else "continuous")
    outer = (-inf, inf, attribute.lower, attribute.upper)
    width = attribute.min_width
    return label == ANYTHING or (
        interval is not None and all(end in outer or end % width == 0 for end in interval)
    )


def _beyond(attribute: Attribute, labels: Sequence[str], release: Table) -> tuple[set[int], set[int]]:
    """Return the cells that are beyond the boundary of all values that they cover, and of some of them."""
    boundary = _boundary(attribute, labels)
    surely, maybe = set(), set()
    for code, label in enumerate(labels):
        covered = released_range(boundary.domain, label)
        if covered is None:
            column = release.coded(attribute.name)
            row = int((column.codes == code).argmax())
            text = (
                f"{shown(label)} is no value of the attribute; allowed are {allowed_cells(boundary.domain)}"
            )
            raise DataError(release.problem(text, row, attribute.name))
        if boundary.possibly_exceeded(*covered):
            maybe.add(code)
            if boundary.certainly_exceeded(*covered):
                surely.add(code)
    return surely, maybe


def _boundary(attribute: Attribute, labels: Sequence[str]) -> Boundary:
    """Return an attribute's boundary; the values of a flat taxonomy are those that are named, and those that occur."""
    taxonomy = attribute.taxonomy
    if not isinstance(taxonomy, Taxonomy):
        top = Taxonomy.flat([]).root.name
        values = sorted({*labels, *attribute.max_generalization} - {top})
        taxonomy = Taxonomy.flat(values)
        if len(values) < 2:  # a single value is its own root
            return named_boundary(taxonomy, [taxonomy.nodes[0].name])
    elif MISSING_CELL in labels and MISSING_CELL not in taxonomy.rank:  # kept as a value of its own
        taxonomy = taxonomy.with_missing(MISSING_CELL)
    found = attribute.boundary(taxonomy)
    assert found is not None
    return found


def with_violations(
    verdicts: Sequence[Verdict], cells: Mapping[str, int], source: str
) -> tuple[Verdict, ...]:
    """Return the verdicts, where a requirement that is about boundaries holds only without cells beyond them."""
    return tuple(_judged(verdict, cells, source) for verdict in verdicts)


def _judged(verdict: Verdict, cells: Mapping[str, int], source: str) -> Verdict:
    part = verdict.requirement
    if not part.within_boundaries:
        return verdict
    beyond = {name: cells[name] for name in part.qid if cells.get(name)}
    total = sum(beyond.values())
    if not total:
        return replace(verdict, violations=0)
    listed = ", ".join(f"{plural(count, 'cell')} of {name}" for name, count in beyond.items())
    text = verdict.violation or one_line(
        f"{source}: {part} does not hold: beyond their boundary are {listed}"
    )
    return replace(verdict, holds=False, violations=total, violation=text)
