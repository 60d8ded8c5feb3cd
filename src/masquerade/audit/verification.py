"""Verify an audit log: prove that it is intact, or name the first line that is not as it was written, and why.

The log is read once, line by line, so memory does not depend on its length. A log in use can be verified, in its state
at the start. If it has a head (chained_file.py), the log must reach it. Anyone with write access to the folder can
still cut off its end, or write another consistent log: to detect that, give anchors kept elsewhere, or the
certificates with which the party sealed the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade.audit.chained_file import (
    MOST_LINE,
    NOTHING,
    Anchor,
    ChainCheck,
    LineError,
    MissingLine,
    Record,
    read_line,
    reading,
)
from masquerade.audit.log import (
    GENESIS,
    SEAL,
    SESSION_END,
    SESSION_START,
    SealCheck,
    is_seal_due,
    looks_like_log,
    read_genesis,
)
from masquerade.errors import AnswerIsNo, DataError, ParameterError, shown
from masquerade.net import fingerprint, party_of


@dataclass(frozen=True)
class LogVerification:
    """The result of verifying a log. When a line is bad, everything else is about the lines before it.

    `sealed_up_to` is the last record that a seal covers whose signature was checked; None without certificates.
    `seals` counts all seals, checked or not. `unfinished` sessions were started but have no end in the log.
    """

    path: Path
    records: int
    first_bad: int | None
    problem: str | None
    is_missing: bool  # the bad line does not exist
    party: str | None
    sealed_up_to: int | None
    seals: int
    sessions: int
    unfinished: int
    last: Anchor

    @property
    def whole(self) -> bool:
        """Whether every check passed."""
        return self.first_bad is None

    def insist(self) -> None:
        """Raise AnswerIsNo, naming the first bad line, when the log is not whole."""
        if not self.whole:
            raise AnswerIsNo(f"{self.path}: line {self.first_bad}: {self.problem}")


def verify(path: Path, anchors: Sequence[Anchor] = (), certificates: Sequence[bytes] = ()) -> LogVerification:
    """Check every line of a log, the presence of the anchored records, and its seals against certificates (PEM).

    A party that renewed its certificate has several: give all that it sealed this log with. DataError when the file is
    not an audit log at all.
    """
    for anchor in anchors:
        if anchor.number < 1:
            raise ParameterError(f"anchor {anchor}: records are numbered from 1")
    first_bad = problem = None
    is_missing = False
    with reading(path) as (lines, head):
        check = _LogCheck(anchors, certificates, head)
        try:
            for line in _whole_lines(lines, path):
                check.take(read_line(line))
            check.end()
        except LineError as error:
            first_bad, problem = check.last.number + 1, str(error)
            is_missing = isinstance(error, MissingLine)
    return LogVerification(
        path=path,
        records=check.last.number,
        first_bad=first_bad,
        problem=problem,
        is_missing=is_missing,
        party=check.party,
        sealed_up_to=check.sealed_up_to,
        seals=check.seals,
        sessions=check.started,
        unfinished=max(0, check.started - check.ended),
        last=check.last,
    )


class _LogCheck(ChainCheck):
    """Checks the records of an audit log in order, and counts seals and sessions."""

    def __init__(self, anchors: Sequence[Anchor], certificates: Sequence[bytes], head: Anchor | None) -> None:
        super().__init__(head)
        self.party: str | None = None
        self.seals = self.started = self.ended = 0
        self.sealed_up_to: int | None = None
        self._anchors: dict[int, set[str]] = {}
        for number, digest in anchors:
            self._anchors.setdefault(number, set()).add(digest)
        self._owners = {party_of(pem, "the certificate") for pem in certificates}
        self._sealed = SealCheck({fingerprint(pem): pem for pem in certificates}) if certificates else None
        self._seal_every: int | None = None

    def _take(self, record: Record) -> None:
        number = record.number
        if number in self._anchors and self._anchors[number] != {record.hash}:
            raise LineError(f"not the record that was anchored: its hash is {record.hash}")
        if number == 1:
            self._begin(record)
        if record.event == SEAL:
            if self._sealed is not None:
                self._sealed.check(record)
                self.sealed_up_to = number
            self.seals += 1
        elif self._sealed is not None and is_seal_due(number, self._seal_every):
            raise LineError("bad seal: a seal belongs here, and there is none")
        elif record.event == GENESIS and number > 1:
            raise LineError("a second beginning")
        self.started += record.event == SESSION_START
        self.ended += record.event == SESSION_END

    def _begin(self, record: Record) -> None:
        self.party, self._seal_every = read_genesis(record)
        if self._sealed is None:
            return
        if self._owners != {self.party}:
            given = ", ".join(sorted(self._owners))
            raise LineError(f"the log is of party {shown(self.party)}, and the certificate of {given}")
        if self._seal_every is None:
            raise LineError("the log is one without seals: no certificate can prove it")

    def end(self) -> None:
        """Check that nothing is missing at the end; LineError when something is."""
        super().end()
        missing = max(self._anchors, default=0)
        if missing > self.last.number:
            raise MissingLine(f"the log ends before it, but record {missing} was anchored; its end was cut off")
        if self.last == NOTHING:
            raise MissingLine("the log is empty, and every log has a beginning")
        if self._sealed is not None and self.sealed_up_to is None:
            raise MissingLine("the log ends before its first seal")


def _whole_lines(lines: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines without their newlines; LineError when the last one has none."""
    for at, line in enumerate(lines):
        if at == 0 and not looks_like_log(line.rstrip(b"\n")):
            raise DataError.about(path, "not an audit log")
        if not line.endswith(b"\n"):
            if len(line) == MOST_LINE:
                raise LineError(f"longer than any line of an audit log, which has at most {MOST_LINE} bytes")
            raise LineError(f"torn end: it was cut short after {len(line)} bytes, in a crash or by somebody")
        yield line[:-1]
