"""Give each session what it needs next: a negotiation, a turn, a release from the cache, or an end.

    requested, negotiating, agreed   are negotiated (negotiate.py), many at once
    queued                           wait until every party has a free place, then run (run.py)
    running, assembling              belong to a task here; without one they are tried again

All knowledge is in the store: after a restart the scheduler goes on from there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from masquerade.errors import Conflict, MasqueradeError
from masquerade.service.coordinator import housekeeping, metrics
from masquerade.service.coordinator.context import WorkingContext
from masquerade.service.coordinator.negotiate import Negotiator
from masquerade.service.coordinator.parties import PartyBackoff
from masquerade.service.coordinator.run import Runner
from masquerade.service.coordinator.single_instance import Outage
from masquerade.service.session_states import COMPUTING, WAITING, Status
from masquerade.service.store import SessionRecord, is_outage

log = structlog.get_logger("masquerade.coordinator")

LOOK_EVERY = 1.0  # seconds
_NEGOTIATIONS = 64  # at once
_NEGOTIATED = (Status.REQUESTED, Status.NEGOTIATING, Status.AGREED)
_LONGEST_STUMBLE = 30.0  # seconds until a session is taken up again that could not be stored


@dataclass
class Scheduler:
    """The tasks of all sessions."""

    context: WorkingContext
    negotiator: Negotiator
    runner: Runner
    backoff: PartyBackoff
    outage: Outage
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _negotiating: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _stumbled: Counter[str] = field(default_factory=Counter)  # how often a session met a database that was away

    async def look(self) -> None:
        """Look at all open sessions once, and start and end tasks."""
        self._negotiating = {name: task for name, task in self._negotiating.items() if not task.done()}
        self.running = {name: task for name, task in self.running.items() if not task.done()}
        metrics.running.set(len(self.running))
        await self.outage.insist_on_database()
        open_sessions = await asyncio.to_thread(self.context.store.sessions.in_states, *WAITING, *COMPUTING)
        tasks = {**self._negotiating, **self.running}
        # The store decides, not we: a client may cancel in any process, and a deadline passes by itself.
        gone = list(tasks.keys() - {session.id for session in open_sessions})
        for name in await asyncio.to_thread(self._called_off, gone):
            cancel(tasks[name])
        for session in open_sessions:
            idle = session.id not in self._negotiating and len(self._negotiating) < _NEGOTIATIONS
            if session.status in _NEGOTIATED and idle:
                self._negotiating[session.id] = self._task(session, self.negotiator.carry(session))
            elif session.status in COMPUTING and session.id not in self.running:
                await asyncio.to_thread(housekeeping.resume, self.context.store, self.context.files, session)
        waiting = [session for session in open_sessions if session.status is Status.QUEUED]
        metrics.queue_length.set(len(waiting))
        if waiting:  # first those that no party has to work for: their places are then free for the others
            await asyncio.to_thread(self._serve, waiting)
            while len(self.running) < self.context.settings.sessions_at_once:
                turn = await asyncio.to_thread(self._next)
                if turn is None:
                    break
                self.running[turn.id] = self._task(turn, self.runner.run(turn))
        metrics.running.set(len(self.running))

    async def close(self) -> None:
        """End all tasks, and wait until they have."""
        tasks = [*self._negotiating.values(), *self.running.values()]
        for task in tasks:
            cancel(task)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _called_off(self, names: list[str]) -> list[str]:
        """Those that somebody else ended. A task whose own work ended its session finishes by itself."""
        done = (Status.PUBLISHED, Status.REFUSED, Status.FAILED)
        return [name for name in names if self.context.store.sessions.get(name).status not in done]

    # --- turns ---

    def _serve(self, waiting: list[SessionRecord]) -> None:
        """Serve waiting sessions whose terms were published meanwhile, whether or not their parties are busy."""
        made = self.context.store.releases.terms_among({session.terms_hash or "" for session in waiting})
        for session in waiting:
            if session.terms_hash in made:
                self._serve_one(session)

    def _serve_one(self, session: SessionRecord) -> bool:
        """Return whether a queued session was served from the cache, and needs no turn any more."""
        try:
            return self.context.publisher.serve_from_cache(session)
        except Conflict as moved:  # its client has cancelled it
            log.info("moved by others", session=session.id, problem=str(moved))
            return False

    def _next(self) -> SessionRecord | None:
        """Claim the session whose turn it is. One whose terms were published just now is served instead."""
        while True:
            busy = self.context.store.queue.busy()
            free = {  # how many more sessions each party can take; none while it is left alone
                party: 0 if self.backoff.leaves_alone(party) else slots - busy.get(party, 0)
                for party, slots in self.context.directory.slots().items()
            }
            session = self.context.store.queue.next(free)
            if session is None:
                return None
            if not self._serve_one(session):
                return self.context.store.queue.claim(free, session)

    # --- tasks ---

    def _task(self, session: SessionRecord, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(session, work))
        task.add_done_callback(lambda _task: self.context.wakeup.ring())
        return task

    async def _guarded(self, session: SessionRecord, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Conflict as moved:  # somebody has cancelled it, or it has expired
            log.info("moved by others", session=session.id, problem=str(moved))
        except Exception as error:
            if is_outage(error) or not await self._gave_up(session, error):
                # Nothing could be stored: a later look, each time after a longer wait, takes the session up again.
                if is_outage(error):
                    self.outage.noticed(error)
                    self.context.wakeup.ring()
                log.warning("interrupted", session=session.id, problem=type(error).__name__)
                pause = LOOK_EVERY * 2 ** self._stumbled[session.id]
                self._stumbled[session.id] += 1
                await self.context.clock.sleep(min(pause, _LONGEST_STUMBLE))
                return
        self._stumbled.pop(session.id, None)

    async def _gave_up(self, session: SessionRecord, error: Exception) -> bool:
        """End a session that a mistake of ours has hit; return whether that could be stored."""
        log.error("a bug", session=session.id, problem=type(error).__name__, detail=own_text(error))
        try:
            await asyncio.to_thread(housekeeping.give_up, self.context.store, session.id, type(error).__name__)
        except Exception as again:
            log.error("not given up", session=session.id, problem=type(again).__name__, detail=own_text(again))
            return False
        return True


def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task once: a second time would cut short how it ends, and the parties would not be told."""
    if not task.cancelling():
        task.cancel()


def own_text(error: Exception) -> str | None:
    """The text of an error that is ours; others may quote what should not be in a log."""
    return str(error) if isinstance(error, MasqueradeError) else None
