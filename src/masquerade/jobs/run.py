"""The commands that run a job file: anonymise, compare, verify, evaluate.

What only some jobs need (chunks, comparing, metrics) is loaded by them: most tables are anonymised faster than that.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from masquerade.anonymize import Folder, Provenance, TableMethod, publish, publish_records, published_columns, wanted_of
from masquerade.data import (
    OnStep,
    RawTable,
    Schema,
    Table,
    TableFile,
    check_target,
    database_scheme,
    encode_table,
    escape_formulas,
    is_partitioned,
    partitioned_files,
    rows_of_chunks,
)
from masquerade.files import make_folder, read_file, replacing_folder, replacing_together
from masquerade.jobs.model import DataSection, EngineSection
from masquerade.jobs.outputs import Outputs, section_file
from masquerade.jobs.plan import Changes, Plan, bare_source
from masquerade.jobs.release import Release
from masquerade.jobs.rows import beyond_memory, check_compared, check_rows, opened_engine, opened_records, refuse_rows
from masquerade.progress import OnStage, Stage, silent
from masquerade.utility import WORKLOAD

if TYPE_CHECKING:
    from masquerade.jobs.comparing import Contest
    from masquerade.jobs.verifying import Verification
    from masquerade.privacy import ReleasedRows

# --- deliver ------------------------------------------------------------------------------------------------
# Write a release with its report, and what else a run keeps: all complete, or nothing.
#
# The table is renamed into its place last, and the report names the table's digest. So a release is never
# without its report, and a report that a killed process left beside another table, or beside none, does not
# pass for that table's.


@dataclass(frozen=True)
class Written:
    """A release and the files it was written to."""

    release: Release
    table: Path
    report: Path | None
    labels: Path | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary, with the files."""
        files = {"table": self.table, "report": self.report, "labels": self.labels}
        written = {key: str(path) for key, path in files.items() if path is not None}
        return {**self.release.summary, **written}


def deliver(
    release: Release,
    outputs: Outputs,
    on_stage: OnStage = silent,
    *,
    records: Sequence[Path] = (),
    into: Path | None = None,
    digest: str | None = None,
) -> None:
    """Write the release and its report, and copy `records` with their modes into a folder.

    The time taken is added to the release's `seconds`. `digest` is that of a table that is written already.
    """
    with replacing_together() as opened:
        if digest is None:
            on_stage(Stage(f"writing {outputs.table.name}"))
            started = time.perf_counter()
            check_target(outputs.table)
            with opened(outputs.table) as file:
                table = escape_formulas(release.table) if outputs.escape_formulas else release.table
                encode_table(table, file, outputs.table.suffix)
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # any file will do
            release.seconds["write"] = time.perf_counter() - started
        if outputs.report is not None:
            from masquerade.report import render_report

            on_stage(Stage(f"writing {outputs.report.name}"))
            started = time.perf_counter()
            with opened(outputs.report) as file:
                file.write(render_report(release, digest).encode())
            release.seconds["report"] = time.perf_counter() - started
        if outputs.labels is not None:
            labels = release.labels(outputs.labelled)
            with opened(outputs.labels) as file:
                encode_table(
                    escape_formulas(labels) if outputs.escape_formulas else labels, file, outputs.labels.suffix
                )
        if into is not None:
            copy_records(opened, records, into)


def copy_records(opened: Callable[..., Any], records: Iterable[Path], into: Path) -> None:
    """Copy files with their modes into a folder, among others that are `opened` together."""
    make_folder(into)
    for record in records:
        with opened(into / record.name, record.stat().st_mode & 0o777) as file:
            file.write(read_file(record))


def anonymize_job(
    path: str | Path,
    *,
    method: str | None = None,
    k: int | None = None,
    output: str | Path | None = None,
    quick: bool = False,
    on_stage: OnStage = silent,
    on_step: OnStep | None = None,
) -> Written:
    """Run a job: read, anonymise, verify, and only then write the release and the report.

    `method`, `k` and `output` take the place of what the job says; the report goes beside `output`. Where the method is
    "auto", `quick` takes a fast one.
    """
    changes = Changes(method, k, None if output is None else Path(output))
    return anonymize_plan(Plan(Path(path), changes), quick=quick, on_stage=on_stage, on_step=on_step)


def anonymize_plan(
    plan: Plan, *, quick: bool = False, on_stage: OnStage = silent, on_step: OnStep | None = None
) -> Written:
    """Run a job that has been read."""
    data, schema, outputs = plan.data(), plan.schema(), plan.outputs()
    algorithm = plan.algorithm(schema)
    if quick and not plan.problems.found:
        algorithm = algorithm.quickest(plan.requirement, schema)
    algorithm = algorithm.telling(lambda text: on_stage(Stage("anonymising", detail=text)))
    check_rows(plan, algorithm)
    settings = {"job_file": plan.path.name, "job": plan.settings()}
    if plan.on_engine:
        return _publish_folder(plan, schema, algorithm, outputs, settings, on_stage, on_step)
    on_stage(Stage(f"reading {bare_source(data.source)}"))
    # For its first array Arrow imports numpy.ma, and pandas if installed: do not count that as reading time.
    pa.array(np.zeros(1))
    started = time.perf_counter()
    table, left_out = input_of(plan, data, schema)
    read = time.perf_counter() - started
    on_stage(Stage("anonymising"))
    published = publish(
        table,
        plan.requirement,
        algorithm,
        sensitive=plan.published,
        missing=data.missing,
        order=plan.job.output.order,
        seed=plan.common.seed,
        on_step=on_step,
        provenance=Provenance(dropped=left_out, settings=settings, read_seconds=read),
    )
    release = Release.of(published)
    deliver(release, outputs, on_stage)
    return Written(release, outputs.table, outputs.report, outputs.labels)


def _publish_folder(
    plan: Plan,
    schema: Schema,
    algorithm: TableMethod,
    outputs: Outputs,
    settings: dict[str, Any],
    on_stage: OnStage,
    on_step: OnStep | None,
) -> Written:
    """Publish a table in chunks as a folder of files, which is put into its place last."""
    data, class_ = plan.data(), plan.job.roles.class_
    wanted = wanted_of(schema, plan.requirement, class_, plan.published, data.missing, data.missing_values)
    # It tells how many people are at several providers, and is not released.
    identifiers = plan.job.roles.identifiers if plan.requirement.provider_columns else ()
    with (
        opened_records(plan, wanted, identifiers, on_stage, counting=on_step is None) as opened,
        replacing_folder(outputs.table) as folder,
    ):
        records, columns, read_seconds, staged = opened
        released = published_columns(schema, plan.requirement, class_, plan.published)
        published, digest = publish_records(
            records,
            plan.requirement,
            algorithm,
            Folder(folder, plan.job.output.order == "shuffle", tuple(data.missing_values)),
            sensitive=plan.published,
            identifier=next((name for name in identifiers if name in columns), None),
            provenance=Provenance(
                dropped=tuple(name for name in columns if name not in released),
                settings=settings,
                read_seconds=read_seconds,
            ),
            on_step=on_step,
            on_stage=staged,
        )
        release = Release.of(published)
        deliver(release, outputs, staged, digest=digest)
    return Written(release, outputs.table, outputs.report, outputs.labels)


def verify_job(release: str | Path, job: str | Path, *, sql: bool = False) -> Verification:
    """Check whether the release satisfies the job's requirements and holds none of its identifiers.

    With `sql`, DuckDB counts the release once more, within the memory of the job's engine: `Verification.sql`.
    """
    from masquerade.jobs.verifying import verification_of

    plan = Plan(Path(job))
    schema = plan.boundaries()
    plan.settle()
    with _released_rows(str(release), plan, schema) as rows:
        found = verification_of(rows, plan.requirement, schema, plan.job.roles.identifiers)
    if not sql:
        return found
    memory = (plan.job.engine or EngineSection()).memory_bytes
    return found.with_sql(Path(release), memory=memory, unescape=plan.job.output.escape_formulas, name=found.name)


@contextmanager
def _released_rows(release: str, plan: Plan, schema: Schema | None) -> Iterator[ReleasedRows]:
    """Open a finished release for its check: a file is read, many files are counted on the job's engine."""
    from masquerade.jobs.verifying import insist_on_providers
    from masquerade.privacy import ReleasedRows

    requirement = plan.requirement
    if not is_partitioned(release, Path()):
        source = as_released(TableFile(release, encoding="utf-8").read(), plan)
        insist_on_providers(source.origin.name, source.all_columns, requirement)
        table = Table(source.table, schema, origin=source.origin)
        yield ReleasedRows(source.origin.name, source.all_columns, table)
        return
    asked = [*requirement.qid_attributes, *requirement.special_columns]
    insist_on_providers(release, partitioned_files(release, Path()).columns, requirement)
    files = partitioned_files(release, Path(), asked)
    with opened_engine(plan.job.engine, plan.path) as engine:
        engine.check_files([str(path) for path in files.paths])
        parts = files.parts(rows_of_chunks(files, len(asked), engine))
        yield ReleasedRows(files.name, files.columns, (engine, parts))


def evaluate_job(
    original: str | Path,
    release: str | Path,
    job: str | Path,
    *,
    queries: int = 2500,
    train: int | None = None,
    folds: int = 10,
    workload: str | Path | None = None,
    predict: Sequence[str] = (),
    clusters: int = 0,
    on_stage: OnStage = silent,
) -> dict[str, Any]:
    """Return the metrics of a release whose rows are in the order of the (kept) input; see `evaluate`.

    SE, the error of one source alone, is included if the job names parties with their attributes. If the
    original is in a database, the job's query is run on it. The selections measured are those of `workload`, or of the
    one that the job names. Two tables in many files that exceed the memory of the job's engine are measured by counts.
    """
    from masquerade.jobs.evaluation import evaluate, evaluate_files

    plan = Plan(Path(job))
    schema = plan.schema()
    plan.settle()
    if (large := beyond_memory(plan, str(original), str(release))) is not None:
        refuse_rows("evaluate", train=train, predict=predict, clusters=clusters)
        asked = workload or workload_of(plan)
        return evaluate_files(large[0], large[1], plan, schema, asked, on_stage)
    data = plan.job.data or DataSection()
    used = list(dict.fromkeys([*schema.names, *plan.published]))

    on_stage(Stage("reading"))
    coded = {*plan.requirement.qid_attributes, *plan.published}
    found = _read(str(original), data, Path(), used, coded)
    published = as_released(TableFile(str(release), encoding="utf-8").read(used, coded), plan)
    attributes = set(schema.names) - {plan.job.roles.class_}
    sources = {
        name: [each for each in party.attributes if each in attributes]
        for name, party in plan.job.parties.items()
        if party.attributes is not None
    }
    return evaluate(
        Table(found.table, schema, origin=found.origin),
        Table(published.table, schema, origin=published.origin),
        plan.requirement,
        plan.job.roles.class_,
        sensitive=plan.published,
        missing=data.missing,
        queries=queries,
        train=train,
        folds=folds,
        sources=sources,
        workload=workload or workload_of(plan),
        predict=predict,
        clusters=clusters,
        seed=plan.common.seed,
        on_stage=on_stage,
    )


def compare_job(
    path: str | Path, *, methods: Sequence[str] = (), ks: Sequence[int] = (), on_stage: OnStage = silent
) -> Contest:
    """Run the methods that fit a job, or those named, side by side; see `compare`. Nothing is written."""
    from masquerade.jobs.comparing import contest, methods_named, sizes_of

    plan = Plan(Path(path))
    data, schema = plan.data(), plan.schema()
    check_compared(plan, data.source)
    plan.settle()
    chosen, sizes = methods_named(methods), sizes_of(ks, plan.requirement)
    on_stage(Stage(f"reading {bare_source(data.source)}"))
    table, _ = input_of(plan, data, schema)
    return contest(
        table,
        plan.requirement,
        chosen,
        ks=sizes,
        target=plan.job.roles.class_,
        sensitive=plan.published,
        missing=data.missing,
        seed=plan.common.seed,
        workload=workload_of(plan),
        on_stage=on_stage,
    )


def as_released(source: RawTable, plan: Plan) -> RawTable:
    """Return the table of a finished release with its cells as they were before formulas in it were escaped."""
    if not plan.job.output.escape_formulas:
        return source
    from masquerade.data import unescape_formulas

    return replace(source, table=unescape_formulas(source.table))


def workload_of(plan: Plan) -> str | None:
    """Return the file of queries that the job's method names, if any."""
    named = getattr(plan.method, WORKLOAD, None)  # declared by some methods alone
    return None if named is None else str(named)


def input_of(plan: Plan, data: DataSection, schema: Schema) -> tuple[Table, tuple[str, ...]]:
    """Read the table of a job, and name the columns of its source that will not be released."""
    used = list(dict.fromkeys([*schema.names, *plan.published]))
    provider = plan.job.roles.provider
    # Report a missing provider column together with the others, whether or not it is released.
    asked = used if provider is None else [*used, provider]
    # The first identifier that the table has tells how many people are at several providers, and is not released.
    identifier: list[str] = []
    if plan.requirement.provider_columns and plan.job.roles.identifiers:
        header = _read(data.source, data, plan.base, (), ()).all_columns
        identifier = [name for name in plan.job.roles.identifiers if name in header][:1]
    asked = [*asked, *identifier]
    source = _read(data.source, data, plan.base, asked, {*plan.requirement.qid_attributes, *plan.published})
    # The check of m-privacy needs the provider, whether or not it is released.
    needed = list(dict.fromkeys([*used, *plan.requirement.provider_columns, *identifier]))
    released = set(used)
    left_out = tuple(name for name in source.all_columns if name not in released)
    return Table(source.table.select(needed), schema, origin=source.origin), left_out


def _read(source: str, data: DataSection, base: Path, columns: Sequence[str], coded: Container[str]) -> RawTable:
    """Read a table as `[data]` describes it, from its source or another one."""
    in_database = database_scheme(source) is not None or source == data.source
    query = data.query if in_database else None
    file = section_file(data.model_copy(update={"source": source, "query": query}), base)
    return file.read(columns, coded)
