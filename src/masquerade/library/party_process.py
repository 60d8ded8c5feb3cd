"""One party of a trial session, in its own process: `python -m masquerade.library.party_process`.

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from masquerade.audit.log import AuditLog
from masquerade.errors import (
    Bug,
    MasqueradeError,
    ParameterError,
    PeerError,
    Problem,
    kind_of,
    restored,
)
from masquerade.files import PRIVATE, write_whole
from masquerade.forms.decoders import json_decoder
from masquerade.library.own_seat import own_seat
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
    contract = Contract.read(setup.contract.encode())

    def on_stage(stage: Stage) -> None:
        _tell(Doing(stage))

    started = time.perf_counter()
    with own_seat(Path(setup.job), setup.name, contract, on_stage) as (seat, rows):
        return await _take_part(setup, contract, seat, rows, time.perf_counter() - started)


async def _take_part(setup: Setup, contract: Contract, seat: Seat, rows: str, read_seconds: float) -> int:
    identity = Identity(setup.certificate.encode(), setup.key.encode())
    trust = TrustStore({name: pem.encode() for name, pem in setup.trust.items()})
    records = Records(Path(setup.folder), setup.name)
    joined: list[OwnPart] = []
    write_whole(records.certificate, identity.certificate)
    async with listen(identity, trust) as listener:
        own = seat.table if seat.records is None else seat.records
        _tell(Listening(listener.address, own.dropped_rows, rows, read_seconds))
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:  # another party failed before it was ready
            return STOPPED
        book = json_decoder(Book).decode(line)
        peers = [Node(name, address) for name, address in book.addresses.items()]
        agreement = Agreement(contract.hash, contract.version)
        # The folder is kept only if all goes well: a line need not outlive a power cut, which ends the trial.
        with AuditLog(records.audit, identity, durable=False) as log:
            log.contract(contract.canonical())
            with log.session(contract.hash.hex(), list(book.addresses), records.transcript) as transcript:
                async with listener.connect(peers, agreement) as channels:
                    script = _script(setup, seat, joined.append)
                    await run_script(script, channels, transcript=transcript)
    for part in joined:  # nobody waits for it any more
        _tell(Doing(Stage("growing decision trees")))
        if (gain := part.gain()) is not None:
            _tell(Gained(gain.alone, gain.together))
    return 0


def _script(setup: Setup, seat: Seat, on_joined: Callable[[OwnPart], None]) -> Script[int]:
    """Return the party's side of the protocol that the contract names."""

    def on_stage(stage: Stage) -> None:
        _tell(Doing(stage))

    notes = Path(setup.notes) if setup.notes else None

    def keep(session: str, secret: bytes) -> None:
        write_whole(Records(Path(setup.folder), setup.name).site_key(session), secret, PRIVATE)

    seat = replace(seat, on_stage=on_stage, notes=notes, on_joined=on_joined, keep=keep)
    return method_of(seat.contract).party(seat)


def _tell(message: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    hide_pandas()
    ended = main()
    # Do not wait for threads that are still blinding identifiers for a session that is over.
    os._exit(ended)
