"""The independent check: does this table, as published, satisfy the requirement?

It counts the cells of the finished table and knows nothing of the algorithm that made it. Cells of a
quasi-identifier that differ in any character, if only a space, can be told apart, so they are different;
sensitive values that differ only in surrounding space mean the same, so they are one. Both err on the side of
the people in the table.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import (
    ANYTHING,
    MISSING_CELL,
    Attribute,
    Boundary,
    Coded,
    Origin,
    Schema,
    Table,
    Taxonomy,
    allowed_cells,
    columns_of,
    distinct,
    fingerprints,
    is_text,
    mixed,
    named_boundary,
    pruned,
    read_interval,
    released_range,
    texts,
)
from masquerade.engine import (
    Counts,
    Engine,
    Flags,
    Ints,
    Rows,
    first_rows,
    group_rows,
    rows_by_rank,
    value_counts,
    weighted_counts,
)
from masquerade.errors import DataError, ParameterError, Problem, RequirementViolated, one_line, shown
from masquerade.privacy.requirement import GroupRequirement, Requirement, plural

# How many counts of (group, sensitive value) pairs are held at a time: 64 MB.
_CELLS_AT_A_TIME = 1 << 23


@dataclass(frozen=True)
class Verdict:
    """Whether one requirement holds on a table.

    `value` is the worst group's figure; `violation` names the first violating group in the order of the rows, or the
    cells beyond a boundary. Of m-privacy, `coalition` are the providers who breach that group, and `checks` is what it
    took to look at all groups.
    """

    requirement: GroupRequirement
    holds: bool
    value: float | int | None
    groups: int
    group: Mapping[str, str] | None = None
    violation: str | None = None
    coalition: tuple[str, ...] | None = None
    checks: int | None = None
    violations: int | None = None  # cells beyond a boundary, where the requirement is about them
    # Of the table that was read: the first of the violating group.
    row: int | None = field(default=None, compare=False)

    def summary(self) -> dict[str, object]:
        """The entry of a JSON summary."""
        entry: dict[str, object] = {
            "model": self.requirement.model,
            "qid": list(self.requirement.qid),
            **self.requirement.parameters(),
            "holds": self.holds,
            "value": self.value,
            "groups": self.groups,
        }
        if self.group is not None:
            entry["first_violating_group"] = dict(self.group)
        if self.coalition is not None:
            entry["coalition"] = list(self.coalition)
        if self.checks is not None:
            entry["checks"] = self.checks
        if self.violations is not None:
            entry["violations"] = self.violations
        return entry


@dataclass(frozen=True, eq=False)
class WholeTable:
    """What a table has as a whole, where it is read a few groups at a time."""

    rows: int
    values: Mapping[str, tuple[tuple[str, ...], Counts]]  # of sensitive columns, and how often each occurs


def verify(
    frame: Any,
    requirement: Requirement,
    *,
    bind: bool = True,
    times: Counts | None = None,
    whole: WholeTable | None = None,
) -> tuple[Verdict, ...]:
    """One verdict for each part of the requirement, and for each that it wraps, on any frame or table.

    With `bind`, sensitive values that the requirement lists and the table does not have are an error. Do
    without when the requirement was bound to the original table: the release may have lost its rarest values
    with suppressed rows. `times` says how often each row occurs, where equal rows are given once; `whole` is what all
    rows have, where the table is some of its groups.
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    if not requirement.parts:
        raise ParameterError("a requirement must have at least one part; without any, every table would do")
    reading = Reading(table, [*requirement.qid_attributes, *requirement.special_columns], times, whole)
    parts = [each for part in requirement.parts for each in (part, *part.wrapped)]
    return tuple(_verdict(reading, part, bind) for part in parts)


def insist(verdicts: Sequence[Verdict]) -> None:
    """Raise `RequirementViolated`, one line a verdict that does not hold."""
    problems = [verdict.violation for verdict in verdicts if verdict.violation is not None]
    if problems:
        raise RequirementViolated(*problems)


class Reading:
    """A table as its reader sees it: each column read, and each QID grouped, once."""

    def __init__(
        self, table: Table, names: Sequence[str], times: Counts | None = None, whole: WholeTable | None = None
    ) -> None:
        """`times` is how often each row occurs, without it once; see `verify`."""
        self.name = table.origin.name
        self._table, self._times, self._whole = table, times, whole
        self._columns: dict[str, tuple[NDArray[np.int32], pa.Array]] = {}
        self._groups: dict[frozenset[str], tuple[Counts, int]] = {}
        errors = []
        for name in dict.fromkeys(names):
            try:
                self._columns[name] = _cells(table, name)
            except DataError as error:
                errors.append(error)
        if gathered := DataError.gather(errors):
            raise gathered

    def groups(self, qid: Sequence[str]) -> tuple[Counts, int]:
        """Each row's group, and how many there are."""
        key = frozenset(qid)
        if key not in self._groups:
            columns = (self._columns[name] for name in qid)
            self._groups[key] = group_rows(((codes, len(values)) for codes, values in columns), len(self._table))
        return self._groups[key]

    def counts(self, numbers: Ints, bound: int, rows: Rows | Flags | None = None) -> Counts:
        """Count the rows with each number; `numbers` are those of all rows, or of these."""
        if self._times is None:
            return value_counts(numbers, bound)
        times = self._times if rows is None else self._times[rows]
        return weighted_counts(numbers, times, bound).astype(np.int64)

    def sensitive(self, name: str) -> Coded:
        """The codes of a sensitive column; a missing cell is a value like any other."""
        coded = self._table.coded(name)
        if self._whole is None:
            return coded
        labels, _ = self._whole.values[name]
        place = {_told_apart(label): at for at, label in enumerate(labels)}
        here = np.array([place[_told_apart(label)] for label in coded.labels], np.int32)
        return Coded(name, here.take(coded.codes), labels)

    def whole(self, coded: Coded | None) -> Counts:
        """How often each value of a sensitive column occurs; of none, how many rows there are."""
        if self._whole is not None:
            counts = self._whole.values[coded.name][1] if coded is not None else np.array([self._whole.rows])
        elif coded is not None:
            counts = self.counts(coded.codes, len(coded.labels))
        else:
            counts = self.counts(np.zeros(len(self._table), np.int8), 1)
        return counts.reshape(1, -1)

    def cell(self, name: str, row: int) -> str:
        """One cell, as it is written."""
        codes, values = self._columns[name]
        value = values.slice(int(codes[row]), 1)
        return str(value[0] if is_text(value.type) else texts(value)[0])


def _cells(table: Table, name: str) -> tuple[NDArray[np.int32], pa.Array]:
    """Each row's code, and the different cells by code."""
    column = table.cells(name)
    try:
        codes, values = distinct(column)
        texts(values[:1])
    except pa.ArrowException:
        text = f"cells of type {column.type} cannot be compared"
        raise DataError(Problem(text, source=table.origin.name, column=name)) from None
    if is_text(values.type) and values.null_count:
        once = values.fill_null("").dictionary_encode()  # a file writes both as nothing
        return once.indices.to_numpy()[codes], once.dictionary
    return codes, values


def _verdict(reading: Reading, part: GroupRequirement, bind: bool) -> Verdict:
    labels, n_groups = reading.groups(part.qid)
    coded = reading.sensitive(part.sensitive) if part.sensitive is not None else None
    if bind:
        part.bind(coded.labels if coded is not None else ())
    if n_groups == 0:
        return Verdict(part, True, None, 0)
    figures, good = _judge(reading, part, labels, n_groups, coded)
    worst = (figures.min() if part.worst == "smallest" else figures.max()).item()
    value = worst if math.isfinite(worst) else None  # which JSON can hold
    if good.all():
        return Verdict(part, True, value, n_groups)
    row = int(np.argmin(good[labels]))
    group = {name: reading.cell(name, row) for name in part.qid}
    shown = ", ".join(f"{name} = {_quoted(cell)}" for name, cell in group.items())
    label = labels[row]
    complaint = _complaint(reading, part, float(figures[label]), labels == label, coded)
    violation = one_line(f"{reading.name}: {part} does not hold: group ({shown}) {complaint}")
    return Verdict(part, False, value, n_groups, group, violation, row=row)


def _complaint(reading: Reading, part: GroupRequirement, figure: float, members: Flags, coded: Coded | None) -> str:
    """What is wrong with the group of these records."""
    whole = reading.whole(coded)
    if coded is None:
        size = reading.counts(members.astype(np.int8), 2)[1]
        return part.explain(figure, np.array([[size]]), whole, ())
    counts = reading.counts(coded.codes[members], len(coded.labels), members).reshape(1, -1)
    return part.explain(figure, counts, whole, coded.labels)


def _judge(
    reading: Reading, part: GroupRequirement, labels: Counts, n_groups: int, coded: Coded | None
) -> tuple[NDArray[Any], Flags]:
    """Each group's figure, and whether it satisfies the requirement."""
    whole = reading.whole(coded)
    if coded is None:
        sizes = reading.counts(labels, n_groups).reshape(n_groups, 1)
        return part.figures(sizes, whole, ()), part.holds(sizes, whole, ())
    figures, good = [], []
    for histogram in _histograms(reading, labels, n_groups, coded):
        figures.append(part.figures(histogram, whole, coded.labels))
        good.append(part.holds(histogram, whole, coded.labels))
    return np.concatenate(figures), np.concatenate(good)


def _histograms(reading: Reading, labels: Counts, n_groups: int, coded: Coded) -> Iterator[Counts]:
    """The counts of each group over the sensitive values, in the groups' order, some groups at a time."""
    n_values = len(coded.labels)
    step = max(_CELLS_AT_A_TIME // n_values, 1)
    if n_groups <= step:
        yield reading.counts(labels * n_values + coded.codes, n_groups * n_values).reshape(n_groups, n_values)
        return
    rows = rows_by_rank(labels, n_groups)
    labels, codes = labels[rows], coded.codes[rows]
    for first in range(0, n_groups, step):
        last = min(first + step, n_groups)
        start, stop = np.searchsorted(labels, [first, last])
        keys = (labels[start:stop] - first) * n_values + codes[start:stop]
        counts = reading.counts(keys, (last - first) * n_values, rows[start:stop])
        yield counts.reshape(last - first, n_values)


def _told_apart(label: str) -> object:
    """What tells values apart: of a combination its members, which may be written alike."""
    return getattr(label, "values", label)


def _quoted(cell: str) -> str:
    """A cell as it is; in quotes where its ends could not be seen otherwise."""
    return cell if cell and cell == cell.strip() else f'"{cell}"'


# --- boundary check -----------------------------------------------------------------------------------------
# Cells beyond their boundary: counted with the original beside them, or as far as a release alone tells.
#
# A release alone tells a violation for certain when its cell is beyond the boundary of every value that it
# covers. Where one maximal allowed generalisation is above another, a cell may be allowed for some of its
# values and not for others: such cells are counted apart, as possible ones. Boundaries by width follow from
# the original's values; without it they are not checked.


@dataclass(frozen=True)
class Violations:
    """The cells of a release that are beyond a boundary, by attribute."""

    certain: Mapping[str, int] = field(default_factory=dict)
    possible: Mapping[str, int] = field(default_factory=dict)  # beyond that of some value, and allowed for others
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
    return label == ANYTHING or (interval is not None and all(end in outer or end % width == 0 for end in interval))


def _beyond(attribute: Attribute, labels: Sequence[str], release: Table) -> tuple[set[int], set[int]]:
    """Return the cells that are beyond the boundary of all values that they cover, and of some of them."""
    boundary = _boundary(attribute, labels)
    surely, maybe = set(), set()
    for code, label in enumerate(labels):
        covered = released_range(boundary.domain, label)
        if covered is None:
            column = release.coded(attribute.name)
            row = int((column.codes == code).argmax())
            text = f"{shown(label)} is no value of the attribute; allowed are {allowed_cells(boundary.domain)}"
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


def with_violations(verdicts: Sequence[Verdict], cells: Mapping[str, int], source: str) -> tuple[Verdict, ...]:
    """Return the verdicts, where a requirement that is about boundaries holds only without cells beyond them."""

    def judged(verdict: Verdict) -> Verdict:
        part = verdict.requirement
        if not part.within_boundaries:
            return verdict
        beyond = {name: cells[name] for name in part.qid if cells.get(name)}
        if not beyond:
            return replace(verdict, violations=0)
        listed = ", ".join(f"{plural(count, 'cell')} of {name}" for name, count in beyond.items())
        text = verdict.violation or one_line(f"{source}: {part} does not hold: beyond their boundary are {listed}")
        return replace(verdict, holds=False, violations=sum(beyond.values()), violation=text)

    return tuple(map(judged, verdicts))


# --- checking -----------------------------------------------------------------------------------------------
# The independent check of a finished release: count its cells where they lie, then judge the groups.
#
# A table at hand is judged as it is. Of a release in many parts, each part tells which different rows it
# has, and how often each. There may be as many as records (groups are small, and a check against providers
# looks at who provided each record), so where all of them would be too many, groups are judged share by
# share: a group belongs to the share that a fingerprint of its cells says, each share is counted in a pass
# of its own, and the verdicts are put together.

_BYTES_PER_ROW, _BYTES_PER_CELL = 128, 24  # while the different rows are added up and judged
_PARTS_AT_ONCE = 32  # that are added up, if they have few different rows


class ReleasePart(Protocol):
    """Some rows of a release, which whoever counts them reads."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def read(self, columns: Sequence[str], coded: Sequence[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""


Complete = Callable[[Table, Sequence[Verdict], Counts | None, WholeTable | None], tuple[Verdict, ...]]


class ReleasedRows:
    """All rows of a finished release, each of which a person can read."""

    def __init__(self, name: str, columns: Sequence[str], rows: Table | tuple[Engine, Sequence[ReleasePart]]) -> None:
        """`rows` is a table at hand, which needs no counting beforehand, or parts and the engine that counts them."""
        self.name, self.columns = name, tuple(columns)
        self._table = rows if isinstance(rows, Table) else None
        self._counting = None if isinstance(rows, Table) else _Counting(*rows)

    def verdicts(
        self, requirement: Requirement, *, bind: bool = False, complete: Complete | None = None
    ) -> tuple[Verdict, ...]:
        """Return the verdicts on all rows; `bind` as for `verify`. `complete` adds what some models tell besides."""

        def judge(
            table: Table, requirement: Requirement, times: Counts | None = None, whole: WholeTable | None = None
        ) -> tuple[Verdict, ...]:
            verdicts = verify(table, requirement, bind=bind, times=times, whole=whole)
            return verdicts if complete is None else complete(table, verdicts, times, whole)

        if self._table is not None:
            return judge(self._table, requirement)
        assert self._counting is not None
        requirements = requirement.parts
        alike: dict[tuple[tuple[str, ...], frozenset[str]], list[int]] = {}
        for at, part in enumerate(requirements):
            alike.setdefault((_looked_at(part), frozenset(part.qid)), []).append(at)
        found: dict[int, tuple[Verdict, ...]] = {}
        for (columns, _), places in alike.items():
            own = [requirements[at] for at in places]
            found |= zip(places, _judged_by_counts(self._counting, columns, own, self.name, judge), strict=True)
        return tuple(verdict for at in range(len(requirements)) for verdict in found[at])

    def violations(self, schema: Schema, names: Sequence[str]) -> Violations:
        """Count the cells beyond boundaries of the schema, of the attributes with these names."""
        if self._table is not None:
            own = self._table.schema is schema
            return violations_alone(self._table if own else self._table.with_schema(schema), names)
        assert self._counting is not None
        found = Violations()
        for attribute in schema:
            if attribute.name in names and (attribute.is_bounded or attribute.is_coarsened):
                cells = self._counting.rows((attribute.name,))
                table, times = cells.table((attribute.name,), self.name, schema)
                found = found.and_those(violations_alone(table, [attribute.name], times))
        return found


def count_groups(
    engine: Engine, parts: Sequence[ReleasePart], qid: Sequence[str], names: Sequence[str]
) -> tuple[Counts, dict[str, tuple[tuple[str, ...], Counts]]]:
    """Count the groups of a release: the rows of each, and how often it has each value of some columns."""
    counting = _Counting(engine, parts)
    sizes, values = np.empty(0, np.int64), {}
    for name in (None, *names):
        columns = tuple(dict.fromkeys([*qid, *([name] if name is not None else [])]))
        table, times = counting.rows(columns).table(columns, "release")
        coded = [table.coded(each) for each in qid]
        # All groups occur in each of these tables, with the same labels: so they have the same numbers.
        groups, n_groups = group_rows([(each.codes, len(each.labels)) for each in coded], len(table))
        if name is None:
            sizes = weighted_counts(groups, times, n_groups).astype(np.int64)
            continue
        own = table.coded(name)
        keys, n_values = groups * len(own.labels) + own.codes, len(own.labels)
        histogram = weighted_counts(keys, times, n_groups * n_values).astype(np.int64)
        values[name] = own.labels, histogram.reshape(n_groups, n_values)
    return sizes, values


def _judged_by_counts(
    counting: _Counting,
    columns: tuple[str, ...],
    parts: Sequence[GroupRequirement],
    name: str,
    judge: Callable[..., tuple[Verdict, ...]],
) -> list[tuple[Verdict, ...]]:
    """Return the verdicts on requirements that look at the same columns and groups."""
    most = counting.most_rows(columns)
    rows, seen = counting.some_rows(columns, most)
    if rows.n_rows <= most:
        table, times = rows.table(columns, name)
        return [judge(table, part, times) for part in parts]
    whole = counting.whole(parts)
    shares = math.ceil(rows.n_rows / seen / most)
    judged: list[list[tuple[Verdict, ...]]] = []
    for share in range(shares):
        rows = counting.rows(columns, _Share(tuple(parts[0].qid), share, shares, counting.secret))
        table, times = rows.table(columns, name)
        judged.append([_located(judge(table, part, times, whole), rows.firsts) for part in parts])
    return [tuple(map(_of_all, zip(*verdicts, strict=True))) for verdicts in zip(*judged, strict=True)]


def _located(verdicts: Sequence[Verdict], firsts: Counts) -> tuple[Verdict, ...]:
    """Return verdicts whose row is that of the whole release."""
    return tuple(
        verdict if verdict.row is None else replace(verdict, row=int(firsts[verdict.row])) for verdict in verdicts
    )


def _of_all(of_shares: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a requirement on all groups, of those on each share of them."""
    verdicts = [each for each in of_shares if each.groups] or of_shares[:1]
    first = min(verdicts, key=lambda each: (each.holds, each.row or 0))  # violating, and before all others
    values = [each.value for each in verdicts]
    told = [value for value in values if value is not None]  # None is infinite
    smallest = first.requirement.worst == "smallest"
    value = min(told, default=None) if smallest else max(told) if len(told) == len(values) else None
    checks = None if first.checks is None else sum(each.checks or 0 for each in verdicts)
    return replace(first, value=value, groups=sum(each.groups for each in verdicts), checks=checks)


@dataclass(frozen=True)
class _Share:
    """Which groups are counted."""

    qid: tuple[str, ...]
    share: int
    shares: int
    secret: int

    def rows(self, cells: pa.Table) -> NDArray[np.intp]:
        """Return the rows of these groups."""
        labels = np.zeros(cells.num_rows, np.uint64)
        for name in self.qid:
            labels = mixed(labels ^ fingerprints(cells.column(name), self.secret))
        return np.flatnonzero(labels % np.uint64(self.shares) == np.uint64(self.share))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Different rows in the order in which they first occur, how often each occurs, and where first."""

    cells: pa.Table
    times: Counts
    firsts: Counts

    @property
    def n_rows(self) -> int:
        return int(self.times.size)

    @classmethod
    def of(cls, cells: pa.Table, times: Counts, firsts: Counts) -> _Rows:
        """Find the different ones among rows that are in order."""
        coded = (distinct(column) for column in cells.columns)
        labels, n_rows = group_rows(((codes, len(values)) for codes, values in coded), cells.num_rows)
        first = first_rows(labels, n_rows)
        order = np.argsort(first)
        counted = weighted_counts(labels, times, n_rows).astype(np.int64)
        return cls(cells.take(pa.array(first[order])), counted[order], firsts[first[order]])

    @classmethod
    def sum_of(cls, several: Sequence[_Rows]) -> _Rows:
        """Add up the rows of parts, which are in order."""
        if len(several) == 1:
            return several[0]
        cells = pa.concat_tables([each.cells for each in several]).unify_dictionaries()
        return cls.of(
            cells, np.concatenate([each.times for each in several]), np.concatenate([each.firsts for each in several])
        )

    def table(self, columns: Sequence[str], name: str, schema: Schema | None = None) -> tuple[Table, Counts]:
        """Return the rows as a table whose errors name their places in the release, and how often each occurs."""
        return Table(self.cells.select(list(columns)), schema, origin=_Places(name, rows=self.firsts)), self.times


@dataclass(frozen=True, eq=False)
class _Places(Origin):
    """Where the different rows of a release are first."""

    rows: Counts | None = None

    def problem(self, text: str, row: int, column: str = "") -> Problem:
        """Describe a problem with the first of the rows that are equal to this one."""
        assert self.rows is not None
        return super().problem(text, int(self.rows[row]), column)


class _Counting:
    """Counts the different rows of all parts."""

    def __init__(self, engine: Engine, parts: Sequence[ReleasePart]) -> None:
        self.secret = secrets.randbits(64)  # so that nobody can write a release whose groups are all in one share
        self._engine, self._parts = engine, tuple(part for part in parts if part.rows)
        self._sizes = [part.rows for part in self._parts]
        self._starts = np.cumsum([0, *self._sizes]).tolist()

    def most_rows(self, columns: Sequence[str]) -> int:
        """Return how many different rows may be held at once."""
        return max(1, self._engine.summing_memory // (_BYTES_PER_ROW + _BYTES_PER_CELL * len(columns)))

    def rows(self, columns: tuple[str, ...], share: _Share | None = None) -> _Rows:
        """Return the different rows of all parts, or those of a share of the groups."""
        return self.some_rows(columns, sum(self._sizes), share)[0]

    def some_rows(self, columns: tuple[str, ...], most: int, share: _Share | None = None) -> tuple[_Rows, float]:
        """Return the different rows of all parts, or of the first that have too many; and the share that was read."""
        found: list[_Rows] = []
        done, at_once = 0, 1
        while done < len(self._parts):
            some = range(done, min(done + at_once, len(self._parts)))
            counted = self._engine.run(
                [
                    partial(_count_rows, part=self._parts[each], columns=columns, start=self._starts[each], share=share)
                    for each in some
                ]
            )
            done = some.stop
            found = [_Rows.sum_of([*found, *counted])]
            if found[0].n_rows > most:
                break
            held = self.most_rows(columns) // max(1, *(each.n_rows for each in counted))
            at_once = min(max(held, 1), _PARTS_AT_ONCE)
        return found[0], self._starts[done] / self._starts[-1]

    def whole(self, parts: Sequence[GroupRequirement]) -> WholeTable:
        """Return what the release as a whole has of the columns that requirements call sensitive."""
        values: dict[str, tuple[tuple[str, ...], Counts]] = {}
        for name in dict.fromkeys(_sensitive_of(parts)):
            columns = columns_of(name)
            table, times = self.rows(columns).table(columns, name)
            coded = table.coded(name)
            counts = weighted_counts(coded.codes, times, len(coded.labels)).astype(np.int64)
            values[name] = (coded.labels, counts)
        return WholeTable(sum(self._sizes), values)


def _count_rows(
    part: ReleasePart,
    columns: tuple[str, ...],
    start: int,  # where the part begins in the release
    share: _Share | None = None,
) -> _Rows:
    """Count the different rows of a part."""
    read = part.read(columns, columns)
    cells = pa.table({name: _encoded(read.column(name)) for name in columns})
    firsts = np.arange(start, start + cells.num_rows)
    if share is not None:
        rows = share.rows(cells)
        cells, firsts = cells.take(pa.array(rows)), firsts.take(rows)
    return _Rows.of(cells, np.ones(cells.num_rows, np.int64), firsts)


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose texts are encoded, with an empty one for each that is missing: a file writes both alike."""
    is_coded = pa.types.is_dictionary(column.type)
    if not is_text(column.type.value_type if is_coded else column.type):
        return column.cast(column.type.value_type) if is_coded else column
    if is_coded and not column.null_count and not any(each.dictionary.null_count for each in column.chunks):
        return column
    plain = column.cast(column.type.value_type) if is_coded else column
    return plain.fill_null("").dictionary_encode()


def _sensitive_of(parts: Sequence[GroupRequirement]) -> list[str]:
    every = (each for part in parts for each in (part, *part.wrapped))
    return [each.sensitive for each in every if each.sensitive is not None]


def _looked_at(part: GroupRequirement) -> tuple[str, ...]:
    columns = (column for name in _sensitive_of([part]) for column in columns_of(name))
    return tuple(dict.fromkeys([*part.qid, *columns]))


# --- reidentification ---------------------------------------------------------------------------------------
# The chance of finding a person's record in a release, for somebody who knows that person's quasi-
# identifiers.
#
# All records of a group look alike, so it is 1 / size of the group (the prosecutor's risk of disclosure
# control).


@dataclass(frozen=True)
class ReidentificationRisk:
    """The chance of finding a record: of those in the smallest group, and the mean over all; 0 of an empty release."""

    highest: float
    mean: float  # the share of its records that somebody who guesses one in each group finds
    unique: int  # records that are alone in their group

    def summary(self) -> dict[str, float | int]:
        """Return the entry of a JSON summary."""
        return asdict(self)


def reidentification_risk(group_sizes: Counts) -> ReidentificationRisk:
    """Return the risk of a release with groups of these sizes, over the attributes of all QIDs together."""
    if not group_sizes.size:
        return ReidentificationRisk(0.0, 0.0, 0)
    return ReidentificationRisk(
        1 / int(group_sizes.min()), group_sizes.size / int(group_sizes.sum()), int(np.count_nonzero(group_sizes == 1))
    )
