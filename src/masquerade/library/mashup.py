"""`mashup`: the parties of a job, each its own process on this machine, and this process as the assembler."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from masquerade.anonymize.release import Release as Assembled
from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    Bug,
    JobError,
    MasqueradeError,
    PeerError,
    PeerUnreachable,
)
from masquerade.job.contributions import check_parties, contract_of
from masquerade.job.outputs import Outputs
from masquerade.job.plan import Plan
from masquerade.job.tables import read_section
from masquerade.library.deliver import deliver
from masquerade.library.evaluation import OnStage, silent
from masquerade.library.frames import Release, as_public
from masquerade.library.party_process import Book, Listening, Records, Setup, Stage
from masquerade.net.channel import Agreement, Node
from masquerade.net.connect import listen
from masquerade.net.identity import Identity
from masquerade.net.running import run_async
from masquerade.net.script import kind_of
from masquerade.net.session import run_script
from masquerade.net.transcript import read_transcript
from masquerade.net.trial import trial_identities
from masquerade.net.trust import TrustStore
from masquerade.protocol.assemble import assemble
from masquerade.protocol.collaborate.shared_bits import Share
from masquerade.protocol.collaborate.third_party import third_party
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.datafly import ChiShare
from masquerade.protocol.dka.party import DKA_DATAFLY
from masquerade.protocol.party import ASSEMBLER

_BLAMED = re.compile(r"(?:party ([a-z0-9-]+)|one of the parties): (.*)")
_GRACE = 10.0  # seconds that the others get to end by themselves when one has failed

OnParty = Callable[[str, str], None]  # a party's name, and what it is doing


@dataclass(frozen=True)
class Mashup:
    """A release made by several parties, what it cost, and where everything was written."""

    release: Release
    table: Path
    report: Path | None
    transcripts: Path
    bytes_sent: Mapping[str, int]
    messages: Mapping[str, int]
    rounds: int

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            **self.release.summary,
            **({} if "third_party" in self.release.settings else {"common_records": self.release.rows}),
            **{
                name: each
                for name, each in self.release.settings.items()
                if name in ("argmax", "joint_histogram", "third_party")
            },
            "bytes_sent": dict(self.bytes_sent),
            "messages": dict(self.messages),
            "rounds": self.rounds,
            "table": str(self.table),
            **({"report": str(self.report)} if self.report is not None else {}),
            "transcripts": str(self.transcripts),
        }


def mashup_job(path: str | Path, *, on_stage: OnStage = silent, on_party: OnParty | None = None) -> Mashup:
    """Run a mashup: every party of the job as a process of its own, over mutual TLS on this machine.

    Nothing is written unless the joined release passes its check.
    """
    plan = Plan(Path(path))
    check_parties(plan)
    plan.schema()
    outputs = plan.outputs()
    transcripts = outputs.table.parent / "transcripts"
    if transcripts.exists() and not transcripts.is_dir():
        plan.problems.add(
            ("output",), f"{transcripts} is a file; the parties' transcripts go into a folder of that name"
        )
    plan.settle()
    on_stage("reading the parties' columns")
    contract = contract_of(plan, _headers(plan))
    plan.settle()
    assert contract is not None  # otherwise settle has raised
    with tempfile.TemporaryDirectory(prefix="masquerade-") as folder:
        on_stage("starting the parties")
        assembled = run_async(_Run(plan, contract, Path(folder), on_stage, on_party or _nobody).run())
        return _written(plan, contract, assembled, outputs, Path(folder), transcripts, on_stage)


def _nobody(_party: str, _stage: str) -> None:
    """Nobody watches."""


def _headers(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The names of each party's columns; all that this process ever reads of a party's table."""
    headers, errors = {}, []
    for name, section in plan.job.parties.items():
        try:
            headers[name] = read_section(section, plan.base, columns=()).all_columns
        except MasqueradeError as error:
            errors.append(error)
    if gathered := JobError.gather(errors):
        raise gathered
    return headers


@dataclass
class _Run:
    """One run: processes, the assembler, and the search for the first cause when something fails."""

    plan: Plan
    contract: Contract
    folder: Path
    on_stage: OnStage
    on_party: OnParty
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def run(self) -> Assembled:
        _, identities = trial_identities((*self.contract.parties, ASSEMBLER))
        try:
            return await self._assembled(identities)
        except MasqueradeError as error:
            raise await self._first_cause(error) from None
        finally:
            await self._end()

    async def _assembled(self, identities: Mapping[str, Identity]) -> Assembled:
        certificates = {name: identity.certificate for name, identity in identities.items()}
        trust = TrustStore({name: certificates[name] for name in self.contract.parties})
        async with listen(identities[ASSEMBLER], trust) as listener:
            addresses = {ASSEMBLER: listener.address}
            starts = [self._start(name, identities[name], certificates) for name in self.contract.parties]
            for name, address in zip(self.contract.parties, await asyncio.gather(*starts), strict=True):
                addresses[name] = address
            for name in self.contract.parties:
                others = {other: address for other, address in addresses.items() if other != name}
                await self._write(name, Book(others))
            watchers = [asyncio.create_task(self._watch(name)) for name in self.contract.parties]
            self.on_stage(_doing(self.contract))
            nodes = [Node(name, addresses[name]) for name in self.contract.parties]
            agreement = Agreement(self.contract.hash, self.contract.version)
            weights = {name: section.weight for name, section in self.plan.job.attributes.items()}
            async with listener.connect(nodes, agreement) as channels:
                script = (
                    assemble(self.contract, weights)
                    if self.contract.collaboration is None
                    else third_party(self.contract, self.plan.schema(), weights)
                )
                assembled: Assembled = await run_script(script, channels)
            await asyncio.gather(*watchers)
        codes = [await process.wait() for process in self.processes.values()]
        if any(codes):
            raise PeerUnreachable(
                self.contract.parties[codes.index(next(filter(None, codes)))], "did not end well"
            )
        return assembled

    async def _start(self, name: str, identity: Identity, certificates: Mapping[str, bytes]) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "masquerade.library.party_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours to handle: parties are ended in order
        )
        self.processes[name] = process
        trust = {other: pem.decode() for other, pem in certificates.items() if other != name}
        setup = Setup(
            str(self.plan.path),
            name,
            self.contract.canonical().decode(),
            identity.certificate.decode(),
            identity.key.decode(),
            trust,
            str(self.folder),
            str(_notes(self.plan, name)) if self.contract.algorithm == DKA_DATAFLY else "",
        )
        await self._write(name, setup)
        while True:
            message = await self._heard(name)
            if isinstance(message, Listening):
                return message.address
            self.on_party(name, message.name)

    async def _write(self, name: str, message: Any) -> None:
        stdin = self.processes[name].stdin
        assert stdin is not None
        stdin.write(msgspec.json.encode(message) + b"\n")
        try:
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise PeerUnreachable(name, "ended before the mashup began") from None

    async def _heard(self, name: str) -> Listening | Stage:
        stdout = self.processes[name].stdout
        assert stdout is not None
        line = await stdout.readline()
        if not line:
            raise PeerUnreachable(name, "ended before the mashup began")
        return msgspec.json.decode(line, type=Listening | Stage)

    async def _watch(self, name: str) -> None:
        """Pass on what a party is doing, until it ends."""
        stdout = self.processes[name].stdout
        assert stdout is not None
        while line := await stdout.readline():
            message = msgspec.json.decode(line, type=Listening | Stage)
            if isinstance(message, Stage):
                self.on_party(name, message.name)

    async def _first_cause(self, ours: MasqueradeError) -> MasqueradeError:
        """What went wrong first: a party's own problem, or its death, before what others say of it."""
        ended = await self._ends()
        for code, kind in (
            (BadInput.exit_code, BadInput),
            (AnswerIsNo.exit_code, AnswerIsNo),
            (Bug.exit_code, Bug),
        ):
            guilty = {name: lines for name, (ending, lines) in ended.items() if ending == code}
            if guilty:
                together = (
                    kind in (BadInput, AnswerIsNo) and len({tuple(lines) for lines in guilty.values()}) == 1
                )
                if together:  # everybody came to the same conclusion
                    return kind(*next(iter(guilty.values())))
                return kind(*(f"party {name}: {line}" for name, lines in guilty.items() for line in lines))
        for name, (ending, _) in ended.items():
            if ending < 0:
                return PeerUnreachable(
                    name, f"its process was ended by signal {-ending}; nothing was written"
                )
        told = [line for _, lines in ended.values() for line in lines]
        for line in sorted(told, key=_is_hearsay):
            if match := _BLAMED.fullmatch(line):
                return PeerError(match[1] or "", match[2])
        return ours

    async def _ends(self) -> dict[str, tuple[int, list[str]]]:
        """How each party ended, and its complaints; those that do not end by themselves are ended."""

        async def end(process: asyncio.subprocess.Process) -> tuple[int, list[str]]:
            assert process.stderr is not None
            try:
                text = await asyncio.wait_for(process.stderr.read(), _GRACE)
                code = await asyncio.wait_for(process.wait(), _GRACE)
            except TimeoutError:
                return 0, []
            return code, text.decode(errors="replace").splitlines()

        endings = await asyncio.gather(*(end(process) for process in self.processes.values()))
        return dict(zip(self.processes, endings, strict=True))

    async def _end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


def _is_hearsay(line: str) -> bool:
    """Whether a party only repeats what another told it of a third."""
    return line.endswith(" reports it)")


def _doing(contract: Contract) -> str:
    if contract.collaboration is not None:
        return "cutting together"
    return "aligning and generalising" if contract.algorithm == DKA_DATAFLY else "aligning and specialising"


def _notes(plan: Plan, name: str) -> Path:
    """Where a party notes its rounds down: beside the table, until the release is there."""
    table = plan.outputs().table
    return table.with_name(f".{table.stem}.{name}.notes")


def _written(
    plan: Plan,
    contract: Contract,
    assembled: Assembled,
    outputs: Outputs,
    folder: Path,
    transcripts: Path,
    on_stage: OnStage,
) -> Mashup:
    release = replace(as_public(assembled), settings={**assembled.settings, "job": plan.settings()})
    sent = {
        name: [
            entry for entry in read_transcript(Records(folder, name).transcript) if entry.direction == "sent"
        ]
        for name in contract.parties
    }
    told = [entry.kind for entry in sent[contract.parties[0]]]
    rounds = len(release.steps)
    if contract.algorithm == DKA_DATAFLY:
        rounds = told.count(kind_of(ChiShare))
    elif contract.collaboration is not None:
        rounds = told.count(kind_of(Share)) // (len(contract.parties) - 1)
    deliver(release, outputs, on_stage)
    transcripts.mkdir(exist_ok=True)
    for name in contract.parties:
        for path in Records(folder, name).files:
            shutil.copy(path, transcripts)  # with its mode: an audit log is its owner's alone
    return Mashup(
        release,
        outputs.table,
        outputs.report,
        transcripts,
        {name: sum(entry.size for entry in entries) for name, entries in sent.items()},
        {name: len(entries) for name, entries in sent.items()},
        rounds,
    )
