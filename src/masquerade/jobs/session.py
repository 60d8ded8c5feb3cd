"""A session on this machine: its parties as processes, and this process as the one that collects, which is no party."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from masquerade import net
from masquerade.errors import JobError, MasqueradeError, PeerUnreachable
from masquerade.files import FileError, FileLock
from masquerade.forms import json_decoder
from masquerade.jobs.outputs import section_file
from masquerade.jobs.party_process import STOPPED, Book, Doing, Failed, Gained, Listening, Said, SessionFiles, Setup
from masquerade.jobs.plan import Plan
from masquerade.jobs.processes import Child, Supervisor
from masquerade.methods import method_of
from masquerade.progress import OnStage, Stage
from masquerade.protocol import ASSEMBLER, Contract, Gain, SessionMethod

_PARTY = "masquerade.jobs.party_process"
# Seconds that the others get to end by themselves after one has failed; after a kill there is little to learn.
_GRACE, _AFTER_A_KILL = 10.0, 1.0
_TIMINGS = net.Timings(grace=1.0)  # on this machine: whoever does not read our last word by then is frozen

Result = TypeVar("Result")
OnParty = Callable[[str, Stage], None]  # a party's name, and what it is doing


@dataclass
class PartiesRun(ABC, Generic[Result]):
    """One run: a process per party, and this process as the assembler."""

    plan: Plan
    contract: Contract
    folder: Path
    on_stage: OnStage
    on_party: OnParty
    dropped_rows: dict[str, int] = field(default_factory=dict)  # for missing cells, by party
    gains: dict[str, Gain] = field(default_factory=dict)  # by party, where there is a class
    read_seconds: float = 0.0  # of the party that took longest
    rows_on_engine: dict[str, str] = field(default_factory=dict)  # by party: how its engine got its rows
    _failures: dict[str, MasqueradeError] = field(default_factory=dict)  # by party, as reported by each

    @property
    def method(self) -> SessionMethod:
        """The method that the contract names."""
        return method_of(self.contract)

    @property
    def loads(self) -> tuple[str, ...]:
        """The modules that every party needs besides its own."""
        return ()

    @abstractmethod
    def script(self) -> net.Script[Result]:
        """Return the part of this process, which collects what the parties hand in."""

    async def run(self) -> Result:
        """Return what has been made; on failure raise the first cause. No process is left either way."""
        # A party's results are lost with the session anyway: it is killed, not asked to end.
        async with Supervisor(self.folder, loads=(_PARTY, *self.loads), grace=0.0) as parties:
            for name in self.contract.parties:
                await parties.spawn(name, _PARTY)
            listening = {name: asyncio.get_running_loop().create_future() for name in self.contract.parties}
            hearing = [asyncio.create_task(self._hear(parties.children[name], listening[name])) for name in listening]
            try:
                work, may_die = self._assembled(parties, listening), self.method.outlives_parties
                assembled = await (work if may_die else parties.watched(work, may_end=True))
                await asyncio.gather(*hearing)
                for child in parties.children.values():
                    code = await child.wait()
                    if code > 0 or (code and not may_die):
                        raise parties.death(child, code)
                return assembled
            except MasqueradeError as error:
                raise net.first_cause(await self._endings(parties, hearing), error) from None
            finally:
                for task in hearing:
                    task.cancel()

    async def _assembled(self, parties: Supervisor, listening: Mapping[str, asyncio.Future[str]]) -> Result:
        names = self.contract.parties
        _, identities = net.trial_identities((*names, ASSEMBLER))
        certificates = {name: identity.certificate for name, identity in identities.items()}
        trust = net.TrustStore({name: certificates[name] for name in names})
        async with net.listen(identities[ASSEMBLER], trust) as listener:
            for name in names:
                setup = self._setup(name, identities[name], certificates)
                await parties.children[name].tell(msgspec.json.encode(setup))
            addresses = dict(zip(names, await asyncio.gather(*(listening[name] for name in names)), strict=True))
            for name in names:
                others = {other: address for other, address in addresses.items() if other != name}
                book = Book({**others, ASSEMBLER: listener.address})
                await parties.children[name].tell(msgspec.json.encode(book))
            self.on_stage(Stage(self.method.activity))
            nodes = [net.PartyAddress(name, addresses[name]) for name in names]
            agreement = net.Agreement(self.contract.hash, self.contract.version)
            async with listener.connect(nodes, agreement, _TIMINGS) as channels:
                return await net.run_script(self.script(), channels)

    def _setup(self, name: str, identity: net.Identity, certificates: Mapping[str, bytes]) -> Setup:
        return Setup(
            str(self.plan.path),
            name,
            self.contract.canonical().decode(),
            identity.certificate.decode(),
            identity.key.decode(),
            {other: pem.decode() for other, pem in certificates.items() if other != name},
            str(self.folder),
            str(_notes(self.plan, name)) if self.method.resumes else "",
        )

    async def _hear(self, party: Child, listening: asyncio.Future[str]) -> None:
        """Process a party's messages until it ends."""
        while line := await party.hear():
            match json_decoder(Said).decode(line):
                case Listening(address, dropped_rows, rows, read_seconds):
                    self.dropped_rows[party.name] = dropped_rows
                    self.read_seconds = max(self.read_seconds, read_seconds)
                    if rows:
                        self.rows_on_engine[party.name] = rows
                    if not listening.done():  # otherwise cancelled with the mashup
                        listening.set_result(address)
                case Failed() as failed:
                    self._failures[party.name] = failed.error
                case Gained(alone, together):
                    self.gains[party.name] = Gain(alone, together)
                case Doing(stage):
                    self.on_party(party.name, stage)
        if not listening.done():
            listening.set_exception(PeerUnreachable(party.name, "ended before the session began"))
            listening.exception()  # marks it as retrieved, in case nobody awaits it

    async def _endings(
        self, parties: Supervisor, hearing: Sequence[asyncio.Task[None]]
    ) -> dict[str, MasqueradeError | None]:
        """Return the error that each party ended with; None if it did not fail or is still running."""
        for child in parties.children.values():
            child.hang_up()
        ends = [asyncio.create_task(child.wait()) for child in parties.children.values()]
        killed = any((child.code or 0) < 0 for child in parties.children.values())
        await asyncio.wait([*hearing, *ends], timeout=_AFTER_A_KILL if killed else _GRACE)
        for waiting in ends:
            waiting.cancel()
        endings: dict[str, MasqueradeError | None] = {}
        for name, child in parties.children.items():
            endings[name] = self._failures.get(name)
            if self.method.outlives_parties and (child.code or 0) < 0:
                continue  # the others say why they could not go on without it
            if endings[name] is None and child.code not in (None, 0, STOPPED):
                (how,) = parties.death(child, child.code).reasons
                endings[name] = PeerUnreachable(name, f"{how}; {self._left()}")
        return endings

    def _left(self) -> str:
        """Describe what is left on disk after a failed run."""
        notes = [_notes(self.plan, name) for name in self.contract.parties]
        kept = " and ".join(path.name for path in notes if path.exists())
        if not self.method.resumes or not kept:
            return "nothing was written"
        return f"no release was written; run the job again to go on after the rounds that {kept} remember"


def _notes(plan: Plan, name: str) -> Path:
    """Return the file in which a party records its rounds: beside the table, until the release exists."""
    table = plan.outputs().table
    return table.with_name(f".{table.stem}.{name}.notes")


def nobody(_party: str, _stage: Stage) -> None:
    """Ignore a party's progress."""


def party_headers(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return each party's column names; this process reads nothing else of a party's table."""
    headers, errors = {}, []
    for name, section in plan.job.parties.items():
        try:
            headers[name] = section_file(section, plan.base).read(()).all_columns
        except MasqueradeError as error:
            errors.append(error)
    if gathered := JobError.gather(errors):
        raise gathered
    return headers


def sent_by(run: PartiesRun[Any], parties: Sequence[str] | None = None) -> dict[str, list[net.Entry]]:
    """Return the messages that each party sent, from its transcript; by default of all parties."""
    names = run.contract.parties if parties is None else parties
    transcripts = {name: net.read_transcript(SessionFiles(run.folder, name).transcript) for name in names}
    return {name: [entry for entry in entries if entry.direction == "sent"] for name, entries in transcripts.items()}


# --- run folder ---------------------------------------------------------------------------------------------
# A folder for the files of one run, which is gone when the run is over, however it ends.
#
# A run that is killed cannot remove its own: the folder holds a file that was locked for as long as the run
# lived, and the next run removes every folder whose lock nobody holds.

_PREFIX, _LOCK = "masquerade-run-", ".lock"


@contextmanager
def run_folder() -> Iterator[Path]:
    """Yield an empty folder in the system's temporary one, for its owner alone; remove it in the end."""
    base = Path(tempfile.gettempdir())
    _sweep(base)
    while True:
        try:
            made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=base, ignore_cleanup_errors=True)
        except OSError as error:
            raise FileError.at(base, f"no folder can be made in it: {error.strerror}") from None
        with made as name:
            lock = FileLock(Path(name) / _LOCK, name)
            if lock.hold() and (Path(name) / _LOCK).exists():
                try:
                    yield Path(name)
                finally:
                    lock.release()
                return
        # Somebody swept it before it was locked.


def _sweep(base: Path) -> None:
    """Remove the folders of runs that were killed; what cannot be removed is in nobody's way."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError, MasqueradeError):
            if not (folder / _LOCK).is_file() or folder.is_symlink():
                continue
            lock = FileLock(folder / _LOCK, str(folder))
            if lock.hold():
                try:
                    shutil.rmtree(folder)
                finally:
                    lock.release()
