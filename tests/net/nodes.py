"""Nodes for tests: identities that trust each other, and sessions of several nodes in one event loop."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from masquerade.net import (
    Agreement,
    Channel,
    Identity,
    Listener,
    PartyAddress,
    Timings,
    TrustStore,
    listen,
    self_signed,
)
from masquerade.net.identity import issue, make_authority

SESSION = hashlib.sha256(b"a contract").digest()
AGREED = Agreement(SESSION)
# So that a slow machine fails nothing: all peers live, and who lives answers a last word at once.
QUICK = Timings(connect=900, silence=900, patience=900, grace=30.0)
AUTHORITY = make_authority()
PEOPLE = {name: issue(AUTHORITY, name) for name in ("bank", "loans", "shop")}
TRUST = TrustStore({name: who.certificate for name, who in PEOPLE.items()})

Part = Callable[[dict[str, Channel]], Awaitable[Any]]


@dataclass(frozen=True)
class Party:
    """One node of a test's session, and what it does once everybody is there."""

    name: str
    part: Part
    identity: Identity | None = None
    trust: TrustStore = TRUST
    agreement: Agreement = AGREED
    timings: Timings = QUICK
    knows: tuple[str, ...] | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # set once it has left, well or not


async def session(*parties: Party) -> dict[str, Any]:
    """All parties at once, each listening on a port of its own: their results, or the errors they end with."""
    async with AsyncExitStack() as stack:
        listeners: dict[str, Listener] = {}
        for party in parties:
            identity = party.identity or PEOPLE[party.name]
            manager = listen(identity, party.trust)
            listeners[party.name] = await stack.enter_async_context(manager)
        nodes = {name: PartyAddress(name, listener.address) for name, listener in listeners.items()}

        async def one(party: Party) -> Any:
            names = party.knows if party.knows is not None else tuple(nodes)
            peers = [
                PartyAddress(name, party.addresses.get(name) or nodes[name].address)
                for name in names
                if name != party.name
            ]
            connecting = listeners[party.name].connect(peers, party.agreement, party.timings)
            try:
                async with connecting as channels:
                    return await party.part(channels)
            finally:
                party.ended.set()

        results = await asyncio.gather(*(one(party) for party in parties), return_exceptions=True)
    return {party.name: result for party, result in zip(parties, results, strict=True)}


async def idle(_channels: dict[str, Channel]) -> str:
    """A part that has nothing to say."""
    return "done"


async def wait_for_all(channels: dict[str, Channel]) -> None:
    """A part that waits for a message of everybody."""
    for channel in channels.values():
        await channel.receive()


@contextmanager
def issued(days_ago: int) -> Iterator[None]:
    """Certificates that are made in this block were made so many days ago."""
    from masquerade.net import identity as module

    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(UTC) - timedelta(days=days_ago)

    with mock.patch.object(module, "datetime", Then):
        yield


def expired(name: str) -> Identity:
    """An identity whose certificate is out of date."""
    with issued(days_ago=9):
        return self_signed(name, days=3)
