"""A party's seat in a session of a job: its engine, if the job names one, and its rows, in chunks where that goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from masquerade.data.parquet_parts import parted_files
from masquerade.data.records import Parted
from masquerade.data.staged_parquet import staged_parquet
from masquerade.data.table import Origin, Table
from masquerade.engine.chunks import Engine
from masquerade.errors import ParameterError
from masquerade.job.model import PartySection
from masquerade.job.plan import Plan, bare_source
from masquerade.job.requirements import tell_values
from masquerade.job.tables import section_file
from masquerade.library.own_table import own_engine, own_input, schema_for
from masquerade.methods import product_of
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.protocol.contract import Contract
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.method import Seat
from masquerade.protocol.own_chunks import read_own_records, wanted_of_party, why_whole
from masquerade.protocol.product import TABLE


@contextmanager
def own_seat(
    job: Path, name: str, contract: Contract, on_stage: OnStage = silent
) -> Iterator[tuple[Seat, str]]:
    """Open the engine and read the table. Yield the seat, and how the engine got its rows, if the job names one."""
    on_stage(Stage("reading"))
    with own_engine(job) as engine:
        if engine is None or product_of(contract) is not TABLE or contract.provider is not None:
            table, left_out, ids = own_input(job, name, contract)
            yield Seat(name, contract, table, ids, left_out, engine=engine), ""
            return
        plan = Plan(job)
        section = plan.job.parties[name]
        if reason := whole_because(section, plan.base, contract, engine):
            table, left_out, ids = own_input(job, name, contract)
            seat = Seat(name, contract, table, ids, left_out, engine=engine)
            yield seat, f"the whole table was read into one memory: {reason}"
            return
        if (dashboard := getattr(engine, "dashboard", None)) is not None:
            on_stage(Stage("connected", detail=f"the cluster shows its work at {dashboard}"))
        with _parts(section, plan.base, _used(section, name, contract)) as files:
            engine.on_chunk = lambda done, total: on_stage(
                Stage("reading", detail=f"{done} of {total} chunks")
            )
            seat = _seated(plan, name, contract, engine, files)
            engine.on_chunk = None
            yield seat, "the table was read in chunks"


def whole_because(section: PartySection, base: Path, contract: Contract, engine: Engine) -> str:
    """Return why a party that has an engine reads its whole table all the same; "" where it does not."""
    if reason := why_whole(contract, section.missing):
        return reason
    if engine.name == "dask" and not section_file(section, base).is_parquet:
        source = bare_source(section.source)
        return f"a cluster reads Parquet where it lies, and {source} is none"
    return ""


def _used(section: PartySection, name: str, contract: Contract) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*contract.columns_needed(name), section.id]))


@contextmanager
def _parts(section: PartySection, base: Path, columns: tuple[str, ...]) -> Iterator[Parted]:
    """Yield the Parquet files of a party's table; of any other table a copy."""
    if section_file(section, base).is_parquet:
        yield parted_files(section.source, base, columns)
        return
    with staged_parquet(section_file(section, base), columns) as files:
        yield files


def _seated(plan: Plan, name: str, contract: Contract, engine: Engine, files: Parted) -> Seat:
    """Read the table in chunks. Wrong cells and unknown values are reported before any other party is involved."""
    section, needed = plan.job.parties[name], contract.columns_needed(name)
    qid = {column.name for column in contract.qid_columns}
    no_rows = pa.table({each: pa.array([], pa.string()) for each in _used(section, name, contract)})
    table = Table(no_rows, schema_for(plan, needed, qid), origin=Origin(files.name))
    wanted, how = wanted_of_party(
        name, contract, table.schema, section.id, section.missing, section.missing_values
    )
    records, ids = read_own_records(files, wanted, engine, how)
    try:
        refuse_unknown_to(name, contract, records.coded.__getitem__)
    except ParameterError as error:
        tell_values(plan.job, plan.problems, error, plan.base)
        plan.settle()
    left_out = tuple(each for each in files.columns if each not in needed)
    return Seat(name, contract, table, ids, left_out, engine=engine, records=records)
