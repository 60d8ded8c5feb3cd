"""A node from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date

from masquerade.audit.log import AuditLog
from masquerade.errors import MasqueradeError, ParameterError
from masquerade.net.identity import ends_soon, out_of_date
from masquerade.service.clock import SYSTEM_CLOCK, Clock
from masquerade.service.ledger import Ledger
from masquerade.service.logs import log
from masquerade.service.network import TLS, Network
from masquerade.service.node.control_server import control_app
from masquerade.service.node.datasets import open_datasets
from masquerade.service.node.node import PartyNode
from masquerade.service.node.publishing import Publisher, looked_at, watched
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State

_TIDY_EVERY = 600.0


@dataclass(frozen=True)
class RunningNode:
    """A node that answers at `address`."""

    node: PartyNode
    address: str


@asynccontextmanager
async def running(
    settings: Settings, clock: Clock = SYSTEM_CLOCK, network: Network = TLS
) -> AsyncIterator[RunningNode]:
    """Run a node that listens and publishes while the block lasts.

    At the end running sessions tell their peers that they were stopped, and the audit log is sealed.
    """
    network.check_free(settings.address)  # before anything is written, and before tables are read
    state = State(settings.state)
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
                    tasks = [
                        asyncio.create_task(Publisher(node, look).run()),
                        asyncio.create_task(_tidying(node)),
                    ]
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


def warn_of_certificates(settings: Settings) -> None:
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
