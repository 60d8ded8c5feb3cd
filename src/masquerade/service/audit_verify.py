"""Proves that an audit log is whole, or names the first line that is not as it was written, and what is wrong with it.

The log is read once, line by line, so that its length does not matter. A log that is in use can be verified: it is
taken as it is at the start. Where its head (audit_head.py) is beside it, the log must go as far. Whoever can write the
folder can also cut off its end, or write another log that is whole in itself: against that, give anchors that were kept
elsewhere, or the party's certificates, with which the log is sealed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from masquerade.errors import AnswerIsNo, DataError, ParameterError, shown
from masquerade.net.identity import fingerprint, party_of
from masquerade.service.audit import SESSION_END, SESSION_START
from masquerade.service.audit_head import read_head, told_missing
from masquerade.service.audit_line import (
    FORMAT,
    GENESIS,
    MOST_LINE,
    NOTHING,
    SEAL,
    Anchor,
    LineError,
    Record,
    SealReader,
    is_seal_due,
    looks_like_log,
    read_line,
)


@dataclass(frozen=True)
class Verification:
    """What is known of a log. When a line is bad, everything else tells of the lines before it.

    `sealed_up_to` is the last record that a seal covers whose signature was checked; None without certificates.
    `seals` counts them all, checked or not. `unfinished` sessions were started, and have not ended yet or never did.
    """

    path: Path
    records: int
    first_bad: int | None
    problem: str | None
    party: str | None
    sealed_up_to: int | None
    seals: int
    sessions: int
    unfinished: int
    last: Anchor

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return self.first_bad is None

    def insist(self) -> None:
        """AnswerIsNo, naming the first bad line, when the log is not whole."""
        if not self.whole:
            raise AnswerIsNo(f"{self.path}: line {self.first_bad}: {self.problem}")


def verify(path: Path, anchors: Sequence[Anchor] = (), certificates: Sequence[bytes] = ()) -> Verification:
    """Check every line of a log, that it holds the anchored records, and its seals against certificates (PEM).

    A party has several certificates when it renewed its own: give all that it sealed this log with. DataError when
    the file is not an audit log at all.
    """
    for anchor in anchors:
        if anchor.number < 1:
            raise ParameterError(f"anchor {anchor}: records are numbered from 1")
    first_bad = problem = None
    with _opened(path) as (file, size, head):
        check = _Check(anchors, certificates, head)
        try:
            for line in _lines(file, size, path):
                check.take(line)
            check.end()
        except LineError as error:
            first_bad, problem = check.last.number + 1, str(error)
    return Verification(
        path=path,
        records=check.last.number,
        first_bad=first_bad,
        problem=problem,
        party=check.party,
        sealed_up_to=check.sealed_up_to,
        seals=check.seals,
        sessions=check.started,
        unfinished=max(0, check.started - check.ended),
        last=check.last,
    )


class _Check:
    """Takes one line after the other; what is wrong is wrong with the line after `last`."""

    def __init__(self, anchors: Sequence[Anchor], certificates: Sequence[bytes], head: Anchor | None) -> None:
        self.last = NOTHING
        self._head = head
        self.party: str | None = None
        self.seals = self.started = self.ended = 0
        self.sealed_up_to: int | None = None
        self._anchors: dict[int, set[str]] = {}
        for number, digest in anchors:
            self._anchors.setdefault(number, set()).add(digest)
        self._owners = {party_of(pem, "the certificate") for pem in certificates}
        self._reader = SealReader({fingerprint(pem): pem for pem in certificates}) if certificates else None
        self._seal_every: int | None = None

    def take(self, raw: bytes) -> None:
        """The next line; LineError when it is bad."""
        record = read_line(raw)
        number, last = record.number, self.last
        if number != last.number + 1:
            raise LineError(
                f"number out of order: {number}, where {last.number + 1} belongs; {_why(number, last)}"
            )
        if record.previous != last.hash:
            raise LineError("broken chain: this line was written after another one than the line before it")
        if number in self._anchors and self._anchors[number] != {record.hash}:
            raise LineError(f"not the record that was anchored: its hash is {record.hash}")
        if self._head is not None and number == self._head.number and record.hash != self._head.hash:
            raise LineError(
                f"not the record that was written here, by the log's head: its hash is {record.hash}"
            )
        if number == 1:
            self._begin(record)
        sealed = self._take_event(record)
        if self._reader is not None and not sealed and is_seal_due(number, self._seal_every):
            raise LineError("bad seal: a seal belongs here, and there is none")
        self.last = record.anchor

    def _begin(self, record: Record) -> None:
        fields = record.fields
        texts = [fields.get(key) for key in ("party", "log", "certificate")]
        every = fields.get("seal_every")
        if record.event != GENESIS or not all(isinstance(text, str) for text in texts):
            raise LineError("not the beginning of an audit log")
        if fields.get("format") != FORMAT or not (every is None or (type(every) is int and every >= 2)):
            raise LineError(f"not the beginning of an audit log of this version, {FORMAT}")
        self.party, self._seal_every = fields["party"], every
        if self._reader is None:
            return
        if self._owners != {self.party}:
            given = ", ".join(sorted(self._owners))
            raise LineError(f"the log is of party {shown(fields['party'])}, and the certificate of {given}")
        if every is None:
            raise LineError("the log is one without seals: no certificate can prove it")

    def _take_event(self, record: Record) -> bool:
        """Count; whether the record is a seal."""
        event = record.event
        if event == SEAL:
            if self._reader is not None:
                self._reader.check(record)
                self.sealed_up_to = record.number
            self.seals += 1
            return True
        if event == SESSION_START:
            self.started += 1
        elif event == SESSION_END:
            self.ended += 1
        elif event == GENESIS and record.number > 1:
            raise LineError("a second beginning")
        return False

    def end(self) -> None:
        """No more lines; LineError when there should be."""
        if self._head is not None and (told := told_missing(self._head, self.last)) is not None:
            raise LineError(f"missing: {told}")
        missing = max(self._anchors, default=0)
        if missing > self.last.number:
            raise LineError(
                f"missing: the log ends before it, but record {missing} was anchored; its end was cut off"
            )
        if self.last == NOTHING:
            raise LineError("missing: the log is empty, and every log has a beginning")
        if self._reader is not None and self.sealed_up_to is None:
            raise LineError("missing: the log ends before its first seal")


def _why(number: int, last: Anchor) -> str:
    return "lines are missing" if number > last.number + 1 else "it was there before"


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int, Anchor | None]]:
    """The file, its size and its head at a moment when nobody is in the middle of writing."""
    if not path.exists() and (head := read_head(path)) is not None:  # removed: as bad as emptied
        yield BytesIO(), 0, head
        return
    try:
        with path.open("rb") as file:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_SH)
            head = read_head(path)  # before the size: a line is written before its head
            size = os.fstat(file.fileno()).st_size
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
            yield file, size, head
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror}") from None


def _lines(file: BinaryIO, size: int, path: Path) -> Iterator[bytes]:
    """The lines without their ends."""
    first = size > 0
    while size > 0:
        line = file.readline(min(size, MOST_LINE))
        size -= len(line)
        if first and not looks_like_log(line.rstrip(b"\n")):
            break
        first = False
        if not line.endswith(b"\n"):
            if len(line) == MOST_LINE:
                raise LineError(f"longer than any line of an audit log, which has at most {MOST_LINE} bytes")
            raise LineError(f"torn end: it was cut short after {len(line)} bytes, in a crash or by somebody")
        yield line[:-1]
    if first:
        raise DataError(f"{path}: not an audit log")
