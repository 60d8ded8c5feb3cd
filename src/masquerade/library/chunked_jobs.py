"""Run a job on an engine: the table stays in chunks, and the release is a folder of Parquet files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from masquerade.anonymize.chunked.publish import publish_chunks, published_columns, wanted_of
from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.outcome import OnStep
from masquerade.anonymize.release import Provenance
from masquerade.data.database_url import database_scheme
from masquerade.data.file_kinds import is_parted
from masquerade.data.parquet_parts import PartedFiles, parted_files
from masquerade.data.query_parts import parted_query
from masquerade.data.records import Parted, read_chunks
from masquerade.data.schema import Schema
from masquerade.data.staged_parquet import staged_parquet
from masquerade.data.write import write_table
from masquerade.engine.chunks import Engine
from masquerade.engine.memory_size import read_size, size_text
from masquerade.errors import BadInput, ClusterError, DataError, ParameterError, Problem
from masquerade.files import replacing_folder, write_whole
from masquerade.job.engines import engine_of
from masquerade.job.model import DEFAULT_MEMORY, EngineSection
from masquerade.job.outputs import Outputs
from masquerade.job.plan import Plan, bare_source
from masquerade.job.tables import section_file
from masquerade.library.deliver import Written
from masquerade.library.release import Release
from masquerade.methods import table_methods
from masquerade.net.progress import OnStage, Stage, silent

_IN_MEMORY = 3  # how much larger a table is in memory than its pages are, with what is made on the way


def check_chunked(plan: Plan, algorithm: TableMethod) -> None:
    """Report what cannot be done in chunks: a method that needs the whole table, a table that is not Parquet."""
    if plan.is_method_known and algorithm.needs_whole_table:
        plan.problems.add(("algorithm", "name"), _needs_whole_table(plan, algorithm))
    elif plan.is_method_known:
        for problem in _against_chunks(algorithm):
            plan.refuse(problem)
    engine = plan.job.engine
    data = plan.job.data
    if engine is None or engine.name != "dask" or data is None or _is_parquet(plan) or data.partition:
        return
    if database_scheme(data.source) is not None:
        text = "missing; name a column that tells all rows apart: the workers of a cluster read ranges of it"
        plan.problems.add(("data", "partition"), text)
    else:
        text = (
            "a cluster reads Parquet where it lies (a file, a folder, or a pattern such as people/*.parquet)"
        )
        plan.problems.add(("data", "source"), f"{text}, or a database")


def _is_parquet(plan: Plan) -> bool:
    data = plan.job.data
    return data is None or not data.source or section_file(data, plan.base).is_parquet


@contextmanager
def _files(plan: Plan, columns: Sequence[str], also: Sequence[str], on_stage: OnStage) -> Iterator[Parted]:
    """Yield the Parquet files of the job's table, or the ranges of a query's result; of any other table a copy.

    It must have these columns, and may have those in `also`.
    """
    data = plan.job.data
    assert data is not None
    if _is_parquet(plan):
        files = parted_files(data.source, plan.base, columns)
        there = [name for name in also if name in files.columns]
        yield parted_files(data.source, plan.base, [*columns, *there]) if there else files
        return
    if data.partition is not None and data.query is not None:
        try:
            yield parted_query(data.source, data.query, plan.base, data.partition, columns)
        except DataError as error:
            raise (
                error.within(str(plan.path)) if error.problems[0].key[:1] == ("data",) else error
            ) from None
        return
    on_stage(Stage(f"copying {bare_source(data.source)}", detail="to be read in chunks"))
    with staged_parquet(section_file(data, plan.base), columns, also) as files:
        yield files


def in_memory(files: PartedFiles) -> int:
    """Return about how many bytes all rows of these files take in one memory."""
    return int(_IN_MEMORY * files.rows * files.row_bytes)


def check_fits_memory(plan: Plan, algorithm: TableMethod) -> None:
    """Refuse a table of many files that is too large for a method that needs the whole of it."""
    data = plan.job.data
    assert data is not None
    files = parted_files(data.source, plan.base)
    needed = in_memory(files)
    if needed > read_size(DEFAULT_MEMORY):
        size = f"this one takes about {size_text(needed)}, and {DEFAULT_MEMORY} are the most that is read at once"
        plan.problems.add(("algorithm", "name"), f"{_needs_whole_table(plan, algorithm)}; {size}")
        plan.settle()


def beyond_memory(plan: Plan, *sources: str) -> tuple[PartedFiles, ...] | None:
    """Return the files of tables in many files that are larger than the memory of the job's engine; else None."""
    engine = plan.job.engine or EngineSection()
    if not all(is_parted(source, Path()) for source in sources):
        return None
    files = tuple(parted_files(source, Path()) for source in sources)
    most = engine.memory_bytes if engine.name == "local" else read_size(DEFAULT_MEMORY)
    return files if sum(map(in_memory, files)) > most else None


def refuse_whole(function: str, **asked: Any) -> None:
    """Refuse what somebody asked for that needs the tables in one memory."""
    for name, value in asked.items():
        if value:
            raise ParameterError(
                f"The {name} parameter of {function} needs all rows in one memory, and these are larger than "
                "[engine] memory; leave it out, or take some of the files"
            )


def _against_chunks(algorithm: TableMethod) -> Sequence[Problem]:
    try:
        algorithm.in_chunks()
    except ParameterError as error:
        return error.problems
    return ()


def _needs_whole_table(plan: Plan, algorithm: TableMethod) -> str:
    if not algorithm.needs_whole_table:
        whole = f'"{algorithm.name}" without an [engine] needs the whole table in one memory'
        against = _against_chunks(algorithm)
        return f"{whole}, and with one: {against[0]}" if against else f"{whole}; name an engine"
    able = [name for name, method in table_methods().items() if not method.needs_whole_table]
    return f'"{algorithm.name}" needs the whole table in one memory; on chunks of a table there are {", ".join(able)}'


@contextmanager
def opened_engine(section: EngineSection | None, plan: Plan) -> Iterator[Engine]:
    """Open the engine that a job names; what is wrong with it names the job and the key."""
    asked = section or EngineSection()
    try:
        with engine_of(asked) as engine:
            yield engine
    except (BadInput, ClusterError) as error:
        if any(problem.key[:1] == ("engine",) for problem in error.problems):
            raise error.within(str(plan.path)) from None
        raise


def anonymize_chunks(
    plan: Plan,
    schema: Schema,
    algorithm: TableMethod,
    outputs: Outputs,
    on_stage: OnStage = silent,
    on_step: OnStep | None = None,
) -> Written:
    """Read, anonymise, write, verify what was written, and only then put the release and the report in their places."""
    data = plan.job.data
    assert data is not None
    wanted = wanted_of(
        schema,
        plan.requirement,
        plan.job.roles.class_,
        plan.published,
        data.missing,
        data.missing_values,
    )
    # It tells how many people are at several providers, and is not released.
    identifiers = plan.job.roles.identifiers if plan.requirement.provider_columns else ()
    with (
        _files(plan, wanted.used, identifiers, on_stage) as files,
        opened_engine(plan.job.engine, plan) as engine,
        replacing_folder(outputs.table) as folder,
    ):
        current = Stage("")

        def staged(stage: Stage) -> None:
            nonlocal current
            current = stage
            on_stage(stage)

        def on_chunk(done: int, total: int) -> None:
            on_stage(Stage(current.name, detail=f"{done} of {total} chunks"))

        if (dashboard := getattr(engine, "dashboard", None)) is not None:
            staged(Stage("connected", detail=f"the cluster shows its work at {dashboard}"))
        staged(Stage(f"reading {bare_source(data.source)}"))
        engine.on_chunk = on_chunk
        started = time.perf_counter()
        table = read_chunks(files, wanted, engine)
        read = time.perf_counter() - started
        engine.on_chunk = None if on_step is not None else on_chunk
        released = published_columns(schema, plan.requirement, plan.job.roles.class_, plan.published)
        release, digest = publish_chunks(
            table,
            plan.requirement,
            algorithm,
            folder,
            sensitive=plan.published,
            shuffle=plan.job.output.order == "shuffle",
            missing_values=data.missing_values,
            identifier=next((name for name in identifiers if name in files.columns), None),
            provenance=Provenance(
                dropped=tuple(name for name in files.columns if name not in released),
                settings={"job_file": plan.path.name, "job": plan.settings()},
                read_seconds=read,
                kind=Release,
            ),
            on_step=on_step,
            on_stage=staged,
        )
        assert isinstance(release, Release)
        if outputs.report is not None:
            from masquerade.report.html import render_report

            staged(Stage(f"writing {outputs.report.name}"))
            started = time.perf_counter()
            write_whole(outputs.report, render_report(release, digest))
            release.seconds["report"] = time.perf_counter() - started
        if outputs.labels is not None:
            write_table(release.labels(outputs.labelled), outputs.labels)
    return Written(release, outputs.table, outputs.report, outputs.labels)
