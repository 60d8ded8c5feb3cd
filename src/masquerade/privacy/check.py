"""The independent check: does this table, as published, satisfy the requirement?

It counts the cells of the finished table and knows nothing of the algorithm that made it. Cells of a
quasi-identifier that differ in any character, if only a space, can be told apart, so they are different;
sensitive values that differ only in surrounding space mean the same, so they are one. Both err on the side of
the people in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Coded
from masquerade.data.encode import distinct, is_text, texts
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, Flags, Ints, Rows, value_counts, weighted_counts
from masquerade.engine.numbering import group_rows, rows_by_rank
from masquerade.errors import DataError, ParameterError, Problem, RequirementViolated, one_line
from masquerade.privacy.requirement import GroupRequirement, Requirement

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
class Whole:
    """What a table has as a whole, where it is read a few groups at a time."""

    rows: int
    values: Mapping[str, tuple[tuple[str, ...], Counts]]  # of sensitive columns, and how often each occurs


def verify(
    frame: Any,
    requirement: Requirement,
    *,
    bind: bool = True,
    times: Counts | None = None,
    whole: Whole | None = None,
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
        self,
        table: Table,
        names: Sequence[str],
        times: Counts | None = None,
        whole: Whole | None = None,
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
            self._groups[key] = group_rows(
                ((codes, len(values)) for codes, values in columns), len(self._table)
            )
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
    value = _json_number(figures.min() if part.worst == "smallest" else figures.max())
    if good.all():
        return Verdict(part, True, value, n_groups)
    row = int(np.argmin(good[labels]))
    group = {name: reading.cell(name, row) for name in part.qid}
    shown = ", ".join(f"{name} = {_quoted(cell)}" for name, cell in group.items())
    label = labels[row]
    complaint = _complaint(reading, part, float(figures[label]), labels == label, coded)
    violation = one_line(f"{reading.name}: {part} does not hold: group ({shown}) {complaint}")
    return Verdict(part, False, value, n_groups, group, violation, row=row)


def _complaint(
    reading: Reading, part: GroupRequirement, figure: float, members: Flags, coded: Coded | None
) -> str:
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


def _json_number(value: Any) -> float | int | None:
    number = value.item()
    return number if np.isfinite(number) else None
