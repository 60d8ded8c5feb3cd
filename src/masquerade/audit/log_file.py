"""The file of an audit log: a chained file with a genesis record and seals, checked against its head when opened.

A log that ends before its head is continued only on explicit request, which a `cut` record then documents.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from masquerade.audit.chain import MOST_LINE, NOTHING, Anchor, LineError, missing_records, write_line
from masquerade.audit.chained_file import RECOVERED, ChainedFile, Event
from masquerade.audit.genesis import GENESIS, genesis, looks_like_log, read_genesis
from masquerade.audit.head import read_head
from masquerade.audit.seals import SEAL, is_seal_due, write_seal
from masquerade.errors import Conflict
from masquerade.files import FileError
from masquerade.net.identity import Identity

OPENED, CUT = "opened", "cut"
OWN_EVENTS = (GENESIS, SEAL, OPENED, RECOVERED, CUT)  # written by the file itself

_BLOCK = 64 * 1024


class AuditFile(ChainedFile):
    """Appends to the log at `path`, which is created if missing.

    `seal_every` applies to a new log; an existing one keeps its own. `forget` continues a log whose end is missing, and
    holds the fields of the `cut` record that say who decided so; Conflict when nothing is missing.
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
        self._identity, self._seal_every, self._forget = identity, seal_every, forget
        super().__init__(path, "audit log", durable=durable)

    def append(self, *events: Event, seal: bool = False) -> Anchor:
        """Write these events, followed by a seal if `seal` is set and the log has seals."""
        return super().append(*events, *(self._seals() if seal else ()))

    def _open(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise FileError.at(self.path, "not a file, which an audit log is")
        has_begun = self._read_genesis()
        cut = self._cut_events()
        self._catch_up()
        if has_begun:
            self._write((OPENED, {"certificate": self._identity.fingerprint}), *cut)
        elif first := (*(self._first_events() if self._last == NOTHING else ()), *cut):
            self._write(*first)

    def _first_events(self) -> tuple[Event, ...]:
        return genesis(self._identity, self._seal_every), *self._seals()

    def _line(self, event: Event, after: Anchor, time: str) -> tuple[bytes, Anchor]:
        """Encode an event's line, preceded by any seals that are due."""
        if event[0] == SEAL:
            return write_seal(self._identity, after, time)
        lines = b""
        while is_seal_due(after.number + 1, self._seal_every):
            line, after = write_seal(self._identity, after, time)
            lines += line
        line, after = write_line(*event, after, time)
        return lines + line, after

    def _seals(self) -> tuple[Event, ...]:
        return ((SEAL, {}),) if self._seal_every is not None else ()

    def _read_genesis(self) -> bool:
        """Adopt the settings in the first line; return whether there is a complete one."""
        start = b""
        while (
            b"\n" not in start
            and len(start) < MOST_LINE
            and (more := os.pread(self._file, _BLOCK, len(start)))
        ):
            start += more
        line, end, _ = start.partition(b"\n")
        if start and not looks_like_log(line):
            raise FileError.at(self.path, "not an audit log, and nothing is written to it")
        if not end:  # new, or killed in its first line
            return False
        record = self._sound(line, "first")
        try:
            party, self._seal_every = read_genesis(record)
        except LineError as error:
            raise FileError.at(self.path, f"line 1 is {error}") from None
        if party != self._identity.name:
            raise FileError.at(self.path, f"the audit log of party {party}, not of {self._identity.name}")
        return True

    def _cut_events(self) -> tuple[Event, ...]:
        """Check that the log still ends where its head says; return the event to record if it was cut short."""
        head = read_head(self.path)
        last = self._tail(os.fstat(self._file).st_size)[0] or NOTHING
        missing = missing_records(head, last) if head is not None else None
        is_gone = head is None and last == NOTHING  # or it is new: only the caller knows
        if self._forget is None:
            if missing is None:
                return ()
            raise FileError.at(
                self.path,
                f"the audit log is not whole: {missing}; restore it from a backup, or go on without it on"
                f" purpose with `masquerade audit forget {self.path} --identity FOLDER`",
            )
        if missing is None and not is_gone:
            raise Conflict(
                f"{self.path}: nothing is missing from the audit log; nothing needs to be forgotten"
            )
        known = head or NOTHING
        return ((CUT, {**self._forget, "found": last.number, "hash": known.hash, "record": known.number}),)
