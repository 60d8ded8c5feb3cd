"""What carries the frames of a session: gRPC in life (connect.py); in memory in tests, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from masquerade.net.channel import Node
from masquerade.net.identity import Identity
from masquerade.net.probe import Diagnosis
from masquerade.net.stream_channel import FrameStream
from masquerade.net.trust import TrustStore


class AcceptedStream(FrameStream, Protocol):
    """The end that was dialled."""

    @property
    def ended(self) -> asyncio.Event:
        """Set once the stream is over: then its handler may return."""

    @property
    def certificate(self) -> bytes:
        """The certificate (PEM) that the dialling node has shown, and whose key it has."""

    @property
    def caller(self) -> str:
        """Where it dialled from: `host:port`."""


class Server(Protocol):
    """Accepts streams."""

    async def stop(self, grace: float | None) -> object:
        """Accept no more, and end those that are open."""


Handler = Callable[[AcceptedStream], Awaitable[None]]


@dataclass(frozen=True)
class Transport:
    """Dial a peer; look why one cannot be dialled; serve at an address, whose real port comes back (or OSError)."""

    dial: Callable[[Node, Identity, TrustStore], FrameStream]
    probe: Callable[[Node, Identity, TrustStore], Awaitable[Diagnosis]]
    serve: Callable[[str, Identity, TrustStore, Handler], Awaitable[tuple[Server, int]]]
