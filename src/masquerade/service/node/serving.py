"""A node from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from masquerade.errors import MasqueradeError
from masquerade.net.identity import out_of_date
from masquerade.service.audit import AuditLog
from masquerade.service.mutual_tls import serve
from masquerade.service.node.app import control_app
from masquerade.service.node.logs import log
from masquerade.service.node.node import PartyNode, open_datasets
from masquerade.service.node.publishing import Publisher
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State

_TIDY_EVERY = 600.0


@dataclass(frozen=True)
class RunningNode:
    """A node that answers at `address`."""

    node: PartyNode
    address: str


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[RunningNode]:
    """A node that listens and publishes while the block lasts.

    At the end running sessions tell their peers that they were stopped, and the audit log is sealed.
    """
    state = State(settings.state)
    state.make()
    with state.locked():
        datasets = await asyncio.to_thread(open_datasets, settings, state)
        with AuditLog(state.audit, settings.identity) as audit:
            node = PartyNode(settings, state, audit, datasets)
            _warn_of_old_pins(settings)
            try:
                async with serve(
                    control_app(node), settings.address, settings.identity, settings.trust
                ) as address:
                    log().info("listening", party=settings.name, address=address)
                    tasks = [asyncio.create_task(Publisher(node).run()), asyncio.create_task(_tidying(node))]
                    try:
                        yield RunningNode(node, address)
                    finally:
                        for task in tasks:
                            task.cancel()
                        await asyncio.gather(*tasks, return_exceptions=True)
                        await node.sessions.end()
            finally:
                audit.seal()
                log().info("ended", party=settings.name)


async def _tidying(node: PartyNode) -> None:
    while True:
        with suppress(OSError, MasqueradeError):  # a file that somebody has damaged
            node.tidy()
        await asyncio.sleep(_TIDY_EVERY)


def _warn_of_old_pins(settings: Settings) -> None:
    for name in settings.trust.names:
        problem = out_of_date(settings.trust.pin(name))
        if problem is not None:
            log().warning("a peer's certificate is of no use", peer=name, problem=problem)
