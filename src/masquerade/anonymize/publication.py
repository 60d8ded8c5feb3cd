"""Make a verified release: run the method, lay the released cells out, check them independently, measure them.

The cells of a table in memory are put together here. Those of records in chunks are written into files of a folder,
and the check counts the files. What only some releases need (files, weights, queries) is loaded by them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from masquerade.anonymize.method import TableMethod, records_of
from masquerade.anonymize.release import Provenance, VerifiedRelease, shuffled
from masquerade.anonymize.shared_people import AtHand, shared_people
from masquerade.data import Coded, Missing, OnStep, Outcome, Records, Schema, Table, Wanted, without_unused
from masquerade.engine import Here
from masquerade.errors import Bug
from masquerade.privacy import ReleasedRows, Requirement, Verdict, verify
from masquerade.progress import OnStage, Stage, silent
from masquerade.utility import WORKLOAD, Comparison, counts_before

if TYPE_CHECKING:
    from masquerade.data import WrittenFile
    from masquerade.utility import QueryError

Order = Literal["shuffle", "input"]


@dataclass(frozen=True, eq=False)
class Folder:
    """Where the files of a release are written, which the caller puts into their place."""

    path: Path
    shuffle: bool
    missing_values: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Anonymised:
    """Complete records, and their verified anonymisation."""

    records: Records
    outcome: Outcome  # of a table at hand, its columns have codes
    cells: pa.Table  # with every published column, in the order of the rows; of files, some rows
    verdicts: tuple[Verdict, ...]
    comparison: Comparison
    providers: Coded | None  # of each record, where the requirement names them
    seconds: dict[str, float]  # by stage
    files: Sequence[WrittenFile] = ()  # where the records are in chunks

    @property
    def table(self) -> Table:
        """The complete rows, where they are at hand."""
        assert self.records.table is not None
        return self.records.table

    def queries(self, algorithm: TableMethod, seed: int) -> QueryError | None:
        """Measure the error of random queries, where rows are at hand and the algorithm is judged by it."""
        choice = self.outcome.choice
        judged = algorithm.answers_queries if choice is None else choice.answers_queries
        if not judged or not self.outcome.columns or self.comparison.in_chunks is not None:
            return None
        from masquerade.utility import query_error

        return query_error(self.comparison, seed=seed)

    def purpose(self, workload: str | None) -> dict[str, float | None]:
        """Measure what the weights and the workload are about; nothing where all attributes weigh the same, or none."""
        if workload is None and len(set(self.comparison.weights.values())) < 2:
            return {}
        from masquerade.data import kept_query_log
        from masquerade.utility import Measurer

        log = kept_query_log(workload) if workload is not None else None
        return Measurer(self.records.table, workload=log).purpose(self.comparison)


def published_columns(
    schema: Schema, requirement: Requirement, target: str | None, sensitive: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of the release: the attributes, the class, the sensitive ones; no provider unless named."""
    named = [*schema.names, *([target] if target is not None else []), *sensitive]
    return tuple(dict.fromkeys([*named, *_protected(requirement)]))


def wanted_of(
    schema: Schema,
    requirement: Requirement,
    target: str | None,
    sensitive: Sequence[str],
    missing: Missing,
    missing_values: Sequence[str],
) -> Wanted:
    """Return what a method and the metrics need to know of each row."""
    special = [*([target] if target is not None else []), *sensitive, *requirement.special_columns]
    return Wanted(
        schema,
        tuple(dict.fromkeys([*schema.names, *special])),
        tuple(name for name in schema.names if name in requirement.qid_attributes),
        tuple(dict.fromkeys(special)),
        missing,
        tuple(missing_values),
        requirement.provider_columns,
    )


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
) -> VerifiedRelease:
    """Anonymise a table. Nothing is released unless it passes the independent check.

    The release holds the attributes of the schema, the class and the sensitive columns, in that order. Who provided
    a record is checked with them, and released only where `sensitive` or the schema names that column. `seed` is for
    the random queries of the query error only.
    """
    known = provenance or Provenance()
    made = anonymised(table, requirement, algorithm, sensitive=sensitive, missing=missing, on_step=on_step)
    started = time.perf_counter()
    there = (name for name in table.schema.identifiers if name in table.arrow.column_names)
    identifier, provider = next(there, None), next(iter(requirement.provider_columns), None)
    release = _measured(
        made,
        requirement,
        algorithm,
        known,
        shuffled(made.cells) if order == "shuffle" else made.cells,
        sensitive=sensitive,
        dropped=tuple(name for name in table.arrow.column_names if name not in made.cells.column_names),
        shared=shared_people([AtHand(table.arrow)], Here(), identifier, provider, table.origin.missing_values),
        seed=seed,
    )
    release.seconds["metrics"] = time.perf_counter() - started
    return release


def publish_records(
    records: Records,
    requirement: Requirement,
    algorithm: TableMethod,
    folder: Folder,
    *,
    sensitive: Sequence[str] = (),
    identifier: str | None = None,
    provenance: Provenance,
    on_step: OnStep | None = None,
    on_stage: OnStage = silent,
) -> tuple[VerifiedRelease, str]:
    """Anonymise records in chunks into files of a folder, as `publish` does a table.

    `identifier` is a column of the source that tells people apart, for those whom several providers have. Return the
    release, which holds some of its rows, and the digest of the files.
    """
    from masquerade.data import digest_of

    algorithm = algorithm.in_chunks()
    made = _anonymised(
        records, requirement, algorithm, sensitive=sensitive, folder=folder, on_step=on_step, on_stage=on_stage
    )
    on_stage(Stage("measuring"))
    started = time.perf_counter()
    provider = next(iter(requirement.provider_columns), None)

    told = [*_secret(requirement, algorithm, sensitive), *requirement.special_columns]
    if algorithm.target is not None:
        told.append(algorithm.target)
    shown = [name for name in dict.fromkeys(told) if name in made.cells.column_names]
    release = _measured(
        made,
        requirement,
        algorithm,
        provenance,
        made.cells,
        sensitive=sensitive,
        shared=shared_people(records.parts, records.engine, identifier, provider, folder.missing_values),
        released_rows=made.comparison.released_rows,
        values_after=made.comparison.values([records.coded[name] for name in _told(requirement, algorithm, sensitive)]),
        group_codes=made.comparison.codes_of_groups(),
        group_values=made.comparison.values_of_groups(
            [records.coded[name] for name in shown], records.engine.summing_memory
        ),
    )
    release.seconds["metrics"] = time.perf_counter() - started
    return release, digest_of(made.files)


def _measured(
    made: Anonymised,
    requirement: Requirement,
    algorithm: TableMethod,
    known: Provenance,
    cells: pa.Table,
    *,
    sensitive: Sequence[str],
    dropped: tuple[str, ...] = (),
    seed: int = 7,
    **more: Any,
) -> VerifiedRelease:
    """Return the release with all that is measured and told of it."""
    records = made.records
    return VerifiedRelease.measured(
        cells,
        made.verdicts,
        made.comparison,
        providers=made.providers,
        query_error=made.queries(algorithm, seed),
        sensitive=_secret(requirement, algorithm, sensitive),
        sensitive_before=counts_before(records, made.comparison, requirement, _told(requirement, algorithm, sensitive)),
        steps=made.outcome.steps,
        choice=made.outcome.choice,
        purpose=made.purpose(getattr(algorithm, WORKLOAD, None)),
        rows=records.rows_read,
        dropped_rows=records.dropped_rows,
        dropped=dropped if known.dropped is None else known.dropped,
        settings={
            "source": records.name,
            "algorithm": algorithm.settings(),
            "class": algorithm.target,
            **known.settings,
        },
        seconds={**made.seconds, "read": known.read_seconds + made.seconds["read"]},
        **more,
    )


def _protected(requirement: Requirement) -> list[str]:
    return [name for name in requirement.special_columns if name not in requirement.provider_columns]


def _secret(requirement: Requirement, algorithm: TableMethod, sensitive: Sequence[str]) -> list[str]:
    return [name for name in sensitive if name not in (algorithm.target, *requirement.provider_columns)]


def _told(requirement: Requirement, algorithm: TableMethod, sensitive: Sequence[str]) -> list[str]:
    """Return the columns of which it is told how often each value occurs."""
    return [*dict.fromkeys([*_secret(requirement, algorithm, sensitive), *_protected(requirement)])]


def anonymised(
    table: Table,
    requirement: Requirement,
    algorithm: TableMethod,
    *,
    sensitive: Sequence[str] = (),
    missing: Missing = "drop",
    on_step: OnStep | None = None,
) -> Anonymised:
    """Run the algorithm on the complete rows of a table, and verify the result."""
    started = time.perf_counter()
    wanted = wanted_of(table.schema, requirement, algorithm.target, sensitive, missing, table.origin.missing_values)
    if missing == "keep":  # a record without a provider cannot be held against it
        table = table.complete(wanted.insisted)
    complete = table.complete(wanted.used, missing, ranked=wanted.ranked)
    records = records_of(complete, requirement, algorithm.target, sensitive)
    read = time.perf_counter() - started
    return _anonymised(records, requirement, algorithm, sensitive=sensitive, on_step=on_step, read=read)


def _anonymised(
    records: Records,
    requirement: Requirement,
    algorithm: TableMethod,
    *,
    sensitive: Sequence[str],
    folder: Folder | None = None,
    on_step: OnStep | None = None,
    on_stage: OnStage = silent,
    read: float = 0.0,
) -> Anonymised:
    """Run the algorithm on complete records, and verify the cells, or the files where there is a folder for them."""
    started = time.perf_counter()
    on_stage(Stage("anonymising"))
    outcome = algorithm.run(records, requirement, on_step)
    cut = time.perf_counter()
    on_stage(Stage("writing"))
    published = published_columns(records.schema, requirement, algorithm.target, sensitive)
    withheld = [name for name in requirement.provider_columns if name not in published]
    files: Sequence[WrittenFile] = ()
    if folder is None:
        assert records.table is not None
        outcome = outcome.in_table(records)
        cells = _assemble(records.table, outcome, [*published, *withheld])
        rows = ReleasedRows(records.name, cells.column_names, Table(cells, origin=records.table.origin))
        cells = cells.drop_columns(withheld)
    else:
        from masquerade.data import remove_withheld, sample_of, write_release

        files = write_release(
            *outcome.beside(records),
            published,
            folder.path,
            shuffle=folder.shuffle,
            missing_values=folder.missing_values,
            withheld=withheld,
        )
        rows = ReleasedRows(records.name, published, (records.engine, files))
    written = time.perf_counter()
    on_stage(Stage("verifying"))
    # The algorithm has bound the requirement to the whole table; a release may lack some of its values.
    verdicts = rows.verdicts(requirement)
    if folder is not None:
        remove_withheld(files)
        cells = sample_of(files)
    comparison = Comparison.of(records, outcome, algorithm.target)
    verdicts = _within_boundaries(verdicts, requirement, comparison, records.name)
    if not all(verdict.holds for verdict in verdicts):
        raise Bug(f"{algorithm.name} made a release that its requirement refuses; nothing was written")
    if files and sum(each.rows for each in files) != comparison.released_rows:  # workers may have come and gone
        raise Bug("the files do not hold the rows that were counted; nothing was written")
    provider = next(iter(requirement.provider_columns), None)
    done = time.perf_counter()
    took = {"read": read, "anonymize": cut - started, "write": written - cut, "verify": done - written}
    return Anonymised(
        records,
        outcome,
        cells,
        verdicts,
        comparison,
        records.coded_with_codes(provider) if provider is not None else None,
        {"read": read, "anonymize": done - started} if folder is None else took,
        files,
    )


def verified(table: Table, outcome: Outcome, requirement: Requirement, published: Sequence[str]) -> tuple[Verdict, ...]:
    """Return the verdicts of the independent check on the cells that an outcome publishes."""
    cells = Table(_assemble(table, outcome, published), origin=table.origin)
    verdicts = verify(cells, requirement, bind=False)
    return _within_boundaries(verdicts, requirement, comparison_of(table, outcome, None), table.origin.name)


def _within_boundaries(
    verdicts: tuple[Verdict, ...], requirement: Requirement, comparison: Comparison, name: str
) -> tuple[Verdict, ...]:
    if not any(part.within_boundaries for part in requirement.parts):
        return verdicts
    from masquerade.privacy import with_violations

    return with_violations(verdicts, comparison.violations, name)


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
    """Return what was made of a table beside its complete rows."""
    names = [column.name for column in outcome.columns]
    return Comparison.of(Records.of(table, names), outcome, target)
