"""The coordinator's work in the background: everything that happens without anybody waiting for an answer.

Four loops: look at the sessions (scheduler.py; woken when something happened, and every second), pull what the parties
publish, tell them what was declined, and keep house. Beside them the server for the parties' nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import structlog

from masquerade.audit import AuditLog
from masquerade.errors import ParameterError, PeerError
from masquerade.service.clock import wait
from masquerade.service.coordinator import housekeeping
from masquerade.service.coordinator.context import Context, WorkingContext
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.negotiate import Negotiator
from masquerade.service.coordinator.parties import PartyBackoff
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.rehearsal import Rehearsal
from masquerade.service.coordinator.run import Runner
from masquerade.service.coordinator.scheduler import LOOK_EVERY, Scheduler, cancel, own_text
from masquerade.service.coordinator.session_moves import tell_declined
from masquerade.service.coordinator.sign import Signer
from masquerade.service.coordinator.single_instance import Outage, Replaced, SingleInstance
from masquerade.service.store import is_outage
from masquerade.service.wire.control import ControlNotes

log = structlog.get_logger("masquerade.coordinator")

_KEEP_HOUSE_EVERY = 30.0  # seconds
_TELL_EVERY = 5.0  # seconds until parties hear of what was declined, where nobody asks them before
_LAST_CALLS = 3.0  # seconds for calls that are under way when we are stopped


@dataclass
class Background:
    """Everything that runs beside the public server."""

    context: Context
    single_instance: SingleInstance
    outage: Outage
    rehearsal: Rehearsal
    party_address: str | None = None  # where nodes push, once it is served
    _pulling: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work alone as long as the block runs; Replaced ends the block when another coordinator took our place."""
        with self.single_instance.held():
            try:
                async with asyncio.TaskGroup() as group, self._working(group):
                    yield
            except BaseExceptionGroup as several:  # one: the block's own error, or that we were replaced
                raise several.exceptions[0] from None

    def scheduler(self, context: WorkingContext, backoff: PartyBackoff) -> Scheduler:
        """The scheduler of sessions, with all that it works with."""
        signer = Signer(context)
        negotiator, runner = Negotiator(context, signer), Runner(context, signer, backoff)
        return Scheduler(context, negotiator, runner, backoff, self.outage)

    @asynccontextmanager
    async def _working(self, group: asyncio.TaskGroup) -> AsyncIterator[None]:
        own, clock, wakeup = self.context.settings, self.context.clock, self.context.wakeup
        store, directory = self.context.store, self.context.directory
        audit = AuditLog(own.audit, own.identity)
        notes = ControlNotes(audit)
        links = PartyLinks(own, directory, clock, self.context.network, notes)
        context = WorkingContext.of(self.context, links, audit)
        wakeup.attach()
        try:
            await asyncio.to_thread(directory.register)
            await asyncio.to_thread(housekeeping.after_restart, store, context.files, own.parties)
            app = party_app(own, directory, wakeup, clock, notes)
            async with links, self._served(app) as self.party_address:
                self.rehearsal.attach(links)
                backoff = PartyBackoff(context)
                scheduler = self.scheduler(context, backoff)
                # In the group: what ends a loop ends the block.
                loops = [
                    group.create_task(self._repeat(work, pause))
                    for work, pause in (
                        (scheduler.look, lambda: wakeup.wait(LOOK_EVERY)),
                        (lambda: self.refresh(links), lambda: clock.sleep(own.timings.refresh)),
                        (
                            lambda: asyncio.to_thread(housekeeping.retire, store, context.files),
                            lambda: clock.sleep(_KEEP_HOUSE_EVERY),
                        ),
                        (lambda: tell_declined(store, links, own.parties), lambda: clock.sleep(_TELL_EVERY)),
                    )
                ]
                try:
                    yield
                finally:
                    # Loops first, or they would begin what is being ended; then the sessions, which tell the parties so
                    # by links that are still open.
                    self.rehearsal.detach()
                    for loop in loops:
                        cancel(loop)
                    await asyncio.gather(*loops, return_exceptions=True)
                    await scheduler.close()
                    await backoff.close()
                    # Calls that are about to be answered may finish before their links are closed.
                    left = asyncio.gather(*self._pulling, return_exceptions=True)
                    if not await wait(clock, {left}, _LAST_CALLS):
                        left.cancel()
                    await asyncio.gather(left, return_exceptions=True)
        finally:
            wakeup.detach()
            audit.close()

    @asynccontextmanager
    async def _served(self, app: object) -> AsyncIterator[str]:
        """Serve the parties' nodes; where it cannot listen, the error names the key."""
        own = self.context.settings
        async with AsyncExitStack() as stack:
            try:
                server = self.context.network.serve(app, own.party_address, own.identity, own.trust, own.limits)
                address = await stack.enter_async_context(server)
            except ParameterError as error:
                if any(problem.source != own.party_address for problem in error.problems):
                    raise
                raise error.within(str(own.path), ("party_address",)) from None
            yield address

    # --- loops ---

    async def _repeat(self, work: Callable[[], Awaitable[None]], pause: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again; errors are logged, and only Replaced ends it."""
        while True:
            try:
                await work()
            except Replaced:
                raise
            except Exception as error:
                if is_outage(error):
                    self.outage.noticed(error)
                else:
                    log.error("background", problem=type(error).__name__, detail=own_text(error))
                await self.context.clock.sleep(LOOK_EVERY)
            await pause()

    async def refresh(self, links: PartyLinks) -> None:
        """Pull what every party publishes, and learn who is there."""
        for party in self.context.settings.parties:
            task = asyncio.create_task(self._pull(links, party))
            self._pulling.add(task)
            task.add_done_callback(self._pulling.discard)
        await asyncio.wait(set(self._pulling))
        self.context.wakeup.ring()

    async def _pull(self, links: PartyLinks, party: str) -> None:
        try:
            await links.health(party)
            known = self.context.directory.taken(party)
            published = await links.datasets(party)
            await asyncio.to_thread(self.context.directory.take_in, published, party, known)
        except PeerError as error:
            log.debug("not pulled", party=party, problem=str(error))
        except Exception as error:
            if is_outage(error):
                self.outage.noticed(error)
            else:
                log.error("not pulled", party=party, problem=type(error).__name__, detail=own_text(error))
