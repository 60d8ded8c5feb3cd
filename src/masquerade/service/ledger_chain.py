"""The ledger's file: lines that are chained, so that one that was changed, removed or slipped in is found and named.

    {"hash":…,"previous":…,"release":{…}}

Canonical JSON. `previous` is the hash of the line before (zeros, for the first), `hash` is SHA-256 over the line
without it, as in the audit log. A chain alone does not show that its last lines are gone: how many there are, and the
last one's hash, stand in a file beside it (`ledger.head`), which is written after each line.

Lines from before there was a chain are a release and nothing else. They are read as they are, the first chained line
follows the digest of all of them, and behind it no such line may stand. Whoever may write the folder can make chain and
head anew: they show a slip, a mended line, an old copy put back; the sealed audit log is the proof.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from masquerade.errors import DataError
from masquerade.files import PRIVATE, sync_folder, write_whole
from masquerade.service.canonical import canonical

_CHAINED = re.compile(
    rb'\{"hash":"([0-9a-f]{64})","previous":"([0-9a-f]{64})","release":(\{.*\})\}', re.DOTALL
)
_BEGINNING = b'{"hash":'
_HOW = "a line was changed, removed or put in"

Read = TypeVar("Read")


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many lines there are, and the hash that the next one follows."""

    number: int = 0
    hash: str = "0" * 64


@dataclass(frozen=True)
class Chain(Generic[Read]):
    """All lines, each as it was read."""

    records: tuple[Read, ...]
    head: Head
    size: int  # bytes; what stands behind them was not finished


def head_path(path: Path) -> Path:
    """The file beside the ledger."""
    return path.with_suffix(".head")


def read_chain(path: Path, read: Callable[[bytes], Read]) -> Chain[Read]:
    """Every line, held against the chain and `read`; DataError names the file and the first line that is wrong."""
    head = _read_head(path)  # before the lines: a line is written before its head
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    *lines, unfinished = data.split(b"\n")
    last, chained = Head(), False
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            body, last, chained = _follow(line, last, chained)
            records.append(read(body))
        except ValueError as error:
            raise DataError(f"{path}: line {number}: {error}") from None
        if head is not None and head.number == number and head.hash != last.hash:
            raise DataError(f"{path}: line {number}: not the one that was written here: {_HOW}")
    if head is None and chained and _read_head(path) is None:  # at the very first release it may be new
        raise DataError(f"{head_path(path)}: is missing: nobody can tell whether the ledger's last lines are")
    if head is not None and head.number > len(lines):
        told = f"{head.number} line{'s were' if head.number > 1 else ' was'} written, {len(lines)} are there"
        raise DataError(f"{path}: line {len(lines) + 1}: is missing: {told}")
    return Chain(tuple(records), last, len(data) - len(unfinished))


def append_line(path: Path, body: bytes, read: Callable[[bytes], object]) -> None:
    """Add one line to a ledger that is whole, and return once it is on the disk. One writer at a time: the node."""
    chain = read_chain(path, read)
    if not head_path(path).exists():  # from now on it must be there
        write_whole(head_path(path), canonical(chain.head), PRIVATE)
    line, found = _line(body, chain.head.hash)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(chain.size)  # an unfinished line goes
            file.seek(chain.size)
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if chain.size == 0:
            sync_folder(path.parent)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
    write_whole(head_path(path), canonical(Head(chain.head.number + 1, found)), PRIVATE)


def _follow(line: bytes, last: Head, chained: bool) -> tuple[bytes, Head, bool]:
    """What a line says, and what the next one follows; ValueError when it does not follow `last` itself."""
    number = last.number + 1
    parts = _CHAINED.fullmatch(line)
    if parts is None:
        if chained or line.startswith(_BEGINNING):
            raise ValueError("not as it was written: it was changed, or put in")
        found = hashlib.sha256(last.hash.encode() + line).hexdigest()
        return line, Head(number, found), False
    said, previous, body = parts.groups()
    _, found = _line(body, previous.decode())
    if said.decode() != found:
        raise ValueError("wrong hash: the line was changed after it was written")
    if previous.decode() != last.hash:
        before = f"line {last.number}" if chained else "the lines before it"
        raise ValueError(
            f"does not follow {before}: {_HOW}" if last.number else "lines before it were removed"
        )
    return body, Head(number, found), True


def _line(body: bytes, previous: str) -> tuple[bytes, str]:
    """A line, and its hash."""
    rest = b'"previous":"%b","release":%b}' % (previous.encode(), body)
    found = hashlib.sha256(b"{" + rest).hexdigest()
    return b'{"hash":"%b",%b' % (found.encode(), rest), found


def _read_head(path: Path) -> Head | None:
    try:
        return msgspec.json.decode(head_path(path).read_bytes(), type=Head)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        raise DataError(f"{head_path(path)}: cannot be read, or is no head of a ledger") from None
