"""The handshake on a new stream: each node's name, protocol version and contract.

Both ends say hello; the accepting end checks first and answers with its own hello, or with a refusal that gives the
reason. The texts here address the person who has to fix the problem.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from masquerade.errors import PeerBrokeProtocol, PeerRefused
from masquerade.forms.decoders import msgpack_decoder
from masquerade.net.channel import Agreement, Node
from masquerade.net.leave_message import LeaveMessage

MOST_BYTES = 1024
"""No greeting is longer."""


class Reason(StrEnum):
    """Why a node refuses another."""

    VERSION = "version"
    CONTRACT = "contract"
    STRANGER = "stranger"  # its certificate is not the one pinned for the name it gives
    NOT_INVITED = "not invited"
    WRONG_WAY = "wrong way"  # it dials us, although we should dial it
    TWICE = "twice"
    GAVE_UP = "gave up"


# Newer versions may add fields but keep these, so that versions can be compared.
class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A node's name, protocol version and contract hash."""

    name: str
    version: int
    session: bytes


class HelloRefused(msgspec.Struct, frozen=True, tag="refusal"):
    """The answer to a hello that does not match."""

    reason: Reason
    version: int
    leave: LeaveMessage | None = None


def encode(greeting: Hello | HelloRefused) -> bytes:
    """Encode a greeting as a frame."""
    return msgspec.msgpack.encode(greeting)


def decode(frame: bytes, peer: Node) -> Hello | HelloRefused:
    """Decode a peer's greeting; PeerBrokeProtocol when it is malformed."""
    try:
        if len(frame) > MOST_BYTES:
            raise ValueError
        greeting: Hello | HelloRefused = msgpack_decoder(Hello | HelloRefused).decode(frame)
        return greeting
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        raise PeerBrokeProtocol(peer.name, f"at {peer.address} does not greet as a Masquerade node") from None


def misfit(hello: Hello, agreement: Agreement) -> Reason | None:
    """Return why a peer's hello does not match ours; None when it does."""
    if hello.version != agreement.version:
        return Reason.VERSION
    if hello.session != agreement.session:
        return Reason.CONTRACT
    return None


def refused(peer: Node, reason: Reason, agreement: Agreement, version: int, *, by_peer: bool) -> PeerRefused:
    """Return the error that explains to a person, on either side, why two nodes did not connect."""
    match reason, by_peer:
        case Reason.VERSION, _:
            problem = f"speaks protocol version {version}, we speak {agreement.version}: update the older of the two"
        case Reason.CONTRACT, _:
            problem = (
                "agreed to another contract than we did; compare the jobs of the two parties,"
                " and restart the session from one of them"
            )
        case Reason.STRANGER, True:
            problem = "says that our certificate is not the one it knows for our name; send it ours again"
        case Reason.STRANGER, False:
            problem = (
                "shows a certificate that is not the one in our trust store for the name it says;"
                " compare the fingerprints with its steward"
            )
        case Reason.NOT_INVITED, True:
            problem = (
                "says that we are not among the parties of its session; compare the jobs of the two parties"
            )
        case Reason.NOT_INVITED, False:
            problem = "is not among the parties of this session, and yet it connects to us"
        case Reason.WRONG_WAY, True:
            problem = "says that it connects to us, not we to it; compare the parties' names"
        case Reason.WRONG_WAY, False:
            problem = "connects to us, though we connect to it; compare the parties' names"
        case Reason.TWICE, True:
            problem = "has a connection from us already; is another process running under our name?"
        case Reason.TWICE, False:
            problem = "connects a second time; is another process running under its name?"
        case _:
            problem = "has given up the session already; its log says why"
    return PeerRefused(peer.name, f"at {peer.address} {problem}")
