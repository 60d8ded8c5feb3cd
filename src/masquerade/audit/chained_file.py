"""Files of chained lines (chain.py), each with a head file (head.py): appending, recovering, reading.

Several threads and processes may append to one file: each takes a lock and first catches up with the others' lines. A
line that a crash cut short is moved to `<path>.torn`, one line each, and replaced by a `recovered` record.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from masquerade.audit.chain import MOST_LINE, NOTHING, Anchor, LineError, Record, now, read_line, write_line
from masquerade.audit.head import begin_head, read_head, write_head
from masquerade.audit.tail import last_lines
from masquerade.files import PRIVATE, FileError, sync_folder

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

    def last(self) -> Anchor:
        """Return the last record's anchor, including records by other processes."""
        with self._locked():
            self._catch_up()
            return self._last

    def append(self, *events: Event) -> Anchor:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        if is_new and self._durable:
            begin_head(self.path)
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
