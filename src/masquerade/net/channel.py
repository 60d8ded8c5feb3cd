"""A channel to one peer, and what two nodes agree on before they talk.

A channel carries whole messages of any size as bytes, in order, each exactly once. It knows nothing of their
contents: `net/script.py` gives them kinds, `net/session.py` drives a party's script over its channels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from masquerade.errors import ParameterError, PeerError, shown
from masquerade.net.leave_message import LeaveMessage

PROTOCOL_VERSION = 1
"""Counts up whenever an older node would misunderstand a newer one."""

SESSION_BYTES = 32


_HOST = re.compile(r"\w[\w.-]{0,252}|\[[0-9A-Fa-f:.]+(%\w+)?\]")  # a number of IPv6 stands in brackets


def is_host(text: str) -> bool:
    """Whether this can be a host: a name, a number such as 127.0.0.1, or one in brackets such as [::1]."""
    return _HOST.fullmatch(text) is not None


@dataclass(frozen=True)
class Node:
    """A party and where it listens: `host:port`."""

    name: str
    address: str

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        if not is_host(host) or not port.isdecimal() or int(port) > 65535:
            raise ParameterError(f"party {self.name}: {shown(self.address)} is not an address host:port")


@dataclass(frozen=True)
class Agreement:
    """What both ends must have agreed on before; compared in the handshake.

    `session` is the hash of the contract (32 bytes). `most_bytes` bounds one message, and all messages of a peer
    that wait to be heard: a peer that announces more is refused before any memory is used.
    """

    session: bytes
    version: int = PROTOCOL_VERSION
    most_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise ParameterError(f"a session's hash has {SESSION_BYTES} bytes, not {len(self.session)}")


@dataclass(frozen=True)
class Timings:
    """How long to wait, in seconds.

    `connect`: for all peers to join. `silence`: without any sign of life; nodes that have nothing to say send a
    pulse, so that a peer may compute for as long as it needs. `patience`: for one message of a peer that is alive.
    `grace`: for a last word to arrive, when something went wrong.
    """

    connect: float = 30.0
    silence: float = 60.0
    patience: float = 3600.0
    grace: float = 2.0


class Channel(Protocol):
    """Whole messages to and from one peer. Every failure is a `PeerError` that names the peer at fault."""

    @property
    def peer(self) -> str:
        """The peer's name."""

    @property
    def bytes_sent(self) -> int:
        """Bytes of all messages that were sent, with their framing (without gRPC's and TLS's own)."""

    @property
    def bytes_received(self) -> int:
        """Bytes of all messages that arrived, with their framing."""

    @property
    def messages_sent(self) -> int:
        """How many messages were sent."""

    @property
    def messages_received(self) -> int:
        """How many messages arrived."""

    async def send(self, data: bytes) -> None:
        """Send one message; returns when the transport has taken it."""

    async def receive(self) -> bytes:
        """The peer's next message."""

    async def failure(self) -> PeerError:
        """Wait until the channel fails, whoever uses it or not; what went wrong."""

    async def close(self, leave: LeaveMessage | None = None) -> None:
        """Say why we leave (by default: done), wait until the peer has heard it, and hang up."""
