"""Protocols without I/O: a party's part is a script that says what to send and from whom to receive next.

A script is a generator. It yields `Send` and `Receive`, gets the received message back, and returns its result. It is
independent of the transport: `net/memory.py` runs all parties of a test in one process, `net/session.py` runs one
party over real channels.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

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


Move = Send | Receive
Script = Generator[Move, Any, Result]


def kind_of(message: Message | type[Message]) -> str:
    """Return the tag of a message or of its class."""
    return str(message.__struct_config__.tag)


def encode(message: Message) -> bytes:
    """Encode a message as MessagePack."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kinds: Sequence[type[Message]]) -> Message:
    """Decode a message; ValueError, not quoting the content, when it is malformed or of none of these kinds."""
    try:
        return msgspec.msgpack.decode(data, type=kinds[0] if len(kinds) == 1 else _union(kinds))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        expected = " or ".join(kind_of(kind) for kind in kinds)
        raise ValueError(f"not a well-formed {expected} message ({type(error).__name__})") from None


def _union(kinds: Sequence[type[Message]]) -> Any:
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union |= kind
    return union
