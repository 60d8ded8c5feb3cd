"""Where the rows of a job are: in this memory, or in the chunks of an engine. What cannot be done there is said here.

A table in one file is read whole unless the job names an engine. A table in many files is read in chunks where its
method loses nothing by that, and else as a whole if it is not too large.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from masquerade.anonymize import TableMethod
from masquerade.data import (
    Partitioned,
    PartitionedFiles,
    Records,
    TableFile,
    Wanted,
    database_scheme,
    is_partitioned,
    partitioned_files,
    read_chunks,
)
from masquerade.engine import Engine, read_size, size_text
from masquerade.errors import BadInput, ClusterError, DataError, ParameterError, Problem
from masquerade.forms import read_toml
from masquerade.jobs.model import DEFAULT_MEMORY, EngineSection, engine_of
from masquerade.jobs.outputs import section_file
from masquerade.jobs.plan import Plan, bare_source
from masquerade.methods import table_methods
from masquerade.progress import OnStage, Stage

_IN_MEMORY = 3  # how much larger a table is in memory than its pages are, with what is made on the way


# What asks for single rows, by command: refused of tables that only fit the memory in chunks. What else an evaluation
# tells of single rows is left out of it then (`evaluate.py`).
_ASKS_FOR_ROWS: Mapping[str, tuple[str, ...]] = {
    "evaluate": ("train", "predict", "clusters"),
    "attack": ("original", "outside", "earlier"),
}


def check_rows(plan: Plan, algorithm: TableMethod) -> None:
    """Raise one error with all that is wrong with a job, whose method cannot do what it asks where its rows are."""
    if plan.on_engine:
        _check_chunks(plan, algorithm)
        plan.settle()
        return
    plan.settle()
    if plan.is_in_parts:
        data = plan.job.data
        assert data is not None
        needed = in_memory(partitioned_files(data.source, plan.base))
        if needed > read_size(DEFAULT_MEMORY):
            size = f"this one takes about {size_text(needed)}, and {DEFAULT_MEMORY} are the most that is read at once"
            plan.problems.add(("algorithm", "name"), f"{_needs_whole_table(plan, algorithm)}; {size}")
            plan.settle()


def _check_chunks(plan: Plan, algorithm: TableMethod) -> None:
    """Report what cannot be done in chunks: a method that needs the whole table, a table that is not Parquet."""
    if plan.method is not None and algorithm.needs_whole_table:
        plan.problems.add(("algorithm", "name"), _needs_whole_table(plan, algorithm))
    elif plan.method is not None:
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
        text = "a cluster reads Parquet where it lies (a file, a folder, or a pattern such as people/*.parquet)"
        plan.problems.add(("data", "source"), f"{text}, or a database")


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


def beyond_memory(plan: Plan, *sources: str) -> tuple[PartitionedFiles, ...] | None:
    """Return the files of tables in many files that are larger than the memory of the job's engine; else None."""
    engine = plan.job.engine or EngineSection()
    if not all(is_partitioned(source, Path()) for source in sources):
        return None
    files = tuple(partitioned_files(source, Path()) for source in sources)
    most = engine.memory_bytes if engine.name == "local" else read_size(DEFAULT_MEMORY)
    return files if sum(map(in_memory, files)) > most else None


def refuse_rows(function: str, **asked: Any) -> None:
    """Refuse what somebody asked for that needs the tables in one memory."""
    for name in _ASKS_FOR_ROWS[function]:
        if asked[name]:
            raise ParameterError(
                f"The {name} parameter of {function} needs all rows in one memory, and these are larger than "
                "[engine] memory; leave it out, or take some of the files"
            )


def check_compared(plan: Plan, source: str) -> None:
    """Report a table that is too large to be compared by methods: some of them and their measures need all rows."""
    here = source if database_scheme(source) is not None else str(plan.base / source)
    if source and beyond_memory(plan, here) is not None:
        text = "compare needs the whole table in one memory, and this one is larger; name some of its files"
        plan.problems.add(("data", "source"), text)


def in_memory(files: PartitionedFiles) -> int:
    """Return about how many bytes all rows of these files take in one memory."""
    return int(_IN_MEMORY * files.rows * files.row_bytes)


@contextmanager
def opened_engine(section: EngineSection | None, job: Path) -> Iterator[Engine]:
    """Open the engine that a job names; what is wrong with it names the job and the key."""
    try:
        with engine_of(section or EngineSection()) as engine:
            yield engine
    except (BadInput, ClusterError) as error:
        if any(problem.key[:1] == ("engine",) for problem in error.problems):
            raise error.within(str(job)) from None
        raise


@contextmanager
def opened_records(
    plan: Plan, wanted: Wanted, also: Sequence[str], on_stage: OnStage, *, counting: bool
) -> Iterator[tuple[Records, tuple[str, ...], float, OnStage]]:
    """Read a job's table into the chunks of its engine; columns in `also` are for those who read its parts again.

    Yield its complete rows, the columns of its source, how long that took, and who tells how far things are.
    With `counting` stages tell how many chunks are done, once the table is read.
    """
    data = plan.data()
    with _files(plan, wanted.used, also, on_stage) as files, opened_engine(plan.job.engine, plan.path) as engine:
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
        records = read_chunks(files, wanted, engine)
        read = time.perf_counter() - started
        engine.on_chunk = on_chunk if counting else None
        yield records, files.columns, read, staged


@contextmanager
def _files(plan: Plan, columns: Sequence[str], also: Sequence[str], on_stage: OnStage) -> Iterator[Partitioned]:
    """Yield the Parquet files of the job's table, or the ranges of a query's result; of any other table a copy.

    It must have these columns, and may have those in `also`.
    """
    data = plan.job.data
    assert data is not None
    if _is_parquet(plan):
        files = partitioned_files(data.source, plan.base, columns)
        there = [name for name in also if name in files.columns]
        yield partitioned_files(data.source, plan.base, [*columns, *there]) if there else files
        return
    if data.partition is not None and data.query is not None:
        from masquerade.data import partitioned_query

        try:
            yield partitioned_query(data.source, data.query, plan.base, data.partition, columns)
        except DataError as error:
            raise (error.within(str(plan.path)) if error.problems[0].key[:1] == ("data",) else error) from None
        return
    on_stage(Stage(f"copying {bare_source(data.source)}", detail="to be read in chunks"))
    from masquerade.data import staged_parquet  # with what writes Parquet

    with staged_parquet(section_file(data, plan.base), columns, also) as files:
        yield files


def _is_parquet(plan: Plan) -> bool:
    data = plan.job.data
    return data is None or not data.source or section_file(data, plan.base).is_parquet


# The table that a job names, for commands that ask about a table: `keys JOB`, `mask JOB`. Of the job count `[data]`,
# `[engine]` and the names of the attributes; what would be made of the table does not matter.

# A table, the columns that are looked at unless others are named (None for all), and the engine that counts its rows.
AskedTable = tuple[TableFile, tuple[str, ...] | None, "Engine | None"]


def is_about_parties(job: str | Path) -> bool:
    """Return whether the tables of a job are those of parties."""
    return "parties" in read_toml(Path(job))


@contextmanager
def opened_job_table(job: str | Path) -> Iterator[AskedTable]:
    """Open the table of a job, and the engine that it names."""
    from masquerade.jobs.learning import QuestionPlan  # with what parties need

    plan = QuestionPlan(Path(job))
    data = plan.data()
    plan.settle()
    file = section_file(data, plan.base)
    columns = tuple(plan.job.attributes) or None
    section = plan.job.engine
    with nullcontext() if section is None else opened_engine(section, plan.path) as engine:
        yield file, columns, engine
