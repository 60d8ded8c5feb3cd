"""The messages that a party sent and received: one line each, never the content.

The digest later proves which message it was, to somebody who has the message.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Self

import msgspec

from masquerade.errors import DataError, ParameterError
from masquerade.forms import json_decoder

Direction = Literal["sent", "received"]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message: `seconds` since the session's start, `size` in bytes, `digest` SHA-256 in hexadecimal."""

    number: int
    seconds: float
    direction: Direction
    peer: str
    kind: str
    size: int
    digest: str


class Transcript:
    """Collects entries and, given a path, writes each as a line of JSON at once.

    A message is entered before it is sent: what is not in the transcript was not sent. `on_entry` is called with each
    entry before the message is passed on; if it raises, the message is not.
    """

    def __init__(self, path: Path | None = None, on_entry: Callable[[Entry], object] | None = None) -> None:
        self.entries: list[Entry] = []
        self._on_entry = on_entry
        self._path = path
        self._start = time.monotonic()
        try:
            self._file = path.open("wb", buffering=0) if path is not None else None
        except OSError as error:
            raise ParameterError(f"{path}: the transcript cannot be written: {error.strerror}") from None

    def sent(self, peer: str, kind: str, data: bytes) -> None:
        """Enter a message that is about to be sent."""
        self._enter("sent", peer, kind, data)

    def received(self, peer: str, kind: str, data: bytes) -> None:
        """Enter a message that was received."""
        self._enter("received", peer, kind, data)

    def close(self) -> None:
        """Close the file, if any."""
        if self._file is not None:
            self._file.close()

    def _enter(self, direction: Direction, peer: str, kind: str, data: bytes) -> None:
        seconds = round(time.monotonic() - self._start, 6)
        digest = hashlib.sha256(data).hexdigest()
        entry = Entry(len(self.entries), seconds, direction, peer, kind, len(data), digest)
        self.entries.append(entry)
        if self._file is not None:
            try:
                self._file.write(msgspec.json.encode(entry) + b"\n")
            except OSError as error:
                raise ParameterError(f"{self._path}: the transcript cannot be written: {error.strerror}") from None
        if self._on_entry is not None:
            self._on_entry(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_transcript(path: Path) -> tuple[Entry, ...]:
    """Read the entries of a transcript file."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json_decoder(Entry).decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise DataError.about(path, "not an entry of a transcript", line=number) from None
    return tuple(entries)
