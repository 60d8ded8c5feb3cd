"""One session at a party: it listens, waits until it is started, runs its script, and reports its progress.

ready ──start──> running ──> done
  │                 └──────> failed       (with the kind of the error, and the party at fault)
  └──(nobody starts it, or it is cancelled)──> cancelled
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from masquerade.audit import AuditLog
from masquerade.data import Records, Table
from masquerade.engine import Engine
from masquerade.errors import (
    BadInput,
    Bug,
    Conflict,
    DataError,
    MasqueradeError,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerError,
    Problem,
    RequirementUnreachable,
    one_line,
)
from masquerade.jobs import engine_of
from masquerade.methods import method_of
from masquerade.net import Agreement, Channel, Listener, PartyAddress, Script, run_script
from masquerade.progress import Stage
from masquerade.protocol import ASSEMBLER, Contract, OnSettled, OwnPart, Participant, ReportedStep, accepted, forgotten
from masquerade.service.agree.arrangements import RULES, against
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.signing import SignedContract
from masquerade.service.cards import rounded_up
from masquerade.service.clock import SYSTEM_CLOCK, Clock, wait
from masquerade.service.logs import log
from masquerade.service.node.admission import deal_id
from masquerade.service.node.settings import NodeSettings
from masquerade.service.node.state import StateFolder
from masquerade.service.wire.control import Progress, SeenStep, State
from masquerade.service.wire.peers import TLS, Network

ReadRows = Callable[[Engine], tuple[Records, Sequence[bytes]]]


@dataclass(frozen=True)
class PartyInput:
    """What a party brings to a session."""

    contract: SignedContract
    dataset: str
    table: Table = field(repr=False)
    identifiers: Sequence[bytes] = field(repr=False)
    before_showing: Callable[[], None]  # raises what speaks against the release, or has it in the ledger
    before_list: Callable[[str, int], None]  # the same of an alignment, and of the lists of its peers
    on_done: Callable[[], None]  # the release is handed in, and nothing more is needed for it
    settled: OnSettled = accepted  # raises that an earlier session on these terms came to something else
    keep: Callable[[str, bytes], None] = forgotten  # what we need to use a model, and show nobody
    read: ReadRows | None = None  # reads our rows into an engine's chunks, where neither table nor identifiers are here


class PartySession:
    """One contract that is carried out."""

    def __init__(
        self,
        settings: NodeSettings,
        audit: AuditLog,
        part: PartyInput,
        clock: Clock = SYSTEM_CLOCK,
        network: Network = TLS,
    ) -> None:
        self.contract, self.dataset = part.contract, part.dataset
        self.name = part.contract.hash.hex()
        self._part: PartyInput | None = part
        self._sent = (0, 0)  # bytes and messages, once the channels are closed
        self.ended: float | None = None
        self._settings, self._audit, self._clock, self._network = settings, audit, clock, network
        self.state: State = "ready"  # as drawn above
        self._stage, self._round = Stage(""), 0
        self._steps: list[SeenStep] = []
        self._channels: dict[str, Channel] = {}
        self._begun: float | None = None
        self._joined: list[OwnPart] = []  # what our gain follows from, once the release is there
        self._error: MasqueradeError | None = None
        loop = asyncio.get_running_loop()
        self._address: asyncio.Future[str] = loop.create_future()
        self._book: asyncio.Future[Mapping[str, str]] = loop.create_future()
        self._task = asyncio.create_task(self._live())

    async def address(self) -> str:
        """Where the peers reach it, once it listens."""
        either: set[asyncio.Future[Any]] = {self._task, self._address}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._address.done():
            raise self._error or ParameterError("the session ended before it began")
        return self._address.result()

    def start(self, addresses: Mapping[str, str]) -> None:
        """Begin the protocol: everybody is ready."""
        self.state, self._begun = "running", self._clock.monotonic()
        self._book.set_result(addresses)

    def peers(self, addresses: Mapping[str, str]) -> list[PartyAddress]:
        """Everybody else with its address; ParameterError when somebody's is missing."""
        names = [name for name in self.contract.parties if name != self._settings.name]
        names.append(self._settings.coordinator.name)
        lacking = [name for name in names if name not in addresses]
        if lacking:
            raise ParameterError(f"start: no address of {', '.join(lacking)}")
        return [PartyAddress(name, addresses[name]) for name in names]

    async def cancel(self, within: float = 4.0) -> None:
        """End it, and tell the peers that we were stopped, for which they have `within` seconds."""
        if not self._task.done():
            if not self._task.cancelling():  # once: a second time would cut short what the peers are told
                self._task.cancel()
            await wait(self._clock, {self._task}, within)

    def progress(self) -> Progress:
        """The session's progress, as the coordinator may know it: what control.py says of `Progress`."""
        error = self._error
        told = Progress(
            state=self.state,
            round=self._round,
            problems=self._told(error) if error is not None else (),
            kind=type(error).__name__ if error is not None else None,
            culprit=self._culprit(error),
        )
        until = self.ended if self.ended is not None else self._clock.monotonic()
        sent, messages = self._figures() if self._channels else self._sent
        seconds = until - self._begun if self._begun is not None else 0.0
        if self.contract.deal.show_progress:
            return replace(
                told,
                stage=self._stage,
                bytes_sent=sent,
                messages=messages,
                seconds=round(seconds, 3),
                steps=tuple(self._steps),
            )
        if self.ended is None:
            return told
        # Bytes tell how long the lists are: no finer than the number of records on the card.
        return replace(told, bytes_sent=rounded_up(sent), messages=messages, seconds=math.ceil(seconds))

    async def _live(self) -> None:
        end: State = "failed"
        try:
            async with self._listening() as listener:
                if await self._started():
                    await self._take_part(listener)
                    end = "done"
                else:
                    within = self._settings.timings.start
                    self._error = Conflict(f"nobody started the session within {within:.0f} seconds")
                    end = "cancelled"
        except asyncio.CancelledError:
            end = "cancelled"
        except MasqueradeError as error:
            # Without the frames that it went through: they would keep the table in memory for as long as it.
            self._error = error.with_traceback(None)
            self._error.__context__ = self._error.__cause__ = None
        except Exception as error:  # its text may hold a person's data: its kind is told, its text is not
            self._error = Bug(f"a bug of ours ({type(error).__name__})")
        self.state, self.ended = end, self._clock.monotonic()
        # An ended session can be asked about for a while; nobody needs its table for that.
        self._sent, self._channels, self._part = self._figures(), {}, None
        self._tell_log()
        await self._tell_gain()

    async def _tell_gain(self) -> None:
        """Measure what we gained by taking part, and note it here; nobody else hears of it, or waits for it."""
        while self._joined:
            gain = await asyncio.to_thread(self._joined.pop().gain)
            if gain is not None:
                told = {"alone": f"{gain.alone:.4f}", "together": f"{gain.together:.2f}", "gain": f"{gain.gain:.4f}"}
                self._audit.append("gain", {"session": self.name, **told})
                log().info("gain of taking part", session=self.name, dataset=self.dataset, **told)

    def _figures(self) -> tuple[int, int]:
        channels = self._channels.values()
        return sum(each.bytes_sent for each in channels), sum(each.messages_sent for each in channels)

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[Listener]:
        settings = self._settings
        first, last = settings.listening_ports
        for port in range(first, last + 1):
            address = f"{settings.listening_host}:{port}"
            opening = self._network.listen(settings.identity, settings.trust, address)
            try:
                listener = await opening.__aenter__()
            except ParameterError:
                if port == last:
                    raise
                continue
            try:
                found = listener.address.rpartition(":")[2]
                self._address.set_result(f"{settings.announced_host}:{found}")
                yield listener
            finally:
                await opening.__aexit__(None, None, None)
            return

    async def _started(self) -> bool:
        """Wait until it is started; False when that does not happen in time, and later is too late."""
        try:
            await wait(self._clock, {self._book}, self._settings.timings.start)
        finally:
            if not self._book.done():
                self.state = "cancelled"
        return self._book.done()

    async def _take_part(self, listener: Listener) -> None:
        part, settings = self._part, self._settings
        assert part is not None
        nodes = self.peers(self._book.result())
        contract = part.contract.contract
        agreement = Agreement(part.contract.hash, contract.version)
        names = [name for name in part.contract.parties if name != settings.name]
        with self._audit.session(self.name, [*names, ASSEMBLER]) as transcript:
            self._stage = Stage("connecting")
            connecting = listener.connect(nodes, agreement, settings.timings.of_session, self._tell_found)
            async with connecting as channels:
                # In the protocol the coordinator is the assembler, whatever its certificate calls it.
                self._channels = {
                    ASSEMBLER if name == settings.coordinator.name else name: channel
                    for name, channel in channels.items()
                }
                async with self._engine(contract) as engine:
                    await run_script(self._script(part, engine), self._channels, transcript=transcript)
        part.on_done()

    def _tell_found(self, error: PeerError) -> None:
        """Log what is at an address that the coordinator named; it hears nothing of that."""
        log().warning("a peer was not reached", session=self.name, problems=[one_line(line) for line in error.lines])

    @asynccontextmanager
    async def _engine(self, contract: Contract) -> AsyncIterator[Engine | None]:
        """Open the engine of this node, if it has one and the method counts there."""
        section = self._settings.engine
        if section is None:
            yield None
            return
        if reason := method_of(contract).off_engine(contract.parts):
            log().warning("the engine is of no use in a session", session=self.name, reason=reason)
            yield None
            return
        engine = await asyncio.to_thread(engine_of, section)
        try:
            yield engine
        finally:
            await asyncio.to_thread(engine.__exit__, None, None, None)

    def _script(self, part: PartyInput, engine: Engine | None) -> Script[int]:
        """This party's part in what the contract asks for."""
        contract, shows = part.contract.contract, part.contract.deal.show_progress
        records, ids = None, part.identifiers
        if engine is not None and part.read is not None:
            self._on_stage(Stage("reading"))
            try:
                records, ids = part.read(engine)
            except BadInput:  # its text may show a cell, which no log may
                raise DataError(f"{self._settings.name}'s table is amiss; `party card` there says why") from None

        def before_showing() -> None:
            self._insist_on_running()
            part.before_showing()

        def before_list(name: str, identifiers: int) -> None:
            self._insist_on_running()
            part.before_list(name, identifiers)

        participant = Participant(
            self._settings.name,
            contract,
            part.table,
            ids,
            show_steps=shows,
            on_stage=self._on_stage,
            on_step=self._on_step if shows else None,
            before_showing=before_showing,
            settled=part.settled,
            before_list=before_list,
            on_joined=self._joined.append,
            engine=engine,
            records=records,
            keep=part.keep,
        )
        return (yield from method_of(contract).party(participant))

    # These are called in the script's own thread.

    def _on_stage(self, stage: Stage) -> None:
        self._insist_on_running()  # a long computation that waits for nobody is stopped here
        self._round = stage.count or self._round
        self._stage = stage.public()

    def _on_step(self, step: ReportedStep) -> None:
        # A flat taxonomy's values are cells, which nobody has looked at for signs that steer a terminal.
        value, children = one_line(step.value), tuple(map(one_line, step.children))
        self._steps.append(SeenStep(step.round, step.attribute, value, children))

    def _insist_on_running(self) -> None:
        if self.state != "running" or self._task.cancelling():  # nobody waits for what comes any more
            raise NotAllowed("the session was cancelled")

    def _told(self, error: MasqueradeError) -> tuple[Problem, ...]:
        """The problems without anything about the table, not even a figure: for the coordinator."""
        if isinstance(error, RequirementUnreachable) and not error.public:
            terms = self.contract.deal.terms
            required = " & ".join(error.violated or (*map(str, terms.parts), *against(terms.m)))
            whole = RULES[terms.arrangement].everybody
            return (Problem(f"{required} cannot be reached: even the group of {whole} violates it").rendered(),)
        if isinstance(error, BadInput):
            return (Problem(f"its own input stands against it ({type(error).__name__}); its log says more"),)
        return tuple(problem.rendered() for problem in error.problems)

    def _culprit(self, error: MasqueradeError | None) -> str | None:
        if not isinstance(error, PeerError):
            return None
        return self._settings.coordinator.name if error.peer == ASSEMBLER else error.peer or None

    def _tell_log(self) -> None:
        progress = self.progress()
        told = {"session": self.name, "dataset": self.dataset, "state": progress.state}
        seconds = round(self.ended - self._begun, 3) if self.ended and self._begun is not None else 0.0
        figures = {"rounds": progress.round, "bytes_sent": self._sent[0], "seconds": seconds}
        if self._error is None:
            log().info("session ended", **told, **figures)
        else:
            log().warning(
                "session ended",
                **told,
                **figures,
                kind=progress.kind,
                culprit=progress.culprit,
                # Within a session errors speak of counts and parties, never of cells.
                problems=[one_line(line) for line in self._error.lines],
            )


# --- open sessions ------------------------------------------------------------------------------------------
# The sessions of a party: few of a dataset at once, each contract once, each kept a while for questions.

_FAREWELL = 15.0  # seconds that a node which ends gives its sessions
_KEPT = 3600.0  # seconds for which an ended session can be asked about


class Ending(Conflict):
    """The node is being stopped and takes no more sessions; the coordinator may ask again later."""


class OpenSessions:
    """All sessions, by the hash of their contract. Used in the event loop alone."""

    def __init__(self, state: StateFolder, clock: Clock) -> None:
        self._state, self._clock = state, clock
        self._sessions: dict[str, PartySession] = {}
        self._is_ending = False
        # Whose table is being read, with the dataset
        self._coming: dict[str, tuple[SignedContract, str]] = {}
        self._called_off: set[str] = set()  # those of them that were cancelled meanwhile

    async def expect(self, signed: SignedContract, dataset: str, policy: Policy) -> str | None:
        """Keep a place for a contract's session; return why there is none now. An earlier one of it is dropped.

        Sessions of other terms at the same time could each be noted by another party, and no party would agree to
        either any more.
        """
        contract = signed.hash.hex()
        earlier = self._sessions.get(contract)
        if earlier is not None and earlier.state == "ready":
            await earlier.cancel()
        if self._is_ending:
            raise Ending("the node is about to end")
        if contract in self._coming:
            raise Conflict("this contract's session is being prepared")
        if self._state.has_run(contract):
            raise Conflict("this contract has run before; a contract runs once")
        others = self._open(dataset)
        if len(others) >= policy.sessions:
            return f"{policy.sessions} sessions are running, and no more are allowed"
        if not policy.allow_rerelease and any(each.deal.terms != signed.deal.terms for each in others):
            return "another release of the same table is being made"
        self._coming[contract] = (signed, dataset)
        return None

    def _open(self, dataset: str) -> list[SignedContract]:
        taking_place = (each for each in self._sessions.values() if each.state in ("ready", "running"))
        begun = [(each.contract, each.dataset) for each in taking_place]
        return [contract for contract, name in (*begun, *self._coming.values()) if name == dataset]

    def insist_on(self, contract: str) -> None:
        """Raise Conflict when a session was cancelled while its table was read."""
        if self._is_ending:
            raise Ending("the node is about to end")
        if contract in self._called_off:
            raise Conflict("the session was cancelled while it was prepared")

    def forget(self, contract: str) -> None:
        """Give the place of a contract back."""
        self._coming.pop(contract, None)
        self._called_off.discard(contract)

    def add(self, session: PartySession) -> None:
        """Put a session into the place that was kept for it."""
        self.forget(session.name)
        self._sessions[session.name] = session

    def start(
        self, contract: str, addresses: Mapping[str, str], now: int, on_begin: Callable[[PartySession], None]
    ) -> Progress:
        """Begin a session, unless `on_begin` raises. A contract runs once."""
        session = self._find(contract)
        if session.state != "ready":
            raise Conflict(f"the session is {session.state}; only one that is ready can start")
        signed = session.contract
        if signed.expiry <= now:
            raise Conflict("the contract has expired; ask for a new one")
        session.peers(addresses)
        deal, request = signed.deal, signed.deal.signed
        if request is not None and not self._state.request_runs_now(
            request.nonce, deal_id(deal), request.until, deal.attempts
        ):
            raise Conflict("the signed request was used before; its client signs a new one")
        if not self._state.runs_now(contract, signed.expiry):
            raise Conflict("this contract has run before; a contract runs once")
        on_begin(session)
        session.start(addresses)
        return session.progress()

    def progress(self, contract: str) -> Progress:
        """The progress of a session."""
        return self._find(contract).progress()

    async def cancel(self, contract: str) -> Progress:
        """End a session in whatever state it is."""
        if contract in self._coming:  # it ends as soon as its table is read
            self._called_off.add(contract)
            return Progress("cancelled")
        session = self._find(contract)
        await session.cancel()
        return session.progress()

    async def end(self) -> None:
        """End all sessions, and take no more."""
        self._is_ending = True
        await asyncio.gather(*(session.cancel(_FAREWELL) for session in self._sessions.values()))

    def tidy(self) -> None:
        """Forget sessions that ended long ago."""
        until = self._clock.monotonic() - _KEPT
        kept = {name: each for name, each in self._sessions.items() if each.ended is None or each.ended > until}
        self._sessions = kept

    def _find(self, contract: str) -> PartySession:
        if contract not in self._sessions:
            raise NotFound("there is no such session here")
        return self._sessions[contract]
