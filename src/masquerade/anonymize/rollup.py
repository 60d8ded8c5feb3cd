"""A coarser release made from an earlier one alone: fewer columns, a larger k, a stricter requirement.

Two releases of the same people can be intersected, unless one of them follows from the other. Here it does: the cells
of the earlier release become leaves (released_cells.py), and an anonymizer merges them as it would merge raw values.
Each new group is a union of earlier groups, each new cell covers the earlier one, no record is left out, and nothing
but the earlier release goes in. So whoever has both knows what whoever has the first knows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from masquerade.anonymize.method import TableMethod, WholeTableMethod
from masquerade.anonymize.mondrian.algorithm import Mondrian
from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.anonymize.preparation import prepare
from masquerade.anonymize.publish import anonymised
from masquerade.anonymize.release import Provenance, Release, shuffled
from masquerade.anonymize.released_cells import ReleasedCells, released_cells
from masquerade.anonymize.tds import TopDownSpecialization
from masquerade.data.column import Generalised
from masquerade.data.encode import without_unused
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.errors import Bug, ParameterError, RequirementUnreachable, hint
from masquerade.privacy.check import Verdict, verify
from masquerade.privacy.requirement import Requirement, without_redundant
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import AttributeLoss, losses_of
from masquerade.utility.metrics import ncp


@dataclass(frozen=True)
class Unchanged(WholeTableMethod):
    """Merge nothing: the earlier groups, without the columns that are left out, satisfy the requirement."""

    name: ClassVar[str] = "unchanged"
    summary: ClassVar[str] = "leaves every cell as it is"

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Release each value as itself."""
        columns = prepare(table, requirement, self).columns
        return Outcome(tuple(column.generalise(np.arange(column.domain.size)) for column in columns))


@dataclass(frozen=True, eq=False)
class _RolledUp:
    """One way to merge the earlier groups, and what it loses against them."""

    method: TableMethod
    columns: tuple[Generalised, ...]
    verdicts: tuple[Verdict, ...]
    losses: dict[str, AttributeLoss]
    comparison: Comparison

    @property
    def ncp(self) -> float:
        return ncp(self.losses) or 0.0


def roll_up(
    earlier: Table,
    requirement: Requirement,
    *,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    roots: Mapping[str, str] | None = None,
    provenance: Provenance | None = None,
) -> Release:
    """Make a release of a release. RequirementUnreachable where not even all its records together satisfy.

    The schema of `earlier` has taxonomies where they are known, and `roots` names the roots of others. `columns` are
    those to keep, in their order; None for all. Metrics compare with the earlier release, so 0 lost means that nothing
    was merged.
    """
    started = time.perf_counter()
    known = provenance or Provenance()
    kept = _kept(earlier, requirement, columns, target)
    qid = [name for name in kept if name in requirement.qid_attributes]
    cells = {name: released_cells(earlier, name, (roots or {}).get(name, "*")) for name in qid}
    leaves = _leaves(earlier, cells, requirement, target)
    held = all(verdict.holds for verdict in verify(earlier, requirement))
    ways = [
        _merged(each, cells, leaves, earlier, requirement)
        for each in _methods(leaves, requirement, held, target)
    ]
    good = [way for way in ways if all(verdict.holds for verdict in way.verdicts)]
    if not good:
        parts = without_redundant(requirement.parts)
        if all(part.monotone for part in parts):
            raise Bug("a roll-up was made that its requirement refuses; nothing was written")
        texts = [f"{earlier.origin.name}: {part} cannot be reached by merging groups" for part in parts]
        raise RequirementUnreachable(*texts, violated=tuple(map(str, parts)))
    best = min(good, key=lambda way: way.ncp)
    released = {column.name: column.to_arrow() for column in best.columns}
    table = pa.table({name: released.get(name, without_unused(earlier.cells(name))) for name in kept})
    return known.kind.measured(
        shuffled(table),
        best.verdicts,
        best.comparison,
        best.losses,
        steps=(),
        rows=len(earlier),
        dropped_rows=0,
        dropped=tuple(
            name
            for name in earlier.arrow.column_names
            if name not in kept and name not in requirement.provider_columns
        ),
        settings={
            "source": earlier.origin.name,
            "rolled_up": True,
            "merged_by": best.method.settings(),
            "class": target,
            **known.settings,  # with the algorithm of the earlier release, where it is known
        },
        seconds={"read": known.read_seconds, "roll_up": time.perf_counter() - started},
    )


def _kept(
    earlier: Table, requirement: Requirement, columns: Sequence[str] | None, target: str | None
) -> tuple[str, ...]:
    """Return the columns to keep; refuse those that the release does not have, and a requirement over others."""
    there = earlier.arrow.column_names
    kept = tuple(dict.fromkeys(there if columns is None else columns))
    for name in kept:
        if name not in there:
            text = f'no column "{name}"{hint(name, there)}; the release has: {", ".join(there)}'
            raise ParameterError(f"{earlier.origin.name}: {text}")
    special = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    for name in dict.fromkeys(
        [*requirement.qid_attributes, *special, *([target] if target is not None else [])]
    ):
        if name not in kept:
            raise ParameterError(
                f'"{name}" is not among the columns of the roll-up: {", ".join(kept)}; keep it, or leave it out of '
                "the requirement and the class"
            )
    return kept


def _leaves(
    earlier: Table, cells: dict[str, ReleasedCells], requirement: Requirement, target: str | None
) -> Table:
    """Return the release as a table for an anonymizer: leaves' numbers, and the columns that are not generalised."""
    raw = dict.fromkeys([*([target] if target is not None else []), *requirement.special_columns])
    arrays: dict[str, Any] = {name: each.numbers for name, each in cells.items()}
    arrays |= {name: earlier.cells(name) for name in raw}
    return Table(pa.table(arrays), Schema(each.attribute for each in cells.values()), origin=earlier.origin)


def _methods(
    leaves: Table, requirement: Requirement, held: bool, target: str | None
) -> Sequence[TableMethod]:
    """Return the methods to compare; when each of them refuses the requirement, the one that shall say why."""
    if held:
        return [Unchanged(target)]
    methods = [Mondrian(target), TopDownSpecialization(target)]
    parts = without_redundant(requirement.parts)
    return [each for each in methods if not any(each.refusals(parts, leaves.schema))] or methods[-1:]


def _merged(
    method: TableMethod,
    cells: dict[str, ReleasedCells],
    leaves: Table,
    earlier: Table,
    requirement: Requirement,
) -> _RolledUp:
    """Merge by one method, and check the cells as they will be published: two runs of leaves may have one cover."""
    made = anonymised(leaves, requirement, method, missing="keep")
    columns = tuple(cells[column.name].merged(column) for column in made.outcome.columns)
    published: dict[str, Any] = {column.name: column.to_arrow() for column in columns}
    published |= {name: earlier.cells(name) for name in requirement.special_columns}
    verdicts = verify(Table(pa.table(published), origin=earlier.origin), requirement, bind=False)
    compared = made.comparison
    return _RolledUp(
        method,
        columns,
        verdicts,
        losses_of(compared),
        replace(compared, released=columns),
    )
