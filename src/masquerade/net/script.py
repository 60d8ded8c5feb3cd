"""Protocols without I/O: a party's part is a script that says what to send and whom to hear next.

A script is a generator. It yields `Send` and `Receive`, gets the received message back, and returns its result. It
neither knows nor cares what carries the messages: `net/memory.py` runs all parties of a test in one process,
`net/session.py` runs one party over real channels.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

Result = TypeVar("Result")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Something that one party tells another. Each kind is a subclass with its own `tag`."""


@dataclass(frozen=True)
class Send:
    """Tell one or more peers."""

    peers: tuple[str, ...]
    message: Message


@dataclass(frozen=True)
class Receive:
    """Hear the next message of one peer, which must be of this kind."""

    peer: str
    kind: type[Message]


Move = Send | Receive
Script = Generator[Move, Any, Result]


def kind_of(message: Message | type[Message]) -> str:
    """The name of a message's kind."""
    return str(message.__struct_config__.tag)


def encode(message: Message) -> bytes:
    """A message as bytes (MessagePack)."""
    return msgspec.msgpack.encode(message)


def decode(data: bytes, kinds: Sequence[type[Message]]) -> Message:
    """A message from bytes; ValueError, without the content, when it is none of these kinds or malformed."""
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
