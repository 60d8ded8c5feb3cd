"""One party of a trial session, in its own process: `python -m masquerade.jobs.party_process`.

It reads lines of JSON from standard input, answers on standard output, and ends with an exit code as every command
does. Keys are passed this way too, and are never written to disk.

    launcher -> party   Setup      the job, the party's name, the contract, its identity and trust store
    party -> launcher   Listening  its address, once its own table is read
    launcher -> party   Book       everyone's address
    party -> launcher   Doing      its current stage, as it changes
    party -> launcher   Gained     its errors alone and with the others, where there is a class
    party -> launcher   Failed     its last message, if it fails
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from masquerade import protocol
from masquerade.arrangement import ANSWER, MODEL, TABLE
from masquerade.audit import AuditLog
from masquerade.data import Coded, Origin, Partitioned, RawTable, Schema, Table, partitioned_files, staged_parquet
from masquerade.engine import Engine
from masquerade.errors import Bug, DataError, MasqueradeError, ParameterError, PeerError, Problem, kind_of, restored
from masquerade.files import PRIVATE, write_whole
from masquerade.forms import Problems, fill, json_decoder, read_toml
from masquerade.jobs.learning import LearningPlan, QuestionPlan
from masquerade.jobs.model import Job, PartySection, TableSection, schema_of
from masquerade.jobs.outputs import section_file
from masquerade.jobs.plan import Plan, bare_source, tell_values
from masquerade.jobs.rows import opened_engine
from masquerade.jobs.without_pandas import hide_pandas
from masquerade.methods import learning_method_of, method_of, product_of
from masquerade.net import Agreement, Identity, PartyAddress, Script, TrustStore, listen, run_async, run_script
from masquerade.progress import OnStage, Stage, silent

# --- own table ----------------------------------------------------------------------------------------------
# What a party brings into a session of a job: its table, without incomplete rows, and its identifiers.


def own_input(job: Path, name: str, contract: protocol.Contract) -> tuple[Table, tuple[str, ...], Sequence[bytes]]:
    """Return a party's table, the names of the columns that it keeps to itself, and its identifiers, if needed."""
    made = product_of(contract)
    if made is MODEL:
        plan: Plan = LearningPlan(job)
        table, left_out = own_records(plan, name, contract)
    else:
        plan = QuestionPlan(job) if made is ANSWER else Plan(job)
        table, left_out = own_table(plan, name, contract)
    if contract.provider is not None:
        return table, left_out, []  # they have nobody in common
    return table, left_out, protocol.identifiers(table, plan.job.parties[name].id, contract.normalize)


def own_table(plan: Plan, name: str, contract: protocol.Contract) -> tuple[Table, tuple[str, ...]]:
    """Return the party's table without incomplete rows, and the names of the columns that it keeps to itself."""
    section, needed = plan.job.parties[name], contract.columns_needed(name)
    qid = {column.name for column in contract.qid_columns}
    source, table = _read(plan, section, needed, section.id, qid)
    used = list(dict.fromkeys([*needed, section.id] if section.id else needed))
    if section.id and section.missing == "keep":  # nobody is found without an identifier
        table = table.complete([section.id])
    table = table.complete(used, section.missing)
    if not len(table):
        raise DataError.about(source.origin.name, "no complete row is left")
    # Report wrong cells and unknown values before any other party is involved.
    table.columns(column.name for column in contract.columns_of(name) if column.name in qid)
    _refuse_unknown(plan, name, contract, table.coded)
    return table, tuple(each for each in source.all_columns if each not in needed)


def _refuse_unknown(plan: Plan, name: str, contract: protocol.Contract, coded: Callable[[str], Coded]) -> None:
    try:
        protocol.refuse_unknown_to(name, contract, coded)
    except ParameterError as error:
        tell_values(plan.job, plan.problems, error, plan.base)
        plan.settle()


def own_records(plan: Plan, name: str, contract: protocol.Contract) -> tuple[Table, tuple[str, ...]]:
    """Return the records that a party, or the one table of a job, learns from, and the columns it keeps to itself.

    Cells that are wrong are reported before any other party is involved.
    """
    party = plan.job.parties.get(name)
    section, identifier = (plan.data(), "") if party is None else (party, party.id)
    needed = contract.columns_needed(name)
    source, table = _read(plan, section, needed, identifier if contract.provider is None else "", frozenset())
    table = protocol.complete_records(learning_method_of(contract), contract, name, table, section.missing)
    return table, tuple(each for each in source.all_columns if each not in needed)


def _read(
    plan: Plan, section: TableSection, needed: tuple[str, ...], identifier: str, qid: frozenset[str] | set[str]
) -> tuple[RawTable, Table]:
    """Read the columns that a contract needs of a section's table, and the identifiers."""
    schema = schema_for(plan, needed, qid)
    used = list(dict.fromkeys([*needed, identifier] if identifier else needed))
    source = section_file(section, plan.base).read(used, needed)
    return source, Table(source.table, schema, origin=source.origin)


def schema_for(plan: Plan, needed: tuple[str, ...], qid: frozenset[str] | set[str]) -> Schema:
    """Return what a job says about the columns that a contract needs of a party."""
    attributes = {each: plan.job.attributes[each] for each in needed if each in plan.job.attributes}
    schema = schema_of(plan.job.model_copy(update={"attributes": attributes}), qid, plan.base, plan.problems)
    plan.settle()
    return schema


# --- own part -----------------------------------------------------------------------------------------------
# A party's part in a session of a job: its engine, if the job names one, and its rows, in chunks where that
# goes.


@contextmanager
def own_participant(
    job: Path, name: str, contract: protocol.Contract, on_stage: OnStage = silent
) -> Iterator[tuple[protocol.Participant, str]]:
    """Open the engine and read the table. Yield the participant, and how an engine that the job names got its rows."""
    on_stage(Stage("reading"))
    asked = fill(Job, read_toml(job), Problems(str(job))).engine
    with nullcontext() if asked is None else opened_engine(asked, job) as engine:
        if engine is None or product_of(contract) is not TABLE or contract.provider is not None:
            table, left_out, ids = own_input(job, name, contract)
            yield protocol.Participant(name, contract, table, ids, left_out, engine=engine), ""
            return
        plan = Plan(job)
        section = plan.job.parties[name]
        if reason := whole_because(section, plan.base, contract, engine):
            table, left_out, ids = own_input(job, name, contract)
            participant = protocol.Participant(name, contract, table, ids, left_out, engine=engine)
            yield participant, f"the whole table was read into one memory: {reason}"
            return
        if (dashboard := getattr(engine, "dashboard", None)) is not None:
            on_stage(Stage("connected", detail=f"the cluster shows its work at {dashboard}"))
        with _parts(section, plan.base, _used(section, name, contract)) as files:
            engine.on_chunk = lambda done, total: on_stage(Stage("reading", detail=f"{done} of {total} chunks"))
            participant = _participant(plan, name, contract, engine, files)
            engine.on_chunk = None
            yield participant, "the table was read in chunks"


def whole_because(section: PartySection, base: Path, contract: protocol.Contract, engine: Engine) -> str:
    """Return why a party that has an engine reads its whole table all the same; "" where it does not."""
    if reason := protocol.why_whole(contract, section.missing):
        return reason
    if engine.name == "dask" and not section_file(section, base).is_parquet:
        source = bare_source(section.source)
        return f"a cluster reads Parquet where it lies, and {source} is none"
    return ""


def _used(section: PartySection, name: str, contract: protocol.Contract) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*contract.columns_needed(name), section.id]))


@contextmanager
def _parts(section: PartySection, base: Path, columns: tuple[str, ...]) -> Iterator[Partitioned]:
    """Yield the Parquet files of a party's table; of any other table a copy."""
    if section_file(section, base).is_parquet:
        yield partitioned_files(section.source, base, columns)
        return
    with staged_parquet(section_file(section, base), columns) as files:
        yield files


def _participant(
    plan: Plan, name: str, contract: protocol.Contract, engine: Engine, files: Partitioned
) -> protocol.Participant:
    """Read the table in chunks. Wrong cells and unknown values are reported before any other party is involved."""
    section, needed = plan.job.parties[name], contract.columns_needed(name)
    qid = {column.name for column in contract.qid_columns}
    no_rows = pa.table({each: pa.array([], pa.string()) for each in _used(section, name, contract)})
    table = Table(no_rows, schema_for(plan, needed, qid), origin=Origin(files.name))
    wanted, how = protocol.wanted_of_party(
        name, contract, table.schema, section.id, section.missing, section.missing_values
    )
    records, ids = protocol.read_own_records(files, wanted, engine, how)
    _refuse_unknown(plan, name, contract, records.coded.__getitem__)
    left_out = tuple(each for each in files.columns if each not in needed)
    return protocol.Participant(name, contract, table, ids, left_out, engine=engine, records=records)


# --- party process ------------------------------------------------------------------------------------------

STOPPED = 130  # exit code of a party that was asked to end: 128 + SIGINT, as in shells


@dataclass(frozen=True)
class SessionFiles:
    """The files that a party keeps about a session."""

    folder: Path
    name: str

    @property
    def transcript(self) -> Path:
        """The file that lists every message: kind, size, digest."""
        return self.folder / f"{self.name}.jsonl"

    @property
    def audit(self) -> Path:
        """The audit log: the messages and the contract, in a tamper-evident chain."""
        return self.folder / f"{self.name}.audit.jsonl"

    @property
    def certificate(self) -> Path:
        """The certificate that verifies the audit log's seals."""
        return self.folder / f"{self.name}.pem"

    def site_key(self, session: str) -> Path:
        """The file with what the party needs to use a model, and shows nobody."""
        return self.folder / f"{self.name}-{session[:16]}.site-key.json"

    @property
    def files(self) -> tuple[Path, ...]:
        """All of these files that there are."""
        keys = sorted(self.folder.glob(f"{self.name}-{'[0-9a-f]' * 16}.site-key.json"))
        return self.transcript, self.audit, self.certificate, *keys


class Setup(msgspec.Struct, frozen=True):
    """Everything that a party needs to start."""

    job: str
    name: str
    contract: str
    certificate: str
    key: str
    trust: dict[str, str]
    folder: str  # where its transcript, audit log and certificate go
    notes: str = ""  # records of finished rounds, to resume a broken session; "": none


class Listening(msgspec.Struct, frozen=True, tag="listening"):
    """The party's address; for its launcher alone the rows that it dropped, how its engine got them, and the time."""

    address: str
    dropped_rows: int
    rows: str = ""
    read_seconds: float = 0.0


class Doing(msgspec.Struct, frozen=True, tag="doing"):
    """The party's current stage."""

    stage: Stage


class Gained(msgspec.Struct, frozen=True, tag="gained"):
    """What the party gained by taking part: SE and IE (protocol/hand_in.py)."""

    alone: float
    together: float


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The error that ended the party: its class, its problems and, for a PeerError, the party at fault."""

    kind: str
    problems: tuple[Problem, ...]
    peer: str | None = None

    @classmethod
    def of(cls, error: MasqueradeError) -> Failed:
        """Convert an error for sending."""
        peer = error.peer if isinstance(error, PeerError) else None
        return cls(kind_of(error), error.problems, peer)

    @property
    def error(self) -> MasqueradeError:
        """The original error, rebuilt."""
        return restored(self.kind, self.problems, self.peer)


Said = Listening | Doing | Gained | Failed


class Book(msgspec.Struct, frozen=True):
    """Everyone's address."""

    addresses: dict[str, str]


def main() -> int:
    """Run a party to its end; return the exit code."""
    try:
        setup = json_decoder(Setup).decode(sys.stdin.readline())
        return run_async(_run(setup))
    except MasqueradeError as error:
        _tell(Failed.of(error))
        return error.exit_code
    except KeyboardInterrupt:
        return STOPPED
    except OSError as error:  # a full disk, for one
        place = f" ({error.filename})" if error.filename else ""
        refused = ParameterError(f"the system refuses: {error.strerror or type(error).__name__}{place}")
        _tell(Failed.of(refused))
        return refused.exit_code
    except Exception as error:  # its text may hold personal data, so only its type is reported
        _tell(Failed.of(Bug(f"a bug of ours ({type(error).__name__})")))
        return Bug.exit_code


async def _run(setup: Setup) -> int:
    contract = protocol.Contract.read(setup.contract.encode())
    started = time.perf_counter()
    with own_participant(Path(setup.job), setup.name, contract, _tell_stage) as (participant, rows):
        return await _take_part(setup, contract, participant, rows, time.perf_counter() - started)


async def _take_part(
    setup: Setup, contract: protocol.Contract, participant: protocol.Participant, rows: str, read_seconds: float
) -> int:
    identity = Identity(setup.certificate.encode(), setup.key.encode())
    trust = TrustStore({name: pem.encode() for name, pem in setup.trust.items()})
    records = SessionFiles(Path(setup.folder), setup.name)
    joined: list[protocol.OwnPart] = []
    write_whole(records.certificate, identity.certificate)
    async with listen(identity, trust) as listener:
        own = participant.table if participant.records is None else participant.records
        _tell(Listening(listener.address, own.dropped_rows, rows, read_seconds))
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:  # another party failed before it was ready
            return STOPPED
        book = json_decoder(Book).decode(line)
        peers = [PartyAddress(name, address) for name, address in book.addresses.items()]
        agreement = Agreement(contract.hash, contract.version)
        # The folder is kept only if all goes well: a line need not outlive a power cut, which ends the trial.
        with AuditLog(records.audit, identity, durable=False) as log:
            log.contract(contract.canonical())
            with log.session(contract.hash.hex(), list(book.addresses), records.transcript) as transcript:
                async with listener.connect(peers, agreement) as channels:
                    script = _script(setup, participant, joined.append)
                    await run_script(script, channels, transcript=transcript)
    for part in joined:  # nobody waits for it any more
        _tell_stage(Stage("growing decision trees"))
        if (gain := part.gain()) is not None:
            _tell(Gained(gain.alone, gain.together))
    return 0


def _script(
    setup: Setup, participant: protocol.Participant, on_joined: Callable[[protocol.OwnPart], None]
) -> Script[int]:
    """Return the party's side of the protocol that the contract names."""
    notes = Path(setup.notes) if setup.notes else None

    def keep(session: str, secret: bytes) -> None:
        write_whole(SessionFiles(Path(setup.folder), setup.name).site_key(session), secret, PRIVATE)

    participant = replace(participant, on_stage=_tell_stage, notes=notes, on_joined=on_joined, keep=keep)
    return method_of(participant.contract).party(participant)


def _tell_stage(stage: Stage) -> None:
    _tell(Doing(stage))


def _tell(message: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    hide_pandas()
    ended = main()
    # Do not wait for threads that are still blinding identifiers for a session that is over.
    os._exit(ended)
