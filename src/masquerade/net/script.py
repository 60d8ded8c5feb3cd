"""Protocols without I/O: a party's part is a script that says what to send and from whom to receive next.

A script is a generator. It yields `Send` and `Receive`, gets the received message back, and returns its result. It is
independent of the transport: `net/memory.py` runs all parties of a test in one process, `net/session.py` runs one
party over real channels.

A peer that fails ends the session, whatever the script is doing, unless its moves are **tolerant**: then the peer's
error is raised in the script, once, where it waits or at its next such move; the script may go on without that peer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import msgspec

from masquerade.forms import msgpack_decoder

Result = TypeVar("Result")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """A message between parties. Each kind is a subclass with its own `tag`."""


@dataclass(frozen=True)
class Send:
    """Send a message to one or more peers."""

    peers: tuple[str, ...]
    message: Message


@dataclass(frozen=True)
class Receive:
    """Receive the next message from one peer, which must be of this kind."""

    peer: str
    kind: type[Message]


@dataclass(frozen=True)
class TolerantSend(Send):
    """Send; should any peer fail, raise its PeerError in the script, once."""


@dataclass(frozen=True)
class TolerantReceive(Receive):
    """Receive; should any peer fail, raise its PeerError in the script, once.

    A `notice` may come in place of the message. With `skips`, messages of other kinds are thrown away until it comes.
    """

    notice: type[Message] | None = None
    skips: bool = False


Move = Send | Receive
Script = Generator[Move, Any, Result]


def kinds_of(move: Receive) -> tuple[type[Message], ...]:
    """Return the kinds of messages that a move takes."""
    notice = move.notice if isinstance(move, TolerantReceive) else None
    return (move.kind,) if notice in (None, move.kind) else (move.kind, notice)


def kind_of(message: Message | type[Message]) -> str:
    """Return the tag of a message or of its class."""
    return str(message.__struct_config__.tag)


_encoder = msgspec.msgpack.Encoder(order="deterministic")  # the order in which a map was filled tells nobody anything


def encode(message: Message) -> bytes:
    """Encode a message as MessagePack, its maps in the order of their keys."""
    return _encoder.encode(message)


def decode(data: bytes, kinds: Sequence[type[Message]]) -> Message:
    """Decode a message; ValueError, not quoting the content, when it is malformed or of none of these kinds."""
    try:
        message: Message = msgpack_decoder(reduce(or_, kinds)).decode(data)
        return message
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        expected = " or ".join(kind_of(kind) for kind in kinds)
        raise ValueError(f"not a well-formed {expected} message ({type(error).__name__})") from None
