"""What carries the frames of a session: TLS in production (connect.py), memory in single-process tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from masquerade.net.channel import PartyAddress
from masquerade.net.identity import Identity, TrustStore
from masquerade.net.probing import Diagnosis
from masquerade.net.stream_channel import FrameStream


class AcceptedStream(FrameStream, Protocol):
    """The accepting end of a stream."""

    @property
    def ended(self) -> asyncio.Event:
        """Set once the stream is over, so that its handler may return."""

    @property
    def certificate(self) -> bytes:
        """The certificate (PEM or DER) that the dialling node presented and whose key it has proved to hold."""

    @property
    def caller(self) -> str:
        """The address of the dialling node, `host:port`."""


class Server(Protocol):
    """A running server that accepts streams."""

    async def stop(self, grace: float | None) -> object:
        """Accept no more streams, and end those that are open."""


Handler = Callable[[AcceptedStream], Awaitable[None]]


@dataclass(frozen=True)
class Transport:
    """Dial a peer; probe why it cannot be dialled; serve at an address and return the actual port (or OSError)."""

    dial: Callable[[PartyAddress, Identity, TrustStore], FrameStream]
    probe: Callable[[PartyAddress, Identity, TrustStore], Awaitable[Diagnosis]]
    serve: Callable[[str, Identity, TrustStore, Handler], Awaitable[tuple[Server, int]]]
