"""The audit log of a party: append-only, hash-chained, at the party itself.

    with AuditLog(path, identity) as log:
        log.contract(contract.canonical())
        with log.session(contract.hash.hex(), peers) as transcript:
            run(script, …, transcript=transcript)

It holds contracts, refusals, sessions with how they ended, and of every message its kind, size and digest, never its
content. What is in the log was written before it happened: a message is entered before it leaves, and when the log
cannot be written the session ends.

The chain shows that no line was changed. Two things show that the end was not cut off or the whole rewritten:
anchors that others keep, and seals, which are lines signed with the party's key. Line 2, every line whose number is a
multiple of `seal_every`, and the line after each session's end are seals.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade.errors import ParameterError
from masquerade.net.farewell import farewell
from masquerade.net.identity import Identity
from masquerade.net.transcript import Entry, Transcript
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

OPENED, RECOVERED = "opened", "recovered"
CONTRACT, REFUSAL, MESSAGE = "contract", "refusal", "message"
SESSION_START, SESSION_END = "session start", "session end"
SEAL_EVERY = 1000

_OWN_EVENTS = (GENESIS, SEAL, OPENED, RECOVERED)
_BLOCK = 64 * 1024

_Event = tuple[str, Mapping[str, Any]]


class AuditLog:
    """Appends to the log at `path`, which is made when missing (mode 0600).

    Several threads and processes may append to one log: each holds a lock while it does. `durable` waits until each
    line is on the disk; without it a line survives this process, but not the machine. `seal_every` counts for a new
    log, at least 2, or None for no seals at all; an old log keeps its own.

    The rest of a line that a crash cut short goes to `<path>.torn`, a line each; a `recovered` record tells of it.
    """

    def __init__(
        self, path: Path, identity: Identity, *, durable: bool = True, seal_every: int | None = SEAL_EVERY
    ) -> None:
        if seal_every is not None and seal_every < 2:
            raise ParameterError(f"an audit log is sealed every 2 records or more, not every {seal_every}")
        self.path = path
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

    def anchor(self) -> Anchor:
        """The last record's number and hash, to be kept by others."""
        with self._told(), self._locked():
            self._catch_up()
            return self._last

    def append(self, event: str, fields: Mapping[str, Any]) -> Anchor:
        """Any other event, with fields as JSON has them; the new record's anchor."""
        if event in _OWN_EVENTS:
            raise ParameterError(f"audit log: the event {event} is the log's own")
        return self._append((event, fields))

    def contract(self, canonical: bytes) -> Anchor:
        """A contract that this party signs, in its canonical form."""
        try:
            text = canonical.decode()
        except UnicodeDecodeError:
            raise ParameterError("audit log: the contract is not JSON in UTF-8") from None
        digest = hashlib.sha256(canonical).hexdigest()
        return self._append((CONTRACT, {"contract": text, "contract_hash": digest}))

    def refusal(self, asker: str, reasons: Sequence[str], session: str | None = None) -> Anchor:
        """A request that this party refuses, with all reasons."""
        return self._append((REFUSAL, {"asker": asker, "reasons": list(reasons), "session": session}))

    def message(self, session: str, entry: Entry) -> Anchor:
        """A message of a session: an entry of its transcript."""
        fields = {
            "digest": entry.digest,
            "direction": entry.direction,
            "kind": entry.kind,
            "message": entry.number,
            "peer": entry.peer,
            "session": session,
            "size": entry.size,
        }
        return self._append((MESSAGE, fields))

    def seal(self) -> Anchor:
        """Sign all that is there; nothing in a log without seals."""
        return self._append(*self._seals())

    @contextmanager
    def session(
        self, session: str, peers: Sequence[str], transcript: Path | None = None
    ) -> Iterator[Transcript]:
        """A session from its start to its end: everything entered in the transcript goes into the log at once.

        The end's cause is the one that the peers hear: a kind, and the party at fault; never an error's text.
        """
        with Transcript(transcript, on_entry=lambda entry: self.message(session, entry)) as entered:
            self._append((SESSION_START, {"peers": list(peers), "session": session}))
            error: BaseException | None = None
            try:
                yield entered
            except BaseException as raised:
                error = raised
                raise
            finally:
                bye = farewell(error)
                end = {
                    "cause": bye.cause.value,
                    "culprit": bye.culprit or None,
                    "messages": len(entered.entries),
                    "session": session,
                }
                self._append((SESSION_END, end), *self._seals())

    def close(self) -> None:
        """Let go of the file."""
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

    # ---- under the lock ------------------------------------------------------------------------------------------

    def _append(self, *events: _Event) -> Anchor:
        with self._told(), self._locked():
            self._catch_up()
            return self._write(*events)

    def _open(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise ParameterError(f"{self.path}: not a file, which an audit log is")
        first = self._first_line()
        if first is None:  # new, or killed in its first line
            self._catch_up()
            if self._last == NOTHING:
                self._write(self._genesis(), *self._seals())
                self._keep_name()
            return
        fields = first.fields
        if fields["party"] != self._identity.name:
            raise ParameterError(
                f"{self.path}: the audit log of party {fields['party']}, not of {self._identity.name}"
            )
        self._seal_every = fields["seal_every"]
        self._catch_up()
        self._write((OPENED, {"certificate": self._identity.fingerprint}))

    def _seals(self) -> tuple[_Event, ...]:
        return ((SEAL, {}),) if self._seal_every is not None else ()

    def _genesis(self) -> _Event:
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
                f"{self.path}: the {which} line is damaged ({error}); nothing is added to such a log:"
                " keep it for inquiry, and begin a new one"
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

    def _write(self, *events: _Event) -> Anchor:
        data, last = self._lines(*events)
        _write_all(self._file, data)
        self._size, self._last = self._size + len(data), last
        if self._durable:
            os.fsync(self._file)
        return last

    def _lines(self, *events: _Event) -> tuple[bytes, Anchor]:
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

    def _keep_name(self) -> None:
        """The new file's name is on the disk, too."""
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

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
