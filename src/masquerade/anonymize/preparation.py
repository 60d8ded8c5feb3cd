"""The first step of every method on one table: check the requirement against the table, and read what both need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.method import TableMethod, insist
from masquerade.data.column import Coded, Column
from masquerade.data.table import Table
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.privacy.requirement import GroupRequirement, Requirement, without_redundant


@dataclass(frozen=True, eq=False)
class Prepared:
    """The columns to generalise, and the requirements that must hold afterwards."""

    parts: tuple[GroupRequirement, ...]  # of the requirement, without those that others cover
    columns: tuple[Column, ...]  # the QID attributes, in the order of the schema
    sensitive: Mapping[str, Coded]


def prepare(table: Table, requirement: Requirement, method: TableMethod) -> Prepared:
    """Refuse what the method or this table cannot do, and bind the requirement to the table's sensitive values."""
    parts = without_redundant(requirement.parts)
    _refuse_misplaced(parts, method.target)
    insist(method.refusals(parts, table.schema))
    for name in requirement.qid_attributes:
        table.schema[name]  # an unknown name is an error that lists the known ones
    columns = table.columns(name for name in table.schema.names if name in requirement.qid_attributes)
    sensitive = {name: table.coded(name) for name in requirement.sensitive_attributes}
    for part in parts:
        part.bind(sensitive[part.sensitive].labels if part.sensitive is not None else ())
    refuse_unreachable(table, parts, sensitive)
    return Prepared(parts, columns, sensitive)


def _refuse_misplaced(parts: Sequence[GroupRequirement], target: str | None) -> None:
    """Refuse a class or sensitive attribute in a QID: it is published as it is, and cannot be generalised."""
    sensitive = {part.sensitive for part in parts}
    for part in parts:
        for name in part.qid:
            if name == target:
                raise ParameterError(
                    f"class attribute {name}: it is inside the QID of {part}; take it out of the QID"
                )
            if name in sensitive:
                raise ParameterError(
                    f"sensitive attribute {name}: it is inside the QID of {part}; take it out of the QID"
                )


def different_qids(parts: Sequence[GroupRequirement]) -> Iterator[str]:
    """Yield a complaint for each requirement whose QID differs from that of the first."""
    for other in parts[1:]:
        if set(other.qid) != set(parts[0].qid):
            yield (
                f"all requirements must be over the same QID; {parts[0].model} is over {', '.join(parts[0].qid)}, "
                f"and {other.model} over {', '.join(other.qid)}"
            )


def refuse_unreachable(
    table: Table, parts: Sequence[GroupRequirement], sensitive: Mapping[str, Coded] | None = None
) -> None:
    """Raise `RequirementUnreachable` where all records in one group violate it: then every release does.

    For a requirement that is not monotone, this covers only releases made by cutting that group. `sensitive` has
    columns that are known without being in the table.
    """
    n, known = len(table), sensitive or {}
    if n == 0:
        raise RequirementUnreachable(f"{table.origin.name}: no records are left to release")
    problems = []
    violated = []
    for part in parts:
        name = part.sensitive
        coded = None if name is None else known[name] if name in known else table.coded(name)
        histogram = coded.histogram() if coded is not None else np.array([[n]], np.int64)
        names = coded.labels if coded is not None else ()
        if not part.holds(histogram, histogram, names)[0]:
            figure = float(part.figures(histogram, histogram, names)[0])
            whole = f"the group of all records {part.complaint(figure, n)}"
            violated.append(str(part))
            problems.append(
                f"{table.origin.name}: {part} cannot be reached: even {whole}"
                if part.monotone
                else f"{table.origin.name}: {part} cannot be reached by cutting: {whole}"
            )
    if problems:
        raise RequirementUnreachable(*problems, violated=tuple(violated))
