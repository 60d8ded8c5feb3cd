"""The independent check of a finished release: count its cells where they lie, then judge the groups.

A table at hand is judged as it is. Of a release in many parts, each part tells which different rows it has, and how
often each. There may be as many as records (groups are small, and a check against providers looks at who provided each
record), so where all of them would be too many, groups are judged share by share: a group belongs to the share that a
fingerprint of its cells says, each share is counted in a pass of its own, and the verdicts are put together.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.encode import distinct, is_text
from masquerade.data.fingerprints import fingerprints, mixed
from masquerade.data.product import columns_of
from masquerade.data.schema import Schema
from masquerade.data.table import Origin, Table
from masquerade.engine.chunks import Engine
from masquerade.engine.counts import Counts, weighted_counts
from masquerade.engine.numbering import first_rows, group_rows
from masquerade.errors import Problem
from masquerade.privacy.boundary_check import Violations, violations_alone
from masquerade.privacy.check import Verdict, Whole, verify
from masquerade.privacy.requirement import GroupRequirement, Requirement

_BYTES_PER_ROW, _BYTES_PER_CELL = 128, 24  # while the different rows are added up and judged
_PARTS_AT_ONCE = 32  # that are added up, if they have few different rows


class Released(Protocol):
    """Some rows of a release, which whoever counts them reads."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def read(self, columns: Sequence[str], coded: Sequence[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""


Complete = Callable[[Table, Sequence[Verdict], Counts | None, Whole | None], tuple[Verdict, ...]]


class ReleasedRows:
    """All rows of a finished release, each of which a person can read."""

    def __init__(
        self, name: str, columns: Sequence[str], rows: Table | tuple[Engine, Sequence[Released]]
    ) -> None:
        """`rows` is a table at hand, which needs no counting beforehand, or parts and the engine that counts them."""
        self.name, self.columns = name, tuple(columns)
        self._table = rows if isinstance(rows, Table) else None
        self._counting = None if isinstance(rows, Table) else _Counting(*rows)

    def verdicts(
        self, requirement: Requirement, *, bind: bool = False, complete: Complete | None = None
    ) -> tuple[Verdict, ...]:
        """Return the verdicts on all rows; `bind` as for `verify`. `complete` adds what some models tell besides."""
        judge = _Judge(self.name, bind, complete)
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
            found |= zip(places, _judged(self._counting, columns, own, judge), strict=True)
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


def count_release(
    engine: Engine, parts: Sequence[Released], requirement: Requirement, name: str, *, bind: bool = False
) -> tuple[Verdict, ...]:
    """Return the verdicts on all rows of a release in parts; `bind` as for `verify`."""
    return ReleasedRows(name, (), (engine, parts)).verdicts(requirement, bind=bind)


def count_groups(
    engine: Engine, parts: Sequence[Released], qid: Sequence[str], names: Sequence[str]
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


@dataclass(frozen=True)
class _Judge:
    """Judges rows by a requirement."""

    name: str
    bind: bool
    complete: Complete | None

    def __call__(
        self, table: Table, requirement: Requirement, times: Counts | None = None, whole: Whole | None = None
    ) -> tuple[Verdict, ...]:
        verdicts = verify(table, requirement, bind=self.bind, times=times, whole=whole)
        return verdicts if self.complete is None else self.complete(table, verdicts, times, whole)


def _judged(
    counting: _Counting, columns: tuple[str, ...], parts: Sequence[GroupRequirement], judge: _Judge
) -> list[tuple[Verdict, ...]]:
    """Return the verdicts on requirements that look at the same columns and groups."""
    most = counting.most_rows(columns)
    rows, seen = counting.some_rows(columns, most)
    if rows.n_rows <= most:
        table, times = rows.table(columns, judge.name)
        return [judge(table, part, times) for part in parts]
    whole = counting.whole(parts)
    shares = math.ceil(rows.n_rows / seen / most)
    judged: list[list[tuple[Verdict, ...]]] = []
    for share in range(shares):
        rows = counting.rows(columns, _Share(tuple(parts[0].qid), share, shares, counting.secret))
        table, times = rows.table(columns, judge.name)
        of_share = [judge(table, part, times, whole) for part in parts]
        judged.append([_located(verdicts, rows.firsts) for verdicts in of_share])
    return [_put_together(verdicts) for verdicts in zip(*judged, strict=True)]


def _located(verdicts: Sequence[Verdict], firsts: Counts) -> tuple[Verdict, ...]:
    """Return verdicts whose row is that of the whole release."""
    return tuple(
        verdict if verdict.row is None else replace(verdict, row=int(firsts[verdict.row]))
        for verdict in verdicts
    )


def _put_together(several: Sequence[tuple[Verdict, ...]]) -> tuple[Verdict, ...]:
    """Return one verdict on all groups, of those on each share of them; for each requirement."""
    return tuple(
        _of_all([each for each in own if each.groups] or own[:1]) for own in zip(*several, strict=True)
    )


def _of_all(verdicts: Sequence[Verdict]) -> Verdict:
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
            cells,
            np.concatenate([each.times for each in several]),
            np.concatenate([each.firsts for each in several]),
        )

    def table(self, columns: Sequence[str], name: str, schema: Schema | None = None) -> tuple[Table, Counts]:
        """Return the rows as a table whose errors name their places in the release, and how often each occurs."""
        return Table(
            self.cells.select(list(columns)), schema, origin=_Places(name, rows=self.firsts)
        ), self.times


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

    def __init__(self, engine: Engine, parts: Sequence[Released]) -> None:
        self.secret = secrets.randbits(
            64
        )  # so that nobody can write a release whose groups are all in one share
        self._engine, self._parts = engine, tuple(part for part in parts if part.rows)
        self._sizes = [part.rows for part in self._parts]
        self._starts = np.cumsum([0, *self._sizes]).tolist()

    def most_rows(self, columns: Sequence[str]) -> int:
        """Return how many different rows may be held at once."""
        return max(1, self._engine.summing_memory // (_BYTES_PER_ROW + _BYTES_PER_CELL * len(columns)))

    def rows(self, columns: tuple[str, ...], share: _Share | None = None) -> _Rows:
        """Return the different rows of all parts, or those of a share of the groups."""
        return self.some_rows(columns, sum(self._sizes), share)[0]

    def some_rows(
        self, columns: tuple[str, ...], most: int, share: _Share | None = None
    ) -> tuple[_Rows, float]:
        """Return the different rows of all parts, or of the first that have too many; and the share that was read."""
        found: list[_Rows] = []
        done, at_once = 0, 1
        while done < len(self._parts):
            some = range(done, min(done + at_once, len(self._parts)))
            counted = self._engine.run(
                [_CountRows(self._parts[each], columns, self._starts[each], share) for each in some]
            )
            done = some.stop
            found = [_Rows.sum_of([*found, *counted])]
            if found[0].n_rows > most:
                break
            held = self.most_rows(columns) // max(1, *(each.n_rows for each in counted))
            at_once = min(max(held, 1), _PARTS_AT_ONCE)
        return found[0], self._starts[done] / self._starts[-1]

    def whole(self, parts: Sequence[GroupRequirement]) -> Whole:
        """Return what the release as a whole has of the columns that requirements call sensitive."""
        values: dict[str, tuple[tuple[str, ...], Counts]] = {}
        for name in dict.fromkeys(_sensitive_of(parts)):
            columns = columns_of(name)
            table, times = self.rows(columns).table(columns, name)
            coded = table.coded(name)
            counts = weighted_counts(coded.codes, times, len(coded.labels)).astype(np.int64)
            values[name] = (coded.labels, counts)
        return Whole(sum(self._sizes), values)


@dataclass(frozen=True)
class _CountRows:
    """Counts the different rows of a part."""

    part: Released
    columns: tuple[str, ...]
    start: int  # where the part begins in the release
    share: _Share | None = None

    def __call__(self) -> _Rows:
        read = self.part.read(self.columns, self.columns)
        cells = pa.table({name: _encoded(read.column(name)) for name in self.columns})
        firsts = np.arange(self.start, self.start + cells.num_rows)
        if self.share is not None:
            rows = self.share.rows(cells)
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
