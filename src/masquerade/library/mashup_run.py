"""A mashup on this machine: its parties as processes, and this process as the assembler, which is no party."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from masquerade.anonymize.release import Release as Assembled
from masquerade.errors import AnswerIsNo, BadInput, Bug, MasqueradeError, PeerError, PeerUnreachable
from masquerade.job.plan import Plan
from masquerade.library.evaluation import OnStage
from masquerade.library.party_process import Book, Listening, Setup, Stage
from masquerade.net.channel import Agreement, Node
from masquerade.net.connect import listen
from masquerade.net.identity import Identity
from masquerade.net.session import run_script
from masquerade.net.trial import trial_identities
from masquerade.net.trust import TrustStore
from masquerade.protocol.assemble import assemble
from masquerade.protocol.collaborate.third_party import third_party
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.party import DKA_DATAFLY
from masquerade.protocol.party import ASSEMBLER

_BLAMED = re.compile(r"(?:party ([a-z0-9-]+)|one of the parties): (.*)")
_GRACE = 10.0  # seconds that the others get to end by themselves when one has failed

OnParty = Callable[[str, str], None]  # a party's name, and what it is doing
Ending = tuple[int, list[str]]  # a process's exit code, and its complaints


@dataclass
class MashupRun:
    """One run: a process a party, and this process as the assembler."""

    plan: Plan
    contract: Contract
    folder: Path
    on_stage: OnStage
    on_party: OnParty
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    dropped_rows: dict[str, int] = field(
        default_factory=dict
    )  # for missing cells, by party, as each tells us

    async def run(self) -> Assembled:
        """The joined and verified release; when it fails, the first cause, and no process is left."""
        _, identities = trial_identities((*self.contract.parties, ASSEMBLER))
        try:
            return await self._assembled(identities)
        except MasqueradeError as error:
            raise first_cause(await self._ends(), error, self._left()) from None
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
                    else third_party(
                        self.contract, self.plan.schema(), weights, seed=self.plan.job.algorithm.seed
                    )
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
                self.dropped_rows[name] = message.dropped_rows
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

    async def _ends(self) -> dict[str, Ending]:
        """How each party ended, and its complaints; those that do not end by themselves are ended."""

        async def end(process: asyncio.subprocess.Process) -> Ending:
            assert process.stderr is not None
            try:
                text = await asyncio.wait_for(process.stderr.read(), _GRACE)
                code = await asyncio.wait_for(process.wait(), _GRACE)
            except TimeoutError:
                return 0, []
            return code, text.decode(errors="replace").splitlines()

        endings = await asyncio.gather(*(end(process) for process in self.processes.values()))
        return dict(zip(self.processes, endings, strict=True))

    def _left(self) -> str:
        """What is on the disk after a run that failed."""
        notes = [_notes(self.plan, name) for name in self.contract.parties]
        kept = " and ".join(path.name for path in notes if path.exists())
        if self.contract.algorithm != DKA_DATAFLY or not kept:
            return "nothing was written"
        return f"no release was written; run the job again to go on after the rounds that {kept} remember"

    async def _end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


def first_cause(
    ended: Mapping[str, Ending], ours: MasqueradeError, left: str = "nothing was written"
) -> MasqueradeError:
    """What went wrong first: a party's own problem, then the assembler's, a party's death, and what others say of it.

    `ours` is why the assembler gave up: what parties say of the assembler, it knows better. `left` says what is on
    the disk.
    """
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
    if not isinstance(ours, PeerError):  # nobody else's fault: what the parties say is that we gave up
        return ours
    for name, (ending, _) in ended.items():
        if ending < 0:
            return PeerUnreachable(name, f"its process was ended by signal {-ending}; {left}")
    told = [line for _, lines in ended.values() for line in lines]
    for line in sorted(told, key=_is_hearsay):
        if (match := _BLAMED.fullmatch(line)) and match[1] != ASSEMBLER:
            return PeerError(match[1] or "", match[2])
    return ours


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
