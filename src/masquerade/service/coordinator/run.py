"""A session whose turn it is: attempted, and then published, held for its client, tried again, or ended.

An attempt:   renew the contract ─► all prepare ─► all start ─► the protocol runs ─► assemble, verify ─► publish.py
A roll-up:    take the earlier release ─► merge its groups, verify ─► publish.py          (earlier_releases.py)
What went wrong decides what follows:

    Busy, a party has no place now     ─► queued again; the attempt does not count
    PeerError, a party failed          ─► queued again once the parties answer (parties.py), or failed
    NotAllowed, a party refuses now    ─► refused
    any other error                    ─► failed

Whatever happens, the parties are told that the attempt is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from masquerade.errors import Conflict, MasqueradeError, NotAllowed, PeerError, PeerRefused, PeerUnreachable, restored
from masquerade.methods import method_of
from masquerade.net import Agreement, Listener, Move, PartyAddress, Receive, first_cause, run_script
from masquerade.progress import Stage
from masquerade.protocol import Assembly
from masquerade.service.agree.negotiation import said_by
from masquerade.service.agree.signing import SignedContract, TokenIssuer
from masquerade.service.agree.terms import Refusal
from masquerade.service.clock import wait
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.context import WorkingContext
from masquerade.service.coordinator.earlier_releases import RollUp
from masquerade.service.coordinator.parties import ClockDiffers, PartyBackoff, differing_clocks
from masquerade.service.coordinator.publish import Assembled
from masquerade.service.coordinator.release_files import Made
from masquerade.service.coordinator.session_moves import cause_of, contract_of, end, move, tell_problem
from masquerade.service.coordinator.sign import Signer, Unsigned
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, is_outage
from masquerade.service.wire.control import Prepare, Progress, ReadyAt, Start
from masquerade.utility import release_error

# --- progress watch -----------------------------------------------------------------------------------------
# Watch the parties while they work, and pass their progress on to whoever watches the session.

LOOK_EVERY = 0.5  # seconds
_SETTLED = ("done", "failed", "cancelled")


class ProgressWatch:
    """The last progress of the parties of one attempt. One look at a time: two would tell the same step twice."""

    def __init__(self, context: WorkingContext, session: str, contract: str, parties: tuple[str, ...]) -> None:
        self._context = context
        self._session, self._contract, self._parties = session, contract, parties
        self.told: dict[str, Progress | PeerError] = {}
        self.known: dict[str, Progress] = {}  # the last word of each, whether or not it still answers
        self._shown: dict[str, Any] = {}
        self._steps: dict[str, int] = {}

    async def until_one_fails(self, show_progress: bool) -> None:
        """Look again and again until a party has failed or has gone."""
        while True:
            await self.look(show_progress)
            if any(isinstance(each, PeerError) or each.state in ("failed", "cancelled") for each in self.told.values()):
                return
            await self._context.clock.sleep(LOOK_EVERY)

    async def until_settled(self, show_progress: bool, at_most: float) -> None:
        """Look until every party is done, has failed or has gone, or `at_most` seconds have passed."""
        deadline = self._context.clock.monotonic() + at_most
        while True:
            await self.look(show_progress, at_most)
            if all(not isinstance(each, Progress) or each.state in _SETTLED for each in self.told.values()):
                return
            if self._context.clock.monotonic() >= deadline:
                return
            await self._context.clock.sleep(0.1)

    async def look(self, show_progress: bool, within: float | None = None) -> Mapping[str, Progress | PeerError]:
        """Ask every party once, and wait at most `within` seconds for its answer."""
        found = await asyncio.gather(*(self._asked(party, within) for party in self._parties))
        self.told = dict(zip(self._parties, found, strict=True))
        telling = asyncio.create_task(self._tell(show_progress))
        try:
            await asyncio.shield(telling)
        except asyncio.CancelledError:
            await telling  # what is being written stays written: the next look must know that it was told
            raise
        return self.told

    async def _asked(self, party: str, within: float | None) -> Progress | PeerError:
        try:
            return await self._context.links.progress(party, self._contract, within)
        except PeerError as error:
            return error

    async def _tell(self, show_progress: bool) -> None:
        known = {party: each for party, each in self.told.items() if isinstance(each, Progress)}
        self.known |= known
        news: list[tuple[str, dict[str, Any]]] = []
        steps_told: dict[str, int] = {}
        if show_progress:
            steps = [(step, party) for party, each in known.items() for step in each.steps[self._steps.get(party, 0) :]]
            for step, party in sorted(steps, key=lambda each: each[0].round):
                data = {"party": party, "round": step.round, "attribute": step.attribute, "value": step.value}
                news.append(("step", data | {"children": list(step.children)}))
            steps_told = {party: len(each.steps) for party, each in known.items()}
        shown = {
            party: {
                "stage": stage.name,
                "doing": str(stage),
                "round": each.round,
                "bytes_sent": each.bytes_sent,
                "messages": each.messages,
                "seconds": each.seconds,
            }
            for party, each in known.items()
            for stage in [each.stage if each.stage.name else Stage(each.state, round=each.round)]
        }
        if _moving(shown) != _moving(self._shown):
            news.append(("progress", {"parties": shown}))
        if not news:
            return
        try:
            await asyncio.to_thread(self._context.store.events.extend, self._session, news)
        except Exception as error:
            if not is_outage(error):
                raise
            return  # an outage does not end the attempt: the next look tells it again
        self._shown = shown
        self._steps |= steps_told


def endings(told: Mapping[str, Progress | PeerError]) -> dict[str, MasqueradeError | None]:
    """The error that each party ended with; None for one that did not fail."""
    return {party: _ending(party, each) for party, each in told.items()}


def _ending(party: str, told: Progress | PeerError) -> MasqueradeError | None:
    if isinstance(told, PeerUnreachable):
        return told
    if isinstance(told, PeerError):
        return PeerUnreachable(party, "does not know the session any more; was it restarted?")
    if told.state == "cancelled":  # whatever it says, nothing was wrong at its side
        return PeerError(party, *told.problems)
    return restored(told.kind, told.problems, told.culprit) if told.state == "failed" else None


def _moving(shown: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The figures that show progress; seconds pass in any case."""
    return {party: tuple(each[key] for key in ("doing", "round", "messages")) for party, each in shown.items()}


# --- run ----------------------------------------------------------------------------------------------------

log = structlog.get_logger("masquerade.coordinator")

_GRACE = 5.0  # seconds that the parties get to say what went wrong


class Busy(Exception):
    """A party has no place for the session now; its name, and what it waits for."""

    def __init__(self, party: str, reason: str) -> None:
        super().__init__(f"party {party}: {reason}")
        self.party = party


@dataclass(frozen=True)
class Runner:
    """Runs sessions; several at once."""

    context: WorkingContext
    signer: Signer
    backoff: PartyBackoff

    async def run(self, session: SessionRecord) -> None:
        """Run a session that was claimed, to the end of this attempt."""
        metrics.moved(session)
        log.info("running", session=session.id, attempt=session.attempts)
        started = self.context.clock.monotonic()
        outcome = "failed"
        try:
            outcome = await self._attempted(session)
        except Conflict as moved:
            outcome = "moved"
            log.info("moved by others", session=session.id, problem=str(moved))
        except asyncio.CancelledError:
            outcome = "stopped"
            raise
        except Exception:  # what came of it cannot be stored: whoever looks next takes it up
            outcome = "interrupted"
            raise
        finally:
            metrics.attempts.labels(outcome).inc()
            metrics.attempt_seconds.observe(self.context.clock.monotonic() - started)

    async def _attempted(self, session: SessionRecord) -> str:
        """One attempt, and what follows from how it ended; the outcome's name for the metrics."""
        attempt: SessionAttempt | RollUp = SessionAttempt(self.context, self.signer, session)
        if contract_of(session).deal.terms.source is not None:
            attempt = RollUp(self.context, session)
        try:
            await self.context.publisher.publish(await attempt.run())
        except Busy as busy:  # it waits for a place: the attempt does not count, nor is the contract used again
            session = attempt.session
            again = self.signer.new_contract(contract_of(session).deal, max(session.attempts, 1))
            self.backoff.busy(busy.party)
            put_back = self.context.store.sessions.put_back
            await move(put_back, session, str(busy), again.hash.hex(), msgspec.to_builtins(again))
            log.info("put back", session=session.id, party=busy.party)
            return "busy"
        except Conflict:  # first: somebody has cancelled it
            raise
        except PeerError as error:
            await self._retry(attempt.session, error)
            return "retried"
        except NotAllowed as error:  # a party's policy or ledger, looked at once more, says no
            await self._end(attempt.session, Status.REFUSED, error.lines)
            return "refused"
        except MasqueradeError as error:
            await self._end(attempt.session, Status.FAILED, error.lines)
            return "failed"
        except Exception as error:
            if is_outage(error):
                raise
            log.error("a bug", session=session.id, problem=type(error).__name__)
            told = f"a failure of the coordinator ({type(error).__name__}); its log says more"
            await self._end(attempt.session, Status.FAILED, [told])
            return "failed"
        return "published"

    async def _retry(self, session: SessionRecord, error: PeerError) -> None:
        await tell_problem(self.context.store, session, error)
        self.backoff.failed(session.providers, error.peer, session.attempts)
        cause = cause_of(error.lines)
        moved = await move(self.context.store.sessions.retry, session, cause, {"failed_by": error.peer})
        log.warning("attempt failed", session=session.id, party=error.peer, problem=str(error), next=moved.status.value)

    async def _end(self, session: SessionRecord, status: Status, problems: Sequence[str]) -> None:
        if session.status is not Status.RUNNING:  # the columns are in: nobody can refuse any more
            status = Status.FAILED
        moved = await end(self.context.store, session, status, problems)
        log.warning(status.value, session=session.id, cause=moved.cause)


@dataclass
class SessionAttempt:
    """One attempt of one session, which is running."""

    context: WorkingContext
    signer: Signer
    session: SessionRecord
    contract: SignedContract = field(init=False)
    _shown: bool = False  # whether a party was told to prepare

    def __post_init__(self) -> None:
        self.contract = contract_of(self.session)

    async def run(self) -> Assembled:
        """The verified release."""
        try:
            found = await self.signer.renew(self.session)
            if isinstance(found, Unsigned):
                if found.refusals:
                    clocks = await differing_clocks(self.context, [each.party for each in found.refusals])
                    raise _refused(found.refusals, clocks)
                raise Busy(*next(iter(found.waiting.items())))
            self.session, self.contract = found, contract_of(found)
            own = self.context.settings
            async with self.context.network.listen(own.identity, own.trust, own.session_address) as listener:
                return await self._assembled(listener)
        except BaseException:
            await self._call_off()
            raise

    async def _assembled(self, listener: Listener) -> Assembled:
        name, parties, show = (self.contract.hash.hex(), self.contract.parties, self.contract.deal.show_progress)
        addresses = await self._ready(name)
        port = listener.address.rpartition(":")[2]
        addresses[self.context.settings.name] = f"{self.context.settings.announced_host}:{port}"
        await asyncio.gather(*(self.context.links.start(party, name, Start(addresses)) for party in parties))
        watch = ProgressWatch(self.context, self.session.id, name, parties)
        looking = asyncio.create_task(watch.until_one_fails(show))
        working = asyncio.create_task(self._release(listener, addresses))
        release: Made | None = None
        ours: MasqueradeError | None = None
        try:
            await asyncio.wait({looking, working}, return_when=asyncio.FIRST_COMPLETED)
            await wait(self.context.clock, {working}, _GRACE)  # it may say more about it than the parties do
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            if not working.cancelled():
                release = working.result()
            elif looking.done():
                looking.result()  # a failure of our own is no party's
        except MasqueradeError as error:
            ours = error
        finally:
            for task in (looking, working):
                task.cancel()
            await asyncio.gather(looking, working, return_exceptions=True)
        await watch.until_settled(show, _GRACE)
        if release is None:
            raise first_cause(endings(watch.told), ours)
        service = self.context.directory.service.judged(self.contract.deal.service)
        return Assembled(self.session, self.contract, release, watch.known, service)

    async def _ready(self, name: str) -> dict[str, str]:
        """Let everybody prepare; where each party's peers reach it."""
        issuer = TokenIssuer(self.context.settings.identity, clock=self.context.clock.now)
        parties = self.contract.parties
        self._shown = True  # before the first is asked: one whose answer is lost has prepared all the same
        asked = [Prepare(self.session.id, self.contract, issuer.issue(party, name)) for party in parties]
        calls = [self.context.links.prepare(party, said) for party, said in zip(parties, asked, strict=True)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for failed in answers:  # all have answered by now, so that nobody prepares for what was called off
            if isinstance(failed, BaseException):
                raise failed
        refusals = [answer for answer in answers if isinstance(answer, Refusal)]
        if refusals:
            raise await self._turned_down(refusals)
        return {
            party: answer.address for party, answer in zip(parties, answers, strict=True) if isinstance(answer, ReadyAt)
        }

    async def _turned_down(self, refusals: Sequence[Refusal]) -> Exception:
        """What follows from refusals: it is refused, tried again, or waits for a place."""
        parties = [refusal.party for refusal in refusals]
        clocks = await differing_clocks(self.context, parties)
        for refusal in refusals:
            if not refusal.busy or any(not each.is_small for each in clocks):
                return _refused(refusals, clocks)
        for each in clocks:
            return PeerRefused(each.party, each.reason)
        return Busy(refusals[0].party, "; ".join(refusals[0].reasons))

    async def _release(self, listener: Listener, addresses: Mapping[str, str]) -> Made:
        """Connect to the parties, take in what they hand in, assemble and verify it."""
        contract, parties = self.contract, self.contract.parties
        agreed = contract.contract
        method = method_of(agreed)
        nodes = [PartyAddress(party, addresses[party]) for party in parties]
        agreement = Agreement(contract.hash, contract.deal.terms.version)
        awaited = set(parties)
        moving: list[asyncio.Task[None]] = []

        def on_move(made: Move) -> None:
            if isinstance(made, Receive) and made.kind in method.ends_with:
                awaited.discard(made.peer)
                if not awaited and not moving:
                    moving.append(asyncio.create_task(self._assembling()))

        try:
            with self.context.audit.session(contract.hash.hex(), parties) as transcript:
                async with listener.connect(nodes, agreement, self.context.settings.timings.of_session) as channels:
                    script = method.assembler(Assembly(agreed, judge=release_error))
                    release: Made = await run_script(script, channels, transcript=transcript, on_move=on_move)
                    if not moving:  # a party was lost, and the method goes on without it
                        moving.append(asyncio.create_task(self._assembling()))
                    await asyncio.shield(moving[0])  # a move that has begun is made, whoever cancels us
        finally:  # whoever comes next must know where the session stands
            await asyncio.gather(*moving, return_exceptions=True)
        return release

    async def _assembling(self) -> None:
        self.session = await move(self.context.store.sessions.advance, self.session, Status.ASSEMBLING)

    async def _call_off(self) -> None:
        """Tell all parties that it is over, also when we are being stopped ourselves."""
        if not self._shown:
            return
        name = self.contract.hash.hex()
        stops = [asyncio.create_task(self.context.links.stop(party, name)) for party in self.contract.parties]
        await wait(self.context.clock, {asyncio.gather(*stops, return_exceptions=True)}, _GRACE)
        for stop in stops:
            stop.cancel()
        for ended in await asyncio.gather(*stops, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, PeerError | asyncio.CancelledError):
                log.warning("not called off", session=self.session.id, problem=type(ended).__name__)


def _refused(refusals: Sequence[Refusal], clocks: Sequence[ClockDiffers]) -> NotAllowed:
    return NotAllowed(
        *said_by({each.party: each.reasons for each in refusals}),
        *said_by({each.party: (each.reason,) for each in clocks}),
    )
