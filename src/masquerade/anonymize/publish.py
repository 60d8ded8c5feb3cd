"""Make a verified release of a table: run the algorithm, assemble the cells, check them independently, measure them.

What only some releases need (boundaries, weights, queries) is loaded by them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from masquerade.anonymize.method import TableMethod, records_of
from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.anonymize.release import Provenance, Release, shuffled
from masquerade.anonymize.sensitive_values import counts_before
from masquerade.anonymize.shared_people import shared_people
from masquerade.anonymize.workload_key import WORKLOAD
from masquerade.data.column import Coded
from masquerade.data.encode import without_unused
from masquerade.data.table import Missing, Table
from masquerade.errors import Bug
from masquerade.privacy.check import Verdict, verify
from masquerade.privacy.requirement import Requirement
from masquerade.utility.comparison import Comparison

if TYPE_CHECKING:
    from masquerade.utility.queries import QueryError

Order = Literal["shuffle", "input"]


@dataclass(frozen=True, eq=False)
class Anonymised:
    """The complete rows of a table, and their verified anonymisation."""

    table: Table
    outcome: Outcome
    cells: pa.Table  # in the order of the rows, with every published column
    verdicts: tuple[Verdict, ...]
    comparison: Comparison
    providers: Coded | None  # of the table's rows, where the requirement names them
    seconds: dict[str, float]  # to encode the table, and to anonymise it

    def queries(self, algorithm: TableMethod, seed: int) -> QueryError | None:
        """Measure the error of random queries; None unless the algorithm is judged by it."""
        choice = self.outcome.choice
        asks = (
            algorithm.answers_queries if choice is None else choice.answers_queries
        ) and self.outcome.columns
        if not asks:
            return None
        from masquerade.utility.queries import query_error

        return query_error(self.comparison, seed=seed)

    def purpose(self, workload: str | None) -> dict[str, float | None]:
        """Measure what the weights and the workload are about; nothing where all attributes weigh the same, or none."""
        if workload is None and len(set(self.comparison.weights.values())) < 2:
            return {}
        from masquerade.data.query_log import kept_query_log
        from masquerade.utility.measures import Measurer

        log = kept_query_log(workload) if workload is not None else None
        return Measurer(self.table, workload=log).purpose(self.comparison)


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
    provenance: Provenance | None = None,
) -> Release:
    """Anonymise a table. Nothing is released unless it passes the independent check.

    The release holds the attributes of the schema, the class and the sensitive columns, in that order. Who provided
    a record is checked with them, and released only where `sensitive` or the schema names that column. `seed` is for
    the random queries of the query error only.
    """
    known = provenance or Provenance()
    made = anonymised(table, requirement, algorithm, sensitive=sensitive, missing=missing, on_step=on_step)
    started = time.perf_counter()
    dropped = known.dropped
    if dropped is None:
        released = set(made.cells.column_names)
        dropped = tuple(name for name in table.arrow.column_names if name not in released)
    secret = [name for name in sensitive if name not in (algorithm.target, *requirement.provider_columns)]
    protected = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    release = known.kind.measured(
        shuffled(made.cells) if order == "shuffle" else made.cells,
        made.verdicts,
        made.comparison,
        providers=made.providers,
        query_error=made.queries(algorithm, seed),
        sensitive=secret,
        sensitive_before=counts_before(
            records_of(made.table, requirement, algorithm.target, sensitive),
            made.comparison,
            requirement,
            dict.fromkeys([*secret, *protected]),
        ),
        shared=shared_people(table, requirement),
        steps=made.outcome.steps,
        choice=made.outcome.choice,
        purpose=made.purpose(getattr(algorithm, WORKLOAD, None)),
        rows=table.rows_read,
        dropped_rows=made.table.dropped_rows,
        dropped=dropped,
        settings={
            "source": table.origin.name,
            "algorithm": algorithm.settings(),
            "class": algorithm.target,
            **known.settings,
        },
        seconds={**made.seconds, "read": known.read_seconds + made.seconds["read"]},
    )
    release.seconds["metrics"] = time.perf_counter() - started
    return release


def anonymised(
    table: Table,
    requirement: Requirement,
    algorithm: TableMethod,
    *,
    sensitive: Sequence[str] = (),
    missing: Missing = "drop",
    on_step: OnStep | None = None,
) -> Anonymised:
    """Run the algorithm on the complete rows, and verify the result."""
    started = time.perf_counter()
    special = [algorithm.target] if algorithm.target is not None else []
    special += [*sensitive, *requirement.special_columns]
    published = tuple(dict.fromkeys([*table.schema.names, *special]))
    asked = {algorithm.target, *sensitive, *table.schema.names}
    withheld = [name for name in requirement.provider_columns if name not in asked]
    ranked = [name for name in table.schema.names if name in requirement.qid_attributes]
    if missing == "keep":  # a record without a provider cannot be held against it
        table = table.complete(requirement.provider_columns)
    complete = table.complete(published, missing, ranked=ranked)
    complete.columns(ranked)
    for name in dict.fromkeys(special):
        complete.coded(name)
    encoded = time.perf_counter()

    outcome = algorithm.run_on_table(complete, requirement, on_step)
    cells, verdicts = verified(complete, outcome, requirement, published)
    if not all(verdict.holds for verdict in verdicts):
        raise Bug(f"{algorithm.name} made a release that its requirement refuses; nothing was written")
    provider = next(iter(requirement.provider_columns), None)
    return Anonymised(
        complete,
        outcome,
        cells.drop_columns(withheld),
        verdicts,
        comparison_of(complete, outcome, algorithm.target),
        complete.coded(provider) if provider is not None else None,
        {"read": encoded - started, "anonymize": time.perf_counter() - encoded},
    )


def verified(
    table: Table, outcome: Outcome, requirement: Requirement, published: Sequence[str]
) -> tuple[pa.Table, tuple[Verdict, ...]]:
    """Return the cells that an outcome publishes, and the verdicts of the independent check."""
    cells = _assemble(table, outcome, published)
    # The algorithm has bound the requirement to the whole table; a release may lack some of its values.
    verdicts = verify(Table(cells, origin=table.origin), requirement, bind=False)
    if any(part.within_boundaries for part in requirement.parts):
        from masquerade.privacy.boundary_check import with_violations

        beyond = comparison_of(table, outcome, None).violations
        verdicts = with_violations(verdicts, beyond, table.origin.name)
    return cells, verdicts


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


def comparison_of(table: Table, outcome: Outcome, target: str | None) -> Comparison:
    """Return an outcome beside the complete rows that it was made of."""
    names = [column.name for column in outcome.columns]
    return Comparison(
        originals=table.columns(names),
        released=outcome.columns,
        classes=table.coded(target) if target is not None else None,
        kept=outcome.kept,
        weights={name: table.schema[name].weight for name in names},
    )
