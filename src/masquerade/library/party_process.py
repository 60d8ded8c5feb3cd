"""One party of a trial mashup, in its own process: `python -m masquerade.library.party_process`.

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from masquerade.audit.log import AuditLog
from masquerade.data.table import Table
from masquerade.errors import (
    Bug,
    DataError,
    MasqueradeError,
    ParameterError,
    PeerError,
    Problem,
    kind_of,
    restored,
)
from masquerade.files import write_whole
from masquerade.job.attributes import schema_of
from masquerade.job.plan import Plan
from masquerade.job.requirements import tell_values
from masquerade.job.tables import read_section
from masquerade.library.without_pandas import hide_pandas
from masquerade.methods import method_of
from masquerade.net.channel import Agreement, Node
from masquerade.net.connect import listen
from masquerade.net.identity import Identity
from masquerade.net.progress import Stage
from masquerade.net.running import run_async
from masquerade.net.script import Script
from masquerade.net.session import run_script
from masquerade.net.trust import TrustStore
from masquerade.protocol.contract import Contract
from masquerade.protocol.gain import OwnPart
from masquerade.protocol.identifiers import identifiers
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.method import Seat

STOPPED = 130  # exit code of a party that was asked to end: 128 + SIGINT, as in shells


@dataclass(frozen=True)
class Records:
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

    @property
    def files(self) -> tuple[Path, ...]:
        """All of these files."""
        return self.transcript, self.audit, self.certificate


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
    """The party's address, and how many rows it dropped: that is for its launcher, not for its peers."""

    address: str
    dropped_rows: int


class Doing(msgspec.Struct, frozen=True, tag="doing"):
    """The party's current stage."""

    stage: Stage


class Gained(msgspec.Struct, frozen=True, tag="gained"):
    """What the party gained by taking part: SE and IE (protocol/gain.py)."""

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
        setup = msgspec.json.decode(sys.stdin.readline(), type=Setup)
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


def own_table(plan: Plan, name: str, contract: Contract) -> tuple[Table, tuple[str, ...]]:
    """Return the party's table without incomplete rows, and the names of the columns that it keeps to itself."""
    section = plan.job.parties[name]
    needed = contract.columns_needed(name)
    attributes = {each: plan.job.attributes[each] for each in needed if each in plan.job.attributes}
    qid = {column.name for column in contract.qid_columns}
    schema = schema_of(plan.job.model_copy(update={"attributes": attributes}), qid, plan.base, plan.problems)
    plan.settle()
    used = list(dict.fromkeys([*needed, section.id] if section.id else needed))
    source = read_section(section, plan.base, used, needed)
    table = Table(source.table, schema, origin=source.origin)
    if section.id and section.missing == "keep":  # nobody is found without an identifier
        table = table.complete([section.id])
    table = table.complete(used, section.missing)
    if not len(table):
        raise DataError.about(source.origin.name, "no complete row is left")
    # Report wrong cells and unknown values before any other party is involved.
    table.columns(column.name for column in contract.columns_of(name) if column.name in qid)
    try:
        refuse_unknown_to(name, contract, table)
    except ParameterError as error:
        tell_values(plan.job, plan.problems, error, plan.base)
        plan.settle()
    return table, tuple(each for each in source.all_columns if each not in needed)


async def _run(setup: Setup) -> int:
    contract = Contract.read(setup.contract.encode())
    plan = Plan(Path(setup.job))
    _tell(Doing(Stage("reading")))
    table, left_out = own_table(plan, setup.name, contract)
    ids = (
        identifiers(table, plan.job.parties[setup.name].id, contract.normalize)
        if contract.provider is None
        else []  # providers have nobody in common
    )
    identity = Identity(setup.certificate.encode(), setup.key.encode())
    trust = TrustStore({name: pem.encode() for name, pem in setup.trust.items()})
    records = Records(Path(setup.folder), setup.name)
    joined: list[OwnPart] = []
    write_whole(records.certificate, identity.certificate)
    async with listen(identity, trust) as listener:
        _tell(Listening(listener.address, table.dropped_rows))
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:  # another party failed before it was ready
            return STOPPED
        book = msgspec.json.decode(line, type=Book)
        peers = [Node(name, address) for name, address in book.addresses.items()]
        agreement = Agreement(contract.hash, contract.version)
        with AuditLog(records.audit, identity) as log:
            log.contract(contract.canonical())
            with log.session(contract.hash.hex(), list(book.addresses), records.transcript) as transcript:
                async with listener.connect(peers, agreement) as channels:
                    script = _script(setup, contract, table, ids, left_out, joined.append)
                    await run_script(script, channels, transcript=transcript)
    for part in joined:  # nobody waits for it any more
        _tell(Doing(Stage("growing decision trees")))
        if (gain := part.gain()) is not None:
            _tell(Gained(gain.alone, gain.together))
    return 0


def _script(
    setup: Setup,
    contract: Contract,
    table: Table,
    ids: list[bytes],
    left_out: tuple[str, ...],
    on_joined: Callable[[OwnPart], None],
) -> Script[int]:
    """Return the party's side of the protocol that the contract names."""

    def on_stage(stage: Stage) -> None:
        _tell(Doing(stage))

    notes = Path(setup.notes) if setup.notes else None
    seat = Seat(
        setup.name, contract, table, ids, left_out, on_stage=on_stage, notes=notes, on_joined=on_joined
    )
    return method_of(contract).party(seat)


def _tell(message: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    hide_pandas()
    ended = main()
    # Do not wait for threads that are still blinding identifiers for a session that is over.
    os._exit(ended)
