"""From a table to a verified release: run the algorithm, assemble the cells, check them independently, measure them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.outcome import OnStep, Outcome, Step
from masquerade.data.column import Generalised
from masquerade.data.encode import without_unused
from masquerade.data.table import Missing, Table
from masquerade.engine.counts import Counts
from masquerade.engine.numbering import occurring
from masquerade.errors import Bug
from masquerade.privacy.check import Verdict, verify
from masquerade.privacy.requirement import Requirement
from masquerade.utility.comparison import Comparison
from masquerade.utility.metrics import measure
from masquerade.utility.queries import QueryError, query_error

Order = Literal["shuffle", "input"]


@dataclass(frozen=True, eq=False)
class Release:
    """A table that satisfies its requirement, and the evidence: verdicts, steps, cuts, metrics, timings."""

    table: pa.Table
    verdicts: tuple[Verdict, ...]
    columns: tuple[Generalised, ...]  # the generalised columns with their cut, in the order of the input
    steps: tuple[Step, ...]
    group_sizes: Counts
    rows: int
    dropped_rows: int | None  # for missing cells; None where only those know it who read the tables
    dropped: tuple[str, ...]
    metrics: Mapping[str, float | None]
    attribute_losses: Mapping[str, float]  # what each generalised attribute lost: 0 nothing, 1 everything
    settings: Mapping[str, Any]  # what it takes to repeat the run
    seconds: dict[str, float] = field(default_factory=dict)
    # How many providers feed each group, where the requirement names them; groups are those of `group_sizes`.
    group_providers: Counts | None = None
    query_error: QueryError | None = None  # where groups are cut for the sake of queries
    suppressed: int = 0  # kept rows that are not in the release

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of DESIGN's public surface."""
        return {
            "rows": self.rows,
            "dropped_rows": self.dropped_rows,
            "released": int(self.table.num_rows),
            "suppressed": self.suppressed,
            "dropped": list(self.dropped),
            "groups": int(self.group_sizes.size),
            **self._providers(),
            "requirements": [verdict.summary() for verdict in self.verdicts],
            "steps": [step.summary() for step in self.steps],
            "metrics": dict(self.metrics),
            **({"query_error": self.query_error.summary()} if self.query_error is not None else {}),
            "seconds": dict(self.seconds),
        }

    def _providers(self) -> dict[str, dict[str, int]]:
        """How many groups are fed by one provider, by two, …"""
        if self.group_providers is None:
            return {}
        found, groups = occurring(self.group_providers, int(self.group_providers.max(initial=0)) + 1)
        return {"groups_by_providers": dict(zip(map(str, found.tolist()), groups.tolist(), strict=True))}


def publish(
    table: Table,
    requirement: Requirement,
    algorithm: TableMethod,
    *,
    sensitive: Sequence[str] = (),
    missing: Missing = "drop",
    order: Order = "shuffle",
    seed: int = 7,
    on_step: OnStep | None = None,
) -> Release:
    """Anonymise a table, and let nothing out that the independent check does not pass.

    The release holds the attributes of the schema, the class and the sensitive columns, in that order. Who provided
    a record is checked with them, and released only where `sensitive` or the schema names that column. `seed` draws
    the random queries of the query error, and nothing else.
    """
    started = time.perf_counter()
    special = [algorithm.target] if algorithm.target is not None else []
    special += [*sensitive, *requirement.special_columns]
    published = tuple(dict.fromkeys([*table.schema.names, *special]))
    asked = {algorithm.target, *sensitive, *table.schema.names}
    withheld = [name for name in requirement.provider_columns if name not in asked]
    ranked = [name for name in table.schema.names if name in requirement.qid_attributes]
    complete = table.complete(published, missing, ranked=ranked)
    complete.columns(ranked)
    for name in dict.fromkeys(special):
        complete.coded(name)
    encoded = time.perf_counter()

    outcome = algorithm.run(complete, requirement, on_step)
    cells = _assemble(complete, outcome, published)
    # The algorithm has bound the requirement to the whole table; a release may lack some of its values.
    verdicts = verify(Table(cells, origin=table.origin), requirement, bind=False)
    if not all(verdict.holds for verdict in verdicts):
        raise Bug(f"{algorithm.name} made a release that its requirement refuses; nothing was written")
    cells = cells.drop_columns(withheld)
    anonymised = time.perf_counter()

    comparison = _comparison(complete, outcome, algorithm.target)
    metrics = measure(comparison)
    losses = comparison.attribute_losses()
    asks = algorithm.answers_queries and outcome.columns
    provider = next(iter(requirement.provider_columns), None)
    queries = query_error(comparison, seed=seed) if asks else None
    measured = time.perf_counter()
    return Release(
        table=shuffled(cells) if order == "shuffle" else cells,
        verdicts=verdicts,
        columns=outcome.columns,
        steps=outcome.steps,
        group_sizes=comparison.group_sizes,
        rows=table.rows_read,
        dropped_rows=complete.dropped_rows,
        dropped=tuple(name for name in table.arrow.column_names if name not in cells.column_names),
        metrics=metrics,
        attribute_losses=losses,
        settings={"source": table.origin.name, "algorithm": algorithm.settings(), "class": algorithm.target},
        seconds={
            "read": encoded - started,
            "anonymize": anonymised - encoded,
            "metrics": measured - anonymised,
        },
        group_providers=comparison.providers_of_groups(complete.coded(provider)) if provider else None,
        query_error=queries,
        suppressed=comparison.suppressed,
    )


def _assemble(table: Table, outcome: Outcome, published: Sequence[str]) -> pa.Table:
    generalised = {column.name: column for column in outcome.columns}
    rows = None if outcome.kept is None else pa.array(outcome.kept)
    cells = {}
    for name in published:
        if name in generalised:
            cells[name] = generalised[name].to_arrow()
        else:
            raw = table.cells(name) if rows is None else table.cells(name).take(rows)
            cells[name] = without_unused(raw) if rows is not None or table.dropped_rows else raw
    return pa.table(cells)


def _comparison(table: Table, outcome: Outcome, target: str | None) -> Comparison:
    names = [column.name for column in outcome.columns]
    return Comparison(
        originals=table.columns(names),
        released=outcome.columns,
        classes=table.coded(target) if target is not None else None,
        kept=outcome.kept,
        weights={name: table.schema[name].weight for name in names},
    )


def shuffled(cells: pa.Table) -> pa.Table:
    """The rows in an order that only the system's randomness knows: the input's order would point at people."""
    keys = np.frombuffer(os.urandom(8 * cells.num_rows), np.uint64)
    return cells.take(pa.array(np.argsort(keys)))
