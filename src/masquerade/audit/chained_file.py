"""Files of chained lines (chained_file.py), each with a head file (chained_file.py): appending, recovering, reading.

Several threads and processes may append to one file: each takes a lock and first catches up with the others' lines. A
line that a crash cut short is moved to `<path>.torn`, one line each, and replaced by a `recovered` record.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple, Self

import msgspec

from masquerade.errors import ParameterError, one_line, shown
from masquerade.files import PRIVATE, FileError, read_file, sync_folder
from masquerade.forms import json_decoder

# --- chain --------------------------------------------------------------------------------------------------
# One line of a chained file: its canonical form, its hash, and its link to the line before. No I/O.
#
#     {"event":…,"fields":{…},"hash":…,"number":…,"previous":…,"time":…}
#
# Canonical JSON: keys sorted, no white space. `number` is the line's own number in the file, from 1.
# `previous` is the hash of the line before (zeros for the first), `hash` is SHA-256 over the canonical JSON
# of all other fields. A line has exactly one form, so that no byte of it can change unnoticed.

MOST_LINE = 16 << 20
"""Bytes of the longest line, so that a reader's memory is bounded whatever the file holds."""

_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z"
_ANCHOR = re.compile(r"([1-9][0-9]{0,18}):([0-9a-f]{64})", re.ASCII)


class LineError(ValueError):
    """What is wrong with a line."""


class MissingLine(LineError):
    """A line that should exist is missing."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"missing: {problem}")


class Anchor(NamedTuple):
    """A record's number and hash, with which its keeper can later prove that the file still holds that record."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @classmethod
    def read(cls, text: str) -> Anchor:
        """Parse the output of `str`; ParameterError when it is malformed."""
        match = _ANCHOR.fullmatch(text)
        if match is None:
            raise ParameterError(
                f"anchor {shown(text)}: not NUMBER:HASH, a record's number and its 64 hexadecimal digits"
            )
        return cls(int(match[1]), match[2])


NOTHING = Anchor(0, "0" * 64)
"""The anchor that the first line follows."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A parsed line whose hash is correct."""

    event: str
    fields: dict[str, Any]
    hash: str
    number: int
    previous: str
    time: Annotated[str, msgspec.Meta(pattern=_TIME)]

    @property
    def anchor(self) -> Anchor:
        """The anchor that names this record."""
        return Anchor(self.number, self.hash)


_decode = json_decoder(Record).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def now() -> str:
    """Return the current time in UTC, in RFC 3339 format with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def unhashed_line(event: str, fields: Mapping[str, Any], after: Anchor, time: str) -> bytes:
    """Encode the line that follows `after` without its hash: the input of the hash and of a seal's signature."""
    return _encode(_body(event, fields, after, time))


def write_line(event: str, fields: Mapping[str, Any], after: Anchor, time: str) -> tuple[bytes, Anchor]:
    """Encode the line that follows `after`, with its line end; return it and its anchor."""
    body = _body(event, fields, after, time)
    try:
        digest = hashlib.sha256(_encode(body)).hexdigest()
        line = _encode({**body, "hash": digest})
        read_line(line)  # write nothing that cannot be read back
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        raise ParameterError(f"record {shown(event)}: its fields cannot be written as JSON") from None
    if len(line) >= MOST_LINE:
        raise ParameterError(f"record {shown(event)}: takes {len(line)} bytes; a line has at most {MOST_LINE}")
    return line + b"\n", Anchor(after.number + 1, digest)


def read_line(raw: bytes) -> Record:
    """Decode a line (without its newline); LineError when it is not a record or was changed."""
    try:
        record = _decode(raw)
        canonical = _encode(record)
        hash_field = b'"hash":"%b",' % record.hash.encode()
    except msgspec.ValidationError as error:
        raise LineError(f"not a record: {one_line(str(error))[:200]}") from None
    except (msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError):
        raise LineError("not JSON") from None
    if canonical != raw:
        raise LineError("not canonical JSON")
    # Fields may contain such a text too, but nothing after the line's own hash can: the last match is the hash.
    before, _, behind = raw.rpartition(hash_field)
    if hashlib.sha256(before + behind).hexdigest() != record.hash:
        raise LineError("wrong hash: the line was changed after it was written")
    return record


class ChainCheck:
    """Checks records in order against the chain, and against the file's head if there is one.

    `last` is the last valid record: any error concerns the line after it.
    """

    def __init__(self, head: Anchor | None) -> None:
        self.last = NOTHING
        self._head = head

    def take(self, record: Record) -> None:
        """Check the next record; LineError when it does not continue the chain."""
        number, last = record.number, self.last
        if number != last.number + 1:
            why = "lines are missing" if number > last.number + 1 else "it was there before"
            raise LineError(f"number out of order: {number}, where {last.number + 1} belongs; {why}")
        if record.previous != last.hash:
            raise LineError("broken chain: this line was written after another one than the line before it")
        self._take(record)
        if self._head is not None and number == self._head.number and record.hash != self._head.hash:
            raise LineError(f"not the record that was written here, by the head beside it: its hash is {record.hash}")
        self.last = record.anchor

    def end(self) -> None:
        """Check that no record is missing at the end; LineError when one is."""
        if self._head is not None and (problem := missing_records(self._head, self.last)) is not None:
            raise MissingLine(problem)

    def _take(self, record: Record) -> None:
        """Check further conditions on a record; for subclasses."""


def _body(event: str, fields: Mapping[str, Any], after: Anchor, time: str) -> dict[str, Any]:
    number, previous = after.number + 1, after.hash
    return {"event": event, "fields": fields, "number": number, "previous": previous, "time": time}


def missing_records(head: Anchor, last: Anchor) -> str | None:
    """Return what is wrong with a file that ends with `last`; None when it reaches its head or goes beyond."""
    if last.number > head.number or last == head:
        return None
    written = "1 record was written" if head.number == 1 else f"{head.number} records were written"
    if last == NOTHING:
        return f"nothing is there, but {written}: it was emptied or removed"
    if last.number < head.number:
        return f"it ends with record {last.number}, but {written}: its end was cut off"
    return f"its last record, {last.number}, is not the one that was written: it is another log, or was written anew"


# --- head ---------------------------------------------------------------------------------------------------
# The head of a chained file: the anchor of its last record, in a file beside it (`audit.head` for
# `audit.jsonl`).
#
# A chain does not reveal that its last lines, or all of them, are missing. The head does: a file that ends
# before its head was emptied, removed or cut short, or is an old copy. The head is written once a line is
# on the disk, but not flushed itself: after a power cut it may be older than the file, never newer.
#
# Anyone with write access to the folder can remove both. The head reveals accidents; anchors kept by others
# are proof.

_WIDTH = 84  # of the largest anchor; fixed, so that the head is overwritten in place


def head_path(path: Path) -> Path:
    """Return the path of the head of the file at `path`."""
    return path.with_suffix(".head")


def read_head(path: Path) -> Anchor | None:
    """Read the head of the file at `path`; None if there is none or it is still empty."""
    place = head_path(path)
    if not place.exists():
        return None
    text = read_file(place)[: 2 * _WIDTH].strip(b" \n\0").decode("ascii", "replace")
    if not text:  # a power cut came before the first write
        return None
    try:
        return Anchor.read(text)
    except ParameterError:
        raise FileError.at(
            place,
            f"is damaged: nobody can tell whether the last lines of {path.name} are missing; restore it from a"
            " backup, or, beside an audit log, look at the log with its seals and anchors, then remove this file",
        ) from None


def write_head(path: Path, last: Anchor) -> None:
    """Overwrite the head with the last record on the disk. The caller holds the file's lock."""
    file = os.open(head_path(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        os.pwrite(file, f"{last!s:<{_WIDTH}}\n".encode(), 0)
    finally:
        os.close(file)


# --- tail ---------------------------------------------------------------------------------------------------
# The end of a chained file, read backwards.

_BLOCK = 64 * 1024


def last_lines(file: int, size: int, count: int = 1) -> tuple[list[bytes], bytes]:
    """Return the last complete lines, at most `count`, and the bytes after them; `size` is the file's."""
    tail, at = b"", size
    while at > 0 and tail.count(b"\n") <= count:
        if len(tail) > (count + 1) * MOST_LINE:
            raise LineError("the last line is endless")
        step = min(at, max(_BLOCK, len(tail)))
        at -= step
        tail = os.pread(file, step, at) + tail
    *lines, torn = tail.split(b"\n")
    return lines[-count:], torn


def last_records(path: Path, limit: int = 100) -> list[dict[str, Any]]:
    """Return the last records for display, newest last. They are not verified; `audit verify` does that."""
    if not 1 <= limit <= 1000:
        raise ParameterError(f"limit: must be from 1 to 1000; got {limit}")
    if not path.exists():
        return []
    with path.open("rb") as file:
        try:
            lines, _ = last_lines(file.fileno(), os.fstat(file.fileno()).st_size, limit)
        except LineError as error:
            raise FileError.at(path, f"{error}; see `audit verify`") from None
    return [record for line in lines if (record := _record(line)) is not None]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


# --- chained file -------------------------------------------------------------------------------------------

RECOVERED = "recovered"

Event = tuple[str, Mapping[str, Any]]


class ChainedFile:
    """Appends to the file at `path`, which is created if missing (mode 0600).

    `kind` names the file in errors. `durable` waits until each line is on the disk; without it a line survives a crash
    of this process but not of the machine, and the file has no head.
    """

    def __init__(self, path: Path, kind: str, *, durable: bool = True) -> None:
        self.path = path
        self._kind, self._durable = kind, durable
        self._size, self._last = 0, NOTHING
        self._mutex = threading.Lock()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            with self._locked():
                self._open()
        except BaseException:
            self.close()
            raise

    def anchor(self) -> Anchor:
        """Return the last record's anchor, including records by other processes."""
        with self._locked():
            self._catch_up()
            return self._last

    def add(self, *events: Event) -> Anchor:
        """Write these events, one record each; return the anchor of the last one."""
        with self._locked():
            self._catch_up()
            return self._write(*events)

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with self._mutex:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- for subclasses to override ---

    def _open(self) -> None:
        """Check the file, under the lock, before anything is appended."""

    def _first_events(self) -> tuple[Event, ...]:
        """Return the events that begin a new file."""
        return ()

    def _line(self, event: Event, after: Anchor, time: str) -> tuple[bytes, Anchor]:
        """Encode the lines of one event; return them and the anchor of the last one."""
        return write_line(*event, after, time)

    # --- under the lock ---

    def _catch_up(self) -> None:
        """Find the last record by any process, and recover from a torn line after it."""
        found = os.fstat(self._file)
        if found.st_nlink == 0:
            raise FileError.at(self.path, f"the {self._kind} was removed while it is in use")
        if found.st_size == self._size:
            return
        if found.st_size < self._size:
            raise FileError.at(self.path, f"the {self._kind} was cut while it is in use; see `audit verify`")
        last, torn = self._tail(found.st_size)
        if last is not None:
            self._last = last
        self._size = found.st_size - len(torn)
        if torn:
            self._recover(torn)

    def _tail(self, size: int) -> tuple[Anchor | None, bytes]:
        """Return the last complete line's anchor, if there is one, and the bytes after it."""
        try:
            lines, torn = last_lines(self._file, size)
        except LineError as error:
            raise FileError.at(self.path, f"{error}; see `audit verify`") from None
        return (self._sound(lines[0], "last").anchor if lines else None), torn

    def _sound(self, line: bytes, which: str) -> Record:
        try:
            return read_line(line)
        except LineError as error:
            raise FileError.at(
                self.path,
                f"the {which} line is damaged ({error}); nothing is added to such a log: move it away,"
                " keep it for inquiry, and begin a new one with `masquerade audit forget`",
            ) from None

    def _recover(self, torn: bytes) -> None:
        """Move a torn line to a separate file and put a record in its place.

        The record overwrites it in a single write, so that a crash leaves one or the other, never neither.
        """
        aside = self.path.with_name(self.path.name + ".torn")
        file = os.open(aside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            _write_all(file, torn + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        fields = {"bytes": len(torn), "digest": hashlib.sha256(torn).hexdigest(), "file": aside.name}
        first = self._first_events() if self._last == NOTHING else ()
        data, last = self._lines(*first, (RECOVERED, fields))
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~os.O_APPEND)
        try:
            os.lseek(self._file, self._size, os.SEEK_SET)
            _write_all(self._file, data)
            os.ftruncate(self._file, self._size + len(data))
            os.fsync(self._file)
        finally:
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags)
        self._size, self._last = self._size + len(data), last
        self._note_head()

    def _write(self, *events: Event) -> Anchor:
        data, last = self._lines(*events)
        is_new = self._size == 0
        if is_new and self._durable:  # an empty head comes first, so that lines without a head mean that it was lost
            head_path(self.path).touch(PRIVATE)
        _write_all(self._file, data)
        self._size, self._last = self._size + len(data), last
        if self._durable:
            os.fsync(self._file)
        if is_new:
            sync_folder(self.path.parent)
        self._note_head()
        return last

    def _note_head(self) -> None:
        if self._durable:  # otherwise the head could reach the disk before its record
            write_head(self.path, self._last)

    def _lines(self, *events: Event) -> tuple[bytes, Anchor]:
        lines: list[bytes] = []
        last, time = self._last, now()
        for event in events:
            line, last = self._line(event, last, time)
            lines.append(line)
        return b"".join(lines), last

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex:  # the file lock excludes other processes, not our own threads
            if self._file < 0:
                raise FileError.at(self.path, f"the {self._kind} is closed")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)
                try:
                    yield
                finally:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
            except OSError as error:
                raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> FileError:
        return FileError.at(self.path, f"the {self._kind} cannot be written: {error.strerror}")


@contextmanager
def reading(path: Path) -> Iterator[tuple[Iterator[bytes], Anchor | None]]:
    """Yield a chained file's lines, with their newlines, and its head, as of a moment when nobody is writing.

    A missing file that has a head yields no lines.
    """
    if not path.exists() and (head := read_head(path)) is not None:  # removed: treated as emptied
        yield iter(()), head
        return
    try:
        with path.open("rb") as file:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_SH)
            head = read_head(path)  # before the size: a line is written before its head
            size = os.fstat(file.fileno()).st_size
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
            yield _lines(file, size), head
    except OSError as error:
        raise FileError.at(path, f"cannot be read: {error.strerror}") from None


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield lines of at most MOST_LINE bytes, longer ones in pieces."""
    while size > 0 and (line := file.readline(min(size, MOST_LINE))):
        size -= len(line)
        yield line


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
