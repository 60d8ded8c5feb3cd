"""The channel to one peer, and what two nodes must agree on before they exchange messages.

A channel carries whole messages of any size as bytes, in order, each exactly once, and does not interpret them:
`net/script.py` gives them kinds, `net/session.py` drives a party's script over its channels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    ParameterError,
    PeerBrokeProtocol,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    shown,
)

# --- leave message ------------------------------------------------------------------------------------------
# The message with which a party leaves a session, and the error that its peers derive from it.
#
# A cause is a kind and never reveals content. It names the party at fault, so that peers who learn of a
# failure second-hand blame that party and not the messenger. It names none where several parties could have
# broken the protocol and it is impossible to determine which.


class Cause(StrEnum):
    """Why a party leaves."""

    DONE = "done"
    ANSWER_IS_NO = "answer is no"
    BAD_INPUT = "bad input"
    STOPPED = "stopped"
    BUG = "bug"
    # The following are about another party, the culprit.
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    BROKE_PROTOCOL = "broke protocol"
    GAVE_UP = "gave up"


OWN_REASONS = {
    Cause.DONE: "has left the session, and we still waited for it",
    Cause.ANSWER_IS_NO: "gave up: on its side the answer is no; its own log says why",
    Cause.BAD_INPUT: "gave up: its own input is wrong; its own log says how",
    Cause.STOPPED: "was stopped",
    Cause.BUG: "gave up after a failure of its own; its log says more",
}


_CAUSES: tuple[tuple[type[Exception], Cause], ...] = (  # the first that fits
    (PeerUnreachable, Cause.UNREACHABLE),
    (PeerRefused, Cause.REFUSED),
    (PeerBrokeProtocol, Cause.BROKE_PROTOCOL),
    (PeerError, Cause.GAVE_UP),
    (AnswerIsNo, Cause.ANSWER_IS_NO),
    (BadInput, Cause.BAD_INPUT),
    (Exception, Cause.BUG),
)


class LeaveMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Why a party leaves, and the party at fault if that is another one."""

    cause: Cause
    culprit: str = ""

    @property
    def is_orderly(self) -> bool:
        """Return whether the others may go on as long as they need nothing more from this party.

        They may when it is done, and when its answer is no: they reach the same answer by themselves.
        """
        return self.cause in (Cause.DONE, Cause.ANSWER_IS_NO)


DONE = LeaveMessage(Cause.DONE)


def leave_message(error: BaseException | None) -> LeaveMessage:
    """Return the message of a party whose session ended with this error (None: with success)."""
    if error is None:
        return DONE
    # Others than these are an interrupt, or a task that was cancelled.
    cause = next((cause for kind, cause in _CAUSES if isinstance(error, kind)), Cause.STOPPED)
    return LeaveMessage(cause, error.peer if isinstance(error, PeerError) else "")


def blame(messenger: str, leave: LeaveMessage, peers: Collection[str]) -> PeerError:
    """Turn a peer's leave message into an error; `peers` are the session's parties except ourselves."""
    if leave.cause in OWN_REASONS:
        return PeerError(messenger, OWN_REASONS[leave.cause])
    if leave.cause is Cause.BROKE_PROTOCOL and not leave.culprit:
        return PeerBrokeProtocol("", "broke the protocol, and nobody can tell which", reported_by=messenger)
    if leave.culprit not in peers or leave.culprit == messenger:
        return PeerRefused(messenger, f"gave up, and blames us ({leave.cause})")
    match leave.cause:
        case Cause.UNREACHABLE:
            return PeerUnreachable(leave.culprit, "cannot be reached any more", reported_by=messenger)
        case Cause.REFUSED:
            return PeerRefused(leave.culprit, f"and party {messenger} do not accept each other", reported_by=messenger)
        case Cause.BROKE_PROTOCOL:
            return PeerBrokeProtocol(leave.culprit, "sent what the protocol does not allow", reported_by=messenger)
        case _:
            return PeerError(leave.culprit, "gave up", reported_by=messenger)


# --- channel ------------------------------------------------------------------------------------------------

PROTOCOL_VERSION = 1
"""Counts up whenever an older node would misunderstand a newer one."""

SESSION_BYTES = 32


_HOST = re.compile(r"\w[\w.-]{0,252}|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]")  # IPv6 addresses are in brackets


def is_host(text: str) -> bool:
    """Return whether this can be a host: a name, an IPv4 address, or an IPv6 address in brackets such as [::1]."""
    try:
        text.encode("idna")  # as it is looked up: no part between two dots is empty or too long
    except UnicodeError:
        return False
    return _HOST.fullmatch(text) is not None


@dataclass(frozen=True)
class PartyAddress:
    """A party and the address it listens on, `host:port`."""

    name: str
    address: str

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        if not is_host(host) or not port.isdecimal() or int(port) > 65535:
            raise ParameterError(f"party {self.name}: {shown(self.address)} is not an address host:port")


@dataclass(frozen=True)
class Agreement:
    """What both ends must have agreed on beforehand; compared in the handshake.

    `session` is the hash of the contract (32 bytes). `most_bytes` bounds each message, and a peer's unread messages
    together: a peer that announces more is refused before any memory is used.
    """

    session: bytes
    version: int = PROTOCOL_VERSION
    most_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise ParameterError(f"a session's hash has {SESSION_BYTES} bytes, not {len(self.session)}")


@dataclass(frozen=True)
class Timings:
    """Timeouts in seconds.

    `connect`: for all peers to join. `silence`: without any sign of life; idle nodes send pulses, so a peer may
    compute for as long as it needs. `patience`: for one message from a peer that is alive. `grace`: for the leave
    message to arrive after a failure.
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
        """Bytes of all messages sent, including our framing but not that of TLS."""

    @property
    def bytes_received(self) -> int:
        """Bytes of all messages received, including our framing."""

    @property
    def messages_sent(self) -> int:
        """The number of messages sent."""

    @property
    def messages_received(self) -> int:
        """The number of messages received."""

    async def send(self, data: bytes) -> None:
        """Send one message; return when the transport has accepted it."""

    def send_at_once(self, data: bytes) -> bool:
        """Send one message if that takes no waiting; return whether it did."""

    async def receive(self) -> bytes:
        """Return the peer's next message, waiting for it if need be."""

    def take(self) -> bytes | None:
        """Return the peer's next message if it is there; PeerError if none will come. One thread may call this."""

    on_change: Callable[[], None] | None
    """Called, in the event loop, when `take` may have another answer than before."""

    @property
    def patience(self) -> float:
        """How many seconds to wait for one message."""

    def impatience(self) -> PeerError:
        """Return the error for a peer that is waited for in vain."""

    async def failure(self) -> PeerError:
        """Wait until the channel fails, whether or not it is in use, and return the error."""

    async def close(self, leave: LeaveMessage | None = None) -> None:
        """Send the reason for leaving (by default: done), wait until the peer has read it, and disconnect."""
