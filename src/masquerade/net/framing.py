"""Encode messages as numbered frames of bounded size, in one canonical form. No I/O.

    frame      after the kind (1 byte) and the number (8 bytes; counts from 0, separately in each direction)
    first      the whole message's length (8 bytes), then its first CHUNK bytes
    more       the next CHUNK bytes; the last frame of a message has the remainder
    pulse      empty: "I am alive"
    leave      why the sender leaves (leave_message.py); afterwards it sends nothing but `heard`
    heard      empty: "I have read your leave and everything before it"

Chunk sizes are fixed, so that an announced length followed by many tiny pieces cannot exhaust memory. A lost,
repeated, misordered or malformed frame raises `FrameError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from masquerade.forms.decoders import msgpack_decoder
from masquerade.net.leave_message import LeaveMessage

CHUNK = 512 * 1024
MOST_FRAME = 1024 * 1024
"""No frame is larger than this."""

_HEAD = struct.Struct(">cQ")
_LENGTH = struct.Struct(">Q")
_FIRST, _MORE, _PULSE, _LEAVE, _HEARD = b"M", b"C", b"P", b"B", b"H"
_MOST_LEAVE = 256


class FrameError(ValueError):
    """A frame that the protocol does not allow; the error text reveals none of its content."""


class Sign(Enum):
    """A received frame without content."""

    PULSE = "pulse"
    HEARD = "heard"


@dataclass(frozen=True)
class Arrived:
    """A complete message and its size on the wire, including framing."""

    data: bytes
    wire_bytes: int


@dataclass
class Outbound:
    """Encodes the frames of one direction and numbers them."""

    number: int = 0

    def message(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames of a message."""
        view = memoryview(data)
        yield self._frame(_FIRST, _LENGTH.pack(len(data)), view[:CHUNK])
        for at in range(CHUNK, len(data), CHUNK):
            yield self._frame(_MORE, view[at : at + CHUNK])

    def pulse(self) -> bytes:
        """Return a frame that shows that this node is alive."""
        return self._frame(_PULSE)

    def leave(self, leave: LeaveMessage) -> bytes:
        """Return the leave frame; it may interrupt a message."""
        return self._frame(_LEAVE, msgspec.msgpack.encode(leave))

    def heard(self) -> bytes:
        """Return the acknowledgement of the peer's leave frame."""
        return self._frame(_HEARD)

    def _frame(self, kind: bytes, *parts: bytes | memoryview) -> bytes:
        head = _HEAD.pack(kind, self.number)
        self.number += 1
        return b"".join((head, *parts))


@dataclass
class Inbound:
    """Decodes and checks the frames of one direction."""

    most_bytes: int
    number: int = 0
    _length: int = -1  # of the message being received; -1 for none
    _chunks: list[bytes] = field(default_factory=list)
    _arrived: int = 0
    _wire_bytes: int = 0
    _said_bye: bool = False

    def take(self, frame: bytes) -> Arrived | Sign | LeaveMessage | None:
        """Return what this frame completes, or None while a message is incomplete; FrameError if it is invalid."""
        if not _HEAD.size <= len(frame) <= MOST_FRAME:
            raise FrameError(f"sent a frame of {len(frame)} bytes")
        kind, number = _HEAD.unpack_from(frame)
        if number != self.number:
            happened = "again" if number < self.number else "too early"
            raise FrameError(f"sent frame {number} {happened}: frame {self.number} is next")
        self.number += 1
        body = frame[_HEAD.size :]
        if self._said_bye and kind != _HEARD:
            raise FrameError("went on after its last word")
        if kind in (_FIRST, _MORE):
            return self._piece(kind, body, len(frame))
        if kind == _LEAVE:
            self._said_bye = True
            return _leave(body)
        if kind in (_PULSE, _HEARD) and not body:
            return Sign.PULSE if kind == _PULSE else Sign.HEARD
        raise FrameError("sent a frame of no known form")

    def _piece(self, kind: bytes, chunk: bytes, wire_bytes: int) -> Arrived | None:
        if (kind == _FIRST) != (self._length < 0):
            raise FrameError(
                "sent a message in the middle of another" if kind == _FIRST else "sent a stray piece"
            )
        if kind == _FIRST:
            if len(chunk) < _LENGTH.size:
                raise FrameError("sent a message without a length")
            (self._length,) = _LENGTH.unpack_from(chunk)
            if self._length > self.most_bytes:
                raise FrameError(f"announced {self._length} bytes; at most {self.most_bytes} are agreed")
            chunk = chunk[_LENGTH.size :]
        if len(chunk) != min(CHUNK, self._length - self._arrived):
            raise FrameError("sent a piece of the wrong size")
        self._chunks.append(chunk)
        self._arrived += len(chunk)
        self._wire_bytes += wire_bytes
        if self._arrived < self._length:
            return None
        whole = Arrived(b"".join(self._chunks), self._wire_bytes)
        self._length, self._arrived, self._wire_bytes = -1, 0, 0
        self._chunks.clear()
        return whole


def _leave(body: bytes) -> LeaveMessage:
    try:
        return msgpack_decoder(LeaveMessage).decode(body[:_MOST_LEAVE])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FrameError("sent a last word of no known form") from None
