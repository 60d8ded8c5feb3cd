"""The coordinator's work in the background: everything that happens without anybody waiting for an answer.

One loop looks at the store and gives each session what it needs next; it is woken when something happened, and looks by
itself every second. What it knows is in the store: after a restart it goes on from there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import structlog

from masquerade.audit.log import AuditLog
from masquerade.errors import Conflict, MasqueradeError, ParameterError, PeerError
from masquerade.service.control_audit import ControlNotes
from masquerade.service.coordinator import housekeeping, metrics
from masquerade.service.coordinator.bargaining import Bargaining
from masquerade.service.coordinator.cache import serve_from_cache
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.party_backoff import PartyBackoff
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.party_server import party_app
from masquerade.service.coordinator.runs import Runs
from masquerade.service.coordinator.single_instance import Replaced
from masquerade.service.mutual_tls import serve
from masquerade.service.store import COMPUTING, WAITING, Session, Status, is_outage

log = structlog.get_logger("masquerade.coordinator")

LOOK_EVERY = 1.0  # seconds
_NEGOTIATIONS = 64  # at once
_BARGAINED = (Status.REQUESTED, Status.NEGOTIATING, Status.AGREED)
_KEEP_HOUSE_EVERY = 30.0
_LONGEST_STUMBLE = 30.0  # seconds until a session is taken up again that could not be stored
_LAST_CALLS = 3.0  # seconds for calls that are under way when we are stopped


class Background:
    """Everything that runs beside the public server."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._settings, self._store, self._wakeup = (
            coordinator.settings,
            coordinator.store,
            coordinator.wakeup,
        )
        self._bargaining: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._pulling: set[asyncio.Task[None]] = set()
        self._stumbled: Counter[str] = Counter()  # how often a session met a database that was away

    async def run(self) -> None:
        """Until cancelled."""
        async with self.running():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """As long as the block runs, and alone; Replaced ends the block when another coordinator took our place."""
        with self._coordinator.single_instance.held():
            try:
                async with asyncio.TaskGroup() as group, self._working(group):
                    yield
            except BaseExceptionGroup as several:  # one: the block's own error, or that we were replaced
                raise several.exceptions[0] from None

    @asynccontextmanager
    async def _working(self, group: asyncio.TaskGroup) -> AsyncIterator[None]:
        own, coordinator = self._settings, self._coordinator
        audit = AuditLog(own.audit, own.identity)
        notes = ControlNotes(audit)
        links = PartyLinks(own, coordinator.directory, notes)
        self._wakeup.attach()
        try:
            await asyncio.to_thread(coordinator.directory.register)
            await asyncio.to_thread(housekeeping.after_restart, coordinator)
            app = party_app(own, coordinator.directory, self._wakeup, notes)
            async with links, self._served(app) as address:
                coordinator.party_address = address
                self._bargains = Bargaining(coordinator, links, audit)
                self._backoff = PartyBackoff(own, links, self._wakeup)
                self._runs = Runs(coordinator, links, audit, self._backoff)
                # In the group: what ends a loop ends the block.
                loops = [
                    group.create_task(
                        self._again_and_again(self._look, lambda: self._wakeup.wait(LOOK_EVERY))
                    ),
                    group.create_task(
                        self._again_and_again(
                            lambda: self._refresh(links), lambda: asyncio.sleep(own.refresh_every)
                        )
                    ),
                    group.create_task(
                        self._again_and_again(self._keep_house, lambda: asyncio.sleep(_KEEP_HOUSE_EVERY))
                    ),
                ]
                try:
                    yield
                finally:
                    tasks = [*loops, *self._bargaining.values(), *self._running.values()]
                    for task in tasks:
                        _cancel(task)
                    await asyncio.gather(*tasks, return_exceptions=True)
                    await self._backoff.close()
                    await self._end_pulling()
                    self._runs.close()
        finally:
            self._wakeup.detach()
            audit.close()

    @asynccontextmanager
    async def _served(self, app: Any) -> AsyncIterator[str]:
        """The party server; where it cannot listen, the key is named."""
        own = self._settings
        async with AsyncExitStack() as stack:
            try:
                server = serve(app, own.party_address, own.identity, own.trust)
                address = await stack.enter_async_context(server)
            except ParameterError as error:
                if not str(error).startswith(own.party_address):
                    raise
                raise ParameterError(f"{own.path}: party_address: {error}") from None
            yield address

    # --- loops ---

    async def _again_and_again(
        self, work: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]
    ) -> None:
        """A loop that only another coordinator ends: what goes wrong once is logged, and tried again."""
        while True:
            try:
                await work()
            except Replaced:
                raise
            except Exception as error:
                if is_outage(error):
                    self._database_is_away(error)
                else:
                    log.error("background", problem=type(error).__name__, detail=_told(error))
                await asyncio.sleep(LOOK_EVERY)
            await pause()

    def _database_is_away(self, error: Exception) -> None:
        """Tell it once; the next look that finds it well again tells that, too."""
        if not self._coordinator.in_trouble:
            log.error("no database", problem=self._store.reason(error))
        self._coordinator.in_trouble = True

    async def _require_database(self) -> None:
        """Go on only where we work alone, and where what we find out can be stored."""
        await asyncio.to_thread(self._coordinator.single_instance.check)
        if self._coordinator.in_trouble:
            await asyncio.to_thread(self._store.probe)
            self._coordinator.in_trouble = False
            log.info("the database is back")

    async def _look(self) -> None:
        """Give each session what it needs next."""
        self._bargaining = {name: task for name, task in self._bargaining.items() if not task.done()}
        self._running = {name: task for name, task in self._running.items() if not task.done()}
        metrics.running.set(len(self._running))
        await self._require_database()
        open_sessions = await asyncio.to_thread(self._store.sessions.in_states, *WAITING, *COMPUTING)
        states = {session.id: session.status for session in open_sessions}
        gone = [name for name in (*self._bargaining, *self._running) if name not in states]
        for name in await asyncio.to_thread(self._called_off, gone):
            for tasks in (self._bargaining, self._running):
                if name in tasks:
                    _cancel(tasks[name])
        for session in open_sessions:
            idle = session.id not in self._bargaining and len(self._bargaining) < _NEGOTIATIONS
            if session.status in _BARGAINED and idle:
                self._bargaining[session.id] = self._task(session, self._bargains.carry(session))
            elif session.status in COMPUTING and session.id not in self._running:
                await asyncio.to_thread(housekeeping.take_up, self._coordinator, session)
        waiting = [session for session in open_sessions if session.status is Status.QUEUED]
        metrics.queue_length.set(len(waiting))
        if waiting:
            await asyncio.to_thread(self._serve, waiting)
            await self._claim()
        metrics.running.set(len(self._running))

    def _serve(self, waiting: list[Session]) -> None:
        """What was published meanwhile serves those who wait for the same, whether or not their parties are busy."""
        made = self._store.releases.terms_among({session.terms_hash or "" for session in waiting})
        for session in waiting:
            if session.terms_hash in made:
                self._serve_one(session)

    def _serve_one(self, session: Session) -> bool:
        """Whether a session that is queued was served from the cache, and needs no turn any more."""
        try:
            return serve_from_cache(self._coordinator, session)
        except Conflict as moved:  # its client has cancelled it
            log.info("moved by others", session=session.id, problem=str(moved))
            return False

    def _called_off(self, names: list[str]) -> list[str]:
        """Those that ended, but not because their own work is done: that ends by itself, and tells how it went."""
        done = (Status.PUBLISHED, Status.REFUSED, Status.FAILED)
        return [name for name in names if self._store.sessions.get(name).status not in done]

    async def _claim(self) -> None:
        while len(self._running) < self._settings.sessions_at_once:
            session = await asyncio.to_thread(self._next)
            if session is None:
                return
            self._running[session.id] = self._task(session, self._runs.run(session))

    def _next(self) -> Session | None:
        """The session whose turn it is, claimed. One whose terms were published just now is served instead of run."""
        while True:
            free = self._free()
            session = self._store.queue.next(free)
            if session is None:
                return None
            if not self._serve_one(session):
                return self._store.queue.claim(free, session)

    def _free(self) -> dict[str, int]:
        """How many more sessions each party can take; none while it is left alone."""
        busy = self._store.queue.busy()
        return {
            party: 0 if self._backoff.leaves_alone(party) else slots - busy.get(party, 0)
            for party, slots in self._coordinator.directory.slots().items()
        }

    def _task(self, session: Session, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(session, work))
        task.add_done_callback(lambda _task: self._wakeup.ring())
        return task

    async def _guarded(self, session: Session, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Conflict as moved:  # somebody has cancelled it, or it has expired
            log.info("moved by others", session=session.id, problem=str(moved))
        except Exception as error:
            if is_outage(error) or not await self._gave_up(session, error):
                await self._stumble(session, error)
                return
        self._stumbled.pop(session.id, None)

    async def _gave_up(self, session: Session, error: Exception) -> bool:
        """Whether a session that a mistake of ours has hit could be ended with it."""
        log.error("a bug", session=session.id, problem=type(error).__name__, detail=_told(error))
        try:
            await asyncio.to_thread(housekeeping.give_up, self._store, session.id, type(error).__name__)
        except Exception as again:
            log.error("not given up", session=session.id, problem=type(again).__name__, detail=_told(again))
            return False
        return True

    async def _stumble(self, session: Session, error: Exception) -> None:
        """Nothing could be stored: wait, longer each time; whoever looks then takes the session up again."""
        if is_outage(error):
            self._database_is_away(error)
            self._wakeup.ring()
        log.warning("interrupted", session=session.id, problem=type(error).__name__)
        pause = LOOK_EVERY * 2 ** self._stumbled[session.id]
        self._stumbled[session.id] += 1
        await asyncio.sleep(min(pause, _LONGEST_STUMBLE))

    async def _refresh(self, links: PartyLinks) -> None:
        """Pull what every party publishes; it also tells who is there."""
        directory = self._coordinator.directory

        async def pull(party: str) -> None:
            try:
                await links.health(party)
                known = directory.taken(party)
                published = await links.datasets(party)
                await asyncio.to_thread(directory.take_in, published, party, known)
            except PeerError as error:
                log.debug("not pulled", party=party, problem=str(error))
            except Exception as error:
                if is_outage(error):
                    self._database_is_away(error)
                else:
                    log.error("not pulled", party=party, problem=type(error).__name__, detail=_told(error))

        for party in self._settings.parties:
            task = asyncio.create_task(pull(party))
            self._pulling.add(task)
            task.add_done_callback(self._pulling.discard)
        await asyncio.wait(set(self._pulling))
        self._wakeup.ring()

    async def _end_pulling(self) -> None:
        """Calls that are about to be answered are; others end here, before their lines do."""
        if self._pulling:
            await asyncio.wait(self._pulling, timeout=_LAST_CALLS)
        left = tuple(self._pulling)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _keep_house(self) -> None:
        await asyncio.to_thread(housekeeping.retire, self._coordinator)


def _cancel(task: asyncio.Task[None]) -> None:
    """Once: a second time would cut short how it ends, and nobody would be told that it is over."""
    if not task.cancelling():
        task.cancel()


def _told(error: Exception) -> str | None:
    """The text of an error that is ours; others may quote what should not be in a log."""
    return str(error) if isinstance(error, MasqueradeError) else None
