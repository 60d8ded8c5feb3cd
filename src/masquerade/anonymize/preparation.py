"""The first step of every method: refuse what it, the requirement or the records do not allow, and bind the two.

Where attributes have boundaries (`data/boundary.py`), records that no release within them can hold are left out here,
so that what follows starts from groups that satisfy (`boundaries.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from masquerade.anonymize.boundaries import reachable
from masquerade.anonymize.method import TableMethod, insist, records_of
from masquerade.data import (
    KEPT,
    Coded,
    Column,
    Generalised,
    Outcome,
    Records,
    ReleasedCodes,
    Schema,
    Step,
    Table,
    codes_of,
    ranks_of,
    with_products,
)
from masquerade.engine import Chunks, Counts, Rows
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.privacy import Conjunction, GroupRequirement, Requirement, without_redundant


@dataclass(frozen=True, eq=False)
class Prepared:
    """The columns to generalise, and the requirements that must hold afterwards.

    Ranks and codes are in the chunks. Of a table that a method needs as a whole, they are in the columns, too, and
    `sensitive` has the attributes that the requirements are about.
    """

    records: Records  # that all this is about
    parts: tuple[GroupRequirement, ...]  # of the requirement, without those that others cover
    columns: tuple[Column, ...]  # the QID attributes, in the order of the schema
    chunks: Chunks | None = None  # of those records, where they are not all
    sensitive: Mapping[str, Coded] = field(default_factory=dict)
    kept: Rows | None = None  # the table's rows that all this is about; None for all

    @property
    def n_rows(self) -> int:
        """The number of records that all this is about."""
        return len(self.records)

    def here(self, coded: Coded) -> Coded:
        """Return a column of the table for just the rows that this is about."""
        return coded if self.kept is None else coded.of_rows(self.kept)

    def outcome(
        self,
        columns: Iterable[Generalised],
        steps: tuple[Step, ...] = (),
        kept: Rows | None = None,
        *,
        codes: Mapping[str, ReleasedCodes] | None = None,
        released: str | None = None,
    ) -> Outcome:
        """Return what a method made of it, which has codes in the columns, or says where they are.

        `kept` are those of these rows that it releases, None for all; in chunks the array `released` has them.
        """
        if codes is not None:
            return Outcome(tuple(columns), steps, codes=codes, released=released, chunks=self.chunks)
        if self.kept is not None:
            kept = self.kept if kept is None else self.kept.take(kept)
        return Outcome(tuple(columns), steps, kept)

    def held(self) -> Prepared:
        """Return the same of records that are one chunk here, with their ranks and codes."""
        read = self.records.chunks.only(0, dict)
        labelled = {part.sensitive: self.records.coded[part.sensitive] for part in self.parts if part.sensitive}
        return replace(
            self,
            columns=tuple(replace(each, ranks=read[ranks_of(each.name)]) for each in self.columns),
            sensitive={name: replace(each, codes=read[codes_of(name)]) for name, each in labelled.items()},
            kept=read[KEPT].astype(np.intp) if self.chunks is not None else None,
        )


def prepare(of: Table | Records, requirement: Requirement, method: TableMethod) -> Prepared:
    """Refuse what the method or these records cannot do, and bind the requirement to their sensitive values.

    Of a method that keeps to boundaries, leave out the records that violate even at them. Of a table, the columns have
    ranks.
    """
    parts = parts_for(of.schema, requirement, method)
    records = records_of(of, requirement, method.target) if isinstance(of, Table) else of
    records = with_products(records, (part.sensitive for part in parts))
    for part in parts:
        part.bind(records.coded[part.sensitive].labels if part.sensitive is not None else ())
    sensitive = {name: (records.whole[name], coded.labels) for name, coded in records.coded.items()}
    refuse_violating_whole(records.name, len(records), hopeless_at_once(parts, method.leaves_out), sensitive)
    columns = tuple(records.columns[name] for name in records.schema.names if name in records.columns)
    if method.boundaries == "ignored":
        columns = tuple(replace(column, boundary=None) for column in columns)
    task = Prepared(records, parts, columns)
    if any(column.boundary is not None for column in columns):
        # A part of a violating group may be saved, unless no part of it satisfies.
        judged = [part for part in parts if part.hereditary] if method.boundaries == "parts" else parts
        left = reachable(records, judged, columns, whole_columns=method.boundaries == "columns")
        if not len(left):
            raise RequirementUnreachable(
                f"{records.name}: {Conjunction(parts)} cannot be reached within max_generalization and max_width: "
                "every record is in a group that violates even at them; allow more, or ask for less",
                violated=tuple(map(str, parts)),
            )
        task = Prepared(left, parts, columns, None if left is records else left.chunks)
    return task.held() if isinstance(of, Table) else task


def parts_for(schema: Schema, requirement: Requirement, method: TableMethod) -> tuple[GroupRequirement, ...]:
    """Return the parts of a requirement that no other covers; refuse what the method cannot do with any records."""
    parts = without_redundant(requirement.parts)
    sensitive = {part.sensitive for part in parts}
    for part in parts:  # a class or sensitive attribute is published as it is, and cannot be generalised
        for name in part.qid:
            if name == method.target or name in sensitive:
                kind = "class" if name == method.target else "sensitive"
                raise ParameterError(f"{kind} attribute {name}: it is inside the QID of {part}; take it out of the QID")
    insist(method.refusals(parts, schema))
    for name in requirement.qid_attributes:
        schema[name]  # an unknown name is an error that lists the known ones
    return parts


def hopeless_at_once(parts: Iterable[GroupRequirement], leaves_out: bool) -> tuple[GroupRequirement, ...]:
    """Return those parts that no release can satisfy if all records in one group violate them.

    Of a method that leaves out groups that violate, these are the parts that no group of fewer records satisfies.
    """
    return tuple(part for part in parts if part.hereditary or not leaves_out)


def different_qids(parts: Sequence[GroupRequirement]) -> Iterator[str]:
    """Yield a complaint for each requirement whose QID differs from that of the first."""
    for other in parts[1:]:
        if set(other.qid) != set(parts[0].qid):
            yield (
                f"all requirements must be over the same QID; {parts[0].model} is over {', '.join(parts[0].qid)}, "
                f"and {other.model} over {', '.join(other.qid)}"
            )


def refuse_violating_whole(
    source: str, n: int, parts: Sequence[GroupRequirement], sensitive: Mapping[str, tuple[Counts, tuple[str, ...]]]
) -> None:
    """Raise `RequirementUnreachable` where n records in one group, with these histograms and labels, violate.

    Then every release does; for a requirement that is not monotone, every one that is made by cutting that group.
    """
    if n == 0:
        raise RequirementUnreachable(f"{source}: no records are left to release")
    problems, violated = [], []
    everybody: tuple[Counts, tuple[str, ...]] = (np.array([[n]], np.int64), ())
    for part in parts:
        histogram, names = everybody if part.sensitive is None else sensitive[part.sensitive]
        if not part.holds(histogram, histogram, names)[0]:
            figure = float(part.figures(histogram, histogram, names)[0])
            whole = f"the group of all records {part.complaint(figure, n)}"
            violated.append(str(part))
            why = f"cannot be reached: even {whole}" if part.monotone else f"cannot be reached by cutting: {whole}"
            problems.append(f"{source}: {part} {why}")
    if problems:
        raise RequirementUnreachable(*problems, violated=tuple(violated))
