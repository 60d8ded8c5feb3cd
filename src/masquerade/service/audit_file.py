"""The file of an audit log: lines that follow each other, written one after the other whoever writes.

Several threads and processes may append to one file: each holds a lock while it does, and first catches up with what
the others wrote. The rest of a line that a crash cut short goes to `<path>.torn`, a line each; a `recovered` record
tells of it. How far the log goes stands beside it (audit_head.py): one that ends earlier is not gone on with before
somebody says so, and a `cut` record then tells of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from masquerade.errors import Conflict, ParameterError
from masquerade.files import sync_folder
from masquerade.net.identity import Identity
from masquerade.service.audit_head import read_head, told_missing, write_head
from masquerade.service.audit_line import (
    FORMAT,
    GENESIS,
    MOST_LINE,
    NOTHING,
    SEAL,
    Anchor,
    LineError,
    Record,
    Signer,
    is_seal_due,
    looks_like_log,
    now,
    read_line,
    write_line,
)

OPENED, RECOVERED, CUT = "opened", "recovered", "cut"
OWN_EVENTS = (GENESIS, SEAL, OPENED, RECOVERED, CUT)  # that the file writes by itself

_BLOCK = 64 * 1024

Event = tuple[str, Mapping[str, Any]]


class AuditFile:
    """Appends to the file at `path`, which is made when missing (mode 0600).

    `durable` waits until each line is on the disk. `seal_every` counts for a new file; an old one keeps its own.
    `forget` goes on with a log whose end is missing, because of what the mapping tells (who says so); Conflict when
    nothing is.
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        durable: bool,
        seal_every: int | None,
        forget: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._forget = forget
        self._identity, self._durable, self._seal_every = identity, durable, seal_every
        self._signer = Signer(identity)
        self._size, self._last = 0, NOTHING
        self._mutex = threading.Lock()
        with self._told():
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)
        try:
            with self._told(), self._locked():
                self._open()
        except BaseException:
            self.close()
            raise

    def last(self) -> Anchor:
        """The last record."""
        with self._told(), self._locked():
            self._catch_up()
            return self._last

    def append(self, *events: Event, seal: bool = False) -> Anchor:
        """These events, with `seal` a seal behind them where the log has seals; the anchor of the last record."""
        with self._told(), self._locked():
            self._catch_up()
            return self._write(*events, *(self._seals() if seal else ()))

    def close(self) -> None:
        """Let go of the file."""
        with self._mutex:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    # --- under the lock ---

    def _open(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise ParameterError(f"{self.path}: not a file, which an audit log is")
        first = self._first_line()
        cut = self._held_against_head()
        if first is None:  # new, or killed in its first line
            self._catch_up()
            beginning = (self._genesis(), *self._seals()) if self._last == NOTHING else ()
            if beginning or cut:
                self._write(*beginning, *cut)
                sync_folder(self.path.parent)
            return
        fields = first.fields
        if fields["party"] != self._identity.name:
            raise ParameterError(
                f"{self.path}: the audit log of party {fields['party']}, not of {self._identity.name}"
            )
        self._seal_every = fields["seal_every"]
        self._catch_up()
        self._write((OPENED, {"certificate": self._identity.fingerprint}), *cut)

    def _held_against_head(self) -> tuple[Event, ...]:
        """That the log goes as far as it went; otherwise what is to be written of it, or ParameterError."""
        head = read_head(self.path)
        line, _ = self._tail(os.fstat(self._file).st_size)
        last = self._sound(line, "last").anchor if line is not None else NOTHING
        missing = told_missing(head, last) if head is not None else None
        gone = head is None and last == NOTHING  # or it is new: only who says that it is lost knows
        if self._forget is not None and (missing is not None or gone):
            known = head or NOTHING
            return (
                (CUT, {**self._forget, "found": last.number, "hash": known.hash, "record": known.number}),
            )
        if missing is None:
            if self._forget is not None:
                raise Conflict(
                    f"{self.path}: nothing is missing from the audit log; nothing needs to be forgotten"
                )
            return ()
        raise ParameterError(
            f"{self.path}: the audit log is not whole: {missing}; restore it from a backup, or go on without it on"
            f" purpose with `masquerade audit forget {self.path} --identity FOLDER`"
        )

    def _seals(self) -> tuple[Event, ...]:
        return ((SEAL, {}),) if self._seal_every is not None else ()

    def _genesis(self) -> Event:
        who = self._identity
        fields = {
            "certificate": who.fingerprint,
            "format": FORMAT,
            "log": secrets.token_hex(16),
            "party": who.name,
            "seal_every": self._seal_every,
        }
        return GENESIS, fields

    def _first_line(self) -> Record | None:
        """The genesis record, or None when there is none yet."""
        start = b""
        while b"\n" not in start and len(start) < MOST_LINE:
            block = os.pread(self._file, _BLOCK, len(start))
            if not block:
                break
            start += block
        if not start:
            return None
        line, end, _ = start.partition(b"\n")
        if not looks_like_log(line):
            raise ParameterError(f"{self.path}: not an audit log, and nothing is written to it")
        if not end:
            return None
        record = self._sound(line, "first")
        if record.event != GENESIS or record.fields.get("format") != FORMAT:
            raise ParameterError(f"{self.path}: line 1 is not the beginning of an audit log of this version")
        return record

    def _catch_up(self) -> None:
        """Know the last record, whoever wrote it, and set aside what a crash left behind it."""
        found = os.fstat(self._file)
        if found.st_nlink == 0:
            raise ParameterError(f"{self.path}: the audit log was removed while it is in use")
        if found.st_size == self._size:
            return
        if found.st_size < self._size:
            raise ParameterError(f"{self.path}: the audit log was cut while it is in use; see `audit verify`")
        line, torn = self._tail(found.st_size)
        if line is not None:
            self._last = self._sound(line, "last").anchor
        self._size = found.st_size - len(torn)
        if torn:
            self._recover(torn)

    def _tail(self, size: int) -> tuple[bytes | None, bytes]:
        """The last whole line, and what comes behind its end."""
        tail, at = b"", size
        while at > 0 and tail.count(b"\n") < 2:
            if len(tail) > 2 * MOST_LINE:
                raise ParameterError(f"{self.path}: the last line is endless; see `audit verify`")
            step = min(at, max(_BLOCK, len(tail)))
            at -= step
            tail = os.pread(self._file, step, at) + tail
        before, end, torn = tail.rpartition(b"\n")
        return (before.rpartition(b"\n")[2] if end else None), torn

    def _sound(self, line: bytes, which: str) -> Record:
        try:
            return read_line(line)
        except LineError as error:
            raise ParameterError(
                f"{self.path}: the {which} line is damaged ({error}); nothing is added to such a log: move it away,"
                " keep it for inquiry, and begin a new one with `masquerade audit forget`"
            ) from None

    def _recover(self, torn: bytes) -> None:
        """Put a record in the place of a torn line, and the torn line into a file of its own.

        In one write, so that a crash in between leaves the one or the other to be found: never neither.
        """
        aside = self.path.with_name(self.path.name + ".torn")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(aside, flags, 0o600)
        try:
            _write_all(file, torn + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        told = {"bytes": len(torn), "digest": hashlib.sha256(torn).hexdigest(), "file": aside.name}
        events = [self._genesis()] if self._last == NOTHING else []
        data, last = self._lines(*events, (RECOVERED, told))
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
        _write_all(self._file, data)
        self._size, self._last = self._size + len(data), last
        if self._durable:
            os.fsync(self._file)
        self._note_head()
        return last

    def _note_head(self) -> None:
        if self._durable:  # otherwise it could be on the disk before what it speaks of
            write_head(self.path, self._last)

    def _lines(self, *events: Event) -> tuple[bytes, Anchor]:
        """The lines of these events, and the seals that are due among them."""
        lines: list[bytes] = []
        last, time = self._last, now()

        def add(made: tuple[bytes, Anchor]) -> None:
            nonlocal last
            lines.append(made[0])
            last = made[1]

        for event, fields in events:
            if event == SEAL:
                add(self._signer.seal(last, time))
                continue
            while is_seal_due(last.number + 1, self._seal_every):
                add(self._signer.seal(last, time))
            add(write_line(event, fields, last, time))
        return b"".join(lines), last

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex:  # the file's lock keeps out other processes, not our own threads
            if self._file < 0:
                raise ParameterError(f"{self.path}: the audit log is closed")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ParameterError(f"{self.path}: the audit log cannot be written: {error.strerror}") from None


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
