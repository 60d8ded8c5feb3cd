"""A node from its start to its end."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from masquerade.audit import AuditLog
from masquerade.errors import Conflict, MasqueradeError, NotAllowed, NotFound, ParameterError
from masquerade.files import FileError
from masquerade.net import ends_soon, out_of_date
from masquerade.service.clock import SYSTEM_CLOCK, Clock, wait
from masquerade.service.ledger import Ledger
from masquerade.service.logs import log
from masquerade.service.node.datasets import Stamp, looked_at, open_datasets, read_all, reopen_datasets
from masquerade.service.node.node import PartyNode
from masquerade.service.node.settings import NodeSettings
from masquerade.service.node.state import StateFolder
from masquerade.service.wire.control import (
    AskOffer,
    AskSignature,
    ControlLink,
    NotNoted,
    Prepare,
    Published,
    Start,
    read_said,
)
from masquerade.service.wire.peers import TLS, Network, audited, caller, health_of, no_route, problem, said
from masquerade.service.wire.problems import status_of

# --- control server -----------------------------------------------------------------------------------------
# The node's control server: which address takes which message. All of it is under mutual TLS.
#
# Only the pinned certificate of the configured coordinator may ask for anything but `/v1/health`, which
# every pinned peer may. What it says and is told goes into the audit log; of others their refusal does.
# Errors are `application/problem+json`; of a failure of ours they name the kind, and nothing else.

_TOLD = (NotAllowed, NotFound, Conflict, ParameterError)  # others may hold a person's data

Answer = Callable[[str, bytes], Any]  # to a message about a contract, with its body; or an awaitable of the answer


def control_app(node: PartyNode) -> Starlette:
    """The application that `mutual_tls.serve` serves."""
    in_thread, contract = asyncio.to_thread, "/v1/sessions/{contract}"
    to_sign = partial(read_said, kind=AskSignature, source="contract")
    answers: list[tuple[str, str, Answer]] = [
        ("GET", "/v1/datasets", lambda _name, _body: in_thread(node.published)),
        ("POST", "/v1/offers", lambda _name, body: in_thread(node.offer, read_said(body, AskOffer, "offer"))),
        ("POST", "/v1/contracts", lambda _name, body: in_thread(node.signature, to_sign(body))),
        ("POST", "/v1/sessions", lambda _name, body: node.prepare(read_said(body, Prepare, "session"))),
        ("POST", f"{contract}/start", lambda name, body: node.start(name, read_said(body, Start, "start"))),
        ("GET", contract, lambda name, _body: node.sessions.progress(name)),
        ("DELETE", contract, lambda name, _body: node.sessions.cancel(name)),
        ("POST", f"{contract}/decline", lambda name, _body: in_thread(node.decline, name)),
    ]

    async def health(request: Request) -> Response:  # for every pinned peer
        try:
            caller(request.scope)
            return said(health_of(node.settings.identity, node.clock))
        except Exception as error:
            return _problem(error)

    return Starlette(
        routes=[
            Route("/v1/health", health),
            *(Route(path, partial(_answered, node, answer), methods=[method]) for method, path, answer in answers),
        ],
        exception_handlers={HTTPException: no_route},
    )


async def _answered(node: PartyNode, answer: Answer, request: Request) -> Response:
    """An answer as JSON, or a problem; both are in the audit log before they leave."""

    async def tried(body: bytes) -> Response:
        try:
            found = answer(request.path_params.get("contract", ""), body)
            return said(await found if inspect.isawaitable(found) else found)
        except Exception as error:
            return _problem(error)

    try:
        who = caller(request.scope)
        if who != node.settings.coordinator.name:
            what = f"{request.method} {request.scope['path']}"
            raise await asyncio.to_thread(node.refuse_caller, who, what)
        return await audited(node.notes, who, request, tried)
    except Exception as error:
        return _problem(error)


def _problem(error: Exception) -> Response:
    if isinstance(error, MasqueradeError) and type(error) in _TOLD:
        return problem(status_of(error), *error.problems)
    kind = type(error).__name__
    told = {"problems": list(error.lines)} if isinstance(error, NotNoted | FileError) else {}
    log().error("a request failed", kind=kind, **told)
    return problem(500, f"the party failed ({kind}); its log says more")


# --- publishing ---------------------------------------------------------------------------------------------
# Tell the coordinator what the party publishes: at the start, and whenever a table, a schema or a policy changes.
#
# The files are looked at every few seconds, the configuration and the taxonomies among them. While the
# coordinator is away it is tried again, ever more rarely, and the log hears of it once.

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0


class Publisher:
    """Watches the files, and publishes what has changed."""

    def __init__(self, node: PartyNode, look: Stamp) -> None:
        self._node = node
        self._told: Published | None = None
        self._away = False
        self._problems: tuple[str, ...] = ()  # what stands in the way of publishing, and
        self._unused: tuple[str, ...] = ()  # of a changed configuration, as the log was told
        self._files, self._look = watched(node.settings), look

    async def run(self) -> None:
        """Publish what is new, again and again, until cancelled."""
        coordinator = self._node.settings.coordinator
        settings = self._node.settings
        clock = self._node.clock
        async with self._node.network.link(
            coordinator.name, coordinator.address, settings.identity, settings.trust, notes=self._node.notes
        ) as link:
            delay, due = _FIRST_DELAY, 0.0
            while True:
                self._node.changed.clear()
                pause = settings.timings.watch
                try:
                    await self._reload_when_changed()
                    if clock.monotonic() >= due:
                        if await self._publish(link):
                            delay = _FIRST_DELAY
                        else:  # not all nodes at once, when it comes back
                            due = clock.monotonic() + delay * random.uniform(0.7, 1)  # noqa: S311 # no secret
                            delay = min(2 * delay, _LONGEST_DELAY)
                    if self._away:
                        pause = min(pause, max(due - clock.monotonic(), 0.05))
                    self._problems = ()
                except Exception as error:  # a folder that is full, for one; the next look may find it mended
                    self._tell(error)
                changed = asyncio.ensure_future(self._node.changed.wait())
                try:
                    await wait(clock, {changed}, pause)
                finally:
                    changed.cancel()

    async def _publish(self, link: ControlLink) -> bool:
        """Publish what is new; return whether the coordinator knows it all."""
        published = await asyncio.to_thread(self._node.published, asked=False)
        if published == self._told:
            return True
        try:
            await link.call("POST", "/v1/datasets", published)
        except MasqueradeError as error:
            if not self._away:
                log().warning("the coordinator is not told; trying on", problems=list(error.lines))
            self._away = True
            return False
        self._told, self._away = published, False
        log().info("published", datasets=[each.card.dataset for each in published.datasets])
        return True

    def _tell(self, error: Exception) -> None:
        """Log once why nothing can be published. A ParameterError names a file; nothing of a table gets this far."""
        kind = type(error).__name__
        problems = error.lines if isinstance(error, ParameterError) else (kind,)
        if problems != self._problems:
            log().error("publishing failed; trying on", kind=kind, problems=list(problems))
        self._problems = problems

    async def _reload_when_changed(self) -> None:
        """Adopt a changed configuration, if nothing is wrong with the file; otherwise the old one stays."""
        look = await asyncio.to_thread(looked_at, self._files)
        if look == self._look:
            return
        node = self._node
        try:
            settings = await asyncio.to_thread(NodeSettings.load, node.settings.path)
            given = node.settings.name, settings, node.state, node.datasets, node.clock
            datasets = await asyncio.to_thread(reopen_datasets, *given)
        except MasqueradeError as error:  # tried again at every look: a file that it names may come yet
            if error.lines != self._unused:
                log().error("the changed configuration is not used", problems=list(error.lines))
            self._unused = error.lines
            return
        self._look, self._unused = look, ()
        if not _same_node(settings, node.settings):
            log().warning("names, addresses and folders of the configuration count from the next start")
        node.datasets = datasets  # before its tables are read: what they are like does not hold up a policy
        log().info("configuration read again", datasets=list(datasets))
        if (now := watched(settings)) != self._files:  # a new one may have changed since it was read
            self._files, self._look = now, ()
        await asyncio.to_thread(node.state.note_configuration, settings.digest)
        await asyncio.to_thread(read_all, datasets)


def watched(settings: NodeSettings) -> tuple[Path, ...]:
    """The configuration's own file, and those of its taxonomies."""
    return (settings.path, *(path for each in settings.datasets.values() for path in each.files))


def _same_node(one: NodeSettings, other: NodeSettings) -> bool:
    def plain(settings: NodeSettings) -> tuple[object, ...]:
        fields = type(settings).model_fields.keys() - {"datasets", "trust", "clients"}
        return settings.path, *(getattr(settings, name) for name in sorted(fields))

    return plain(one) == plain(other)


# --- serving ------------------------------------------------------------------------------------------------

_TIDY_EVERY = 600.0


@dataclass(frozen=True)
class RunningNode:
    """A node that answers at `address`."""

    node: PartyNode
    address: str


@asynccontextmanager
async def running(
    settings: NodeSettings, clock: Clock = SYSTEM_CLOCK, network: Network = TLS
) -> AsyncIterator[RunningNode]:
    """Run a node that listens and publishes while the block lasts.

    At the end running sessions tell their peers that they were stopped, and the audit log is sealed.
    """
    network.check_free(settings.address)  # before anything is written, and before tables are read
    state = StateFolder(settings.state)
    state.make()
    look = looked_at(watched(settings))  # what changes while the tables are read is seen
    with state.locked():
        datasets = await asyncio.to_thread(open_datasets, settings, state, clock)
        if (lost := state.lost_audit(len(Ledger.load(state.ledger).shown))) is not None:
            raise ParameterError(lost)
        with AuditLog(state.audit, settings.identity) as audit:
            node = PartyNode(settings, state, audit, datasets, clock, network)
            state.note_configuration(settings.digest)
            try:
                own = settings.address, settings.identity, settings.trust, settings.limits
                async with network.serve(control_app(node), *own) as address:
                    log().info("listening", party=settings.name, address=address)
                    tasks = [asyncio.create_task(Publisher(node, look).run()), asyncio.create_task(_tidying(node))]
                    try:
                        yield RunningNode(node, address)
                    finally:
                        for task in tasks:
                            task.cancel()
                        await asyncio.gather(*tasks, return_exceptions=True)
                        await node.sessions.end()
            finally:
                state.note_configuration(None)
                audit.seal()
                log().info("ended", party=settings.name)


async def _tidying(node: PartyNode) -> None:
    warned: date | None = None
    while True:
        if warned != (today := node.clock.now().date()):
            warned = today
            warn_of_certificates(node.settings)
        with suppress(OSError, MasqueradeError):  # a file that somebody has damaged
            node.tidy()
        await node.clock.sleep(_TIDY_EVERY)


def warn_of_certificates(settings: NodeSettings) -> None:
    """Log which certificates, our own and the pinned ones, are out of date or soon will be."""
    ours = settings.identity.certificate
    if (problem := out_of_date(ours)) is not None:
        told = "our own certificate is of no use; make a new one, send it to every peer, and start the node again"
        log().error(told, problem=problem)
    elif (until := ends_soon(ours)) is not None:
        told = "our own certificate ends soon; make a new one, and send it to every peer"
        log().warning(told, until=f"{until:%Y-%m-%d %H:%M} UTC")
    for name in settings.trust.names:
        pin = settings.trust.pin(name)
        if (problem := out_of_date(pin)) is not None:
            log().warning("a peer's certificate is of no use", peer=name, problem=problem)
        elif (until := ends_soon(pin)) is not None:
            told = "a peer's certificate ends soon; get its new one from its steward"
            log().warning(told, peer=name, until=f"{until:%Y-%m-%d %H:%M} UTC")
