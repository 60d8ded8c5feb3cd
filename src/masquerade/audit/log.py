"""The audit log of a party or coordinator: append-only, hash-chained, kept locally.

    with AuditLog(path, identity) as log:
        log.contract(contract.canonical())
        with log.session(contract.hash.hex(), peers) as transcript:
            run(script, …, transcript=transcript)

It holds contracts, refusals, sessions and how they ended, and every message's kind, size and digest, never its
content. Events are logged before they happen: a message is entered before it is sent, and when the log cannot be
written the session ends.

The chain shows that no line was changed, and the head beside it (head.py) that its end was not cut off by accident.
Two things prove that the end was not cut off or the whole rewritten: anchors kept by others, and seals, which are lines
signed with the party's key. Line 2, every line whose number is a multiple of `seal_every`, and the line after each
session's end are seals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from masquerade.audit.chain import Anchor
from masquerade.audit.log_file import OWN_EVENTS, AuditFile
from masquerade.errors import ParameterError
from masquerade.net.identity import Identity
from masquerade.net.leave_message import leave_message
from masquerade.net.transcript import Entry, Transcript

CONTRACT, REFUSAL, MESSAGE, CONTROL = "contract", "refusal", "message", "control"
SESSION_START, SESSION_END = "session start", "session end"
SEAL_EVERY = 1000


class AuditLog:
    """Appends to the log at `path`, created if missing (mode 0600); safe for several threads and processes at once.

    `durable` waits until each line is on the disk; without it a line survives a crash of this process, not of the
    machine. `seal_every` (at least 2, or None for no seals) applies to a new log; an existing log keeps its own.
    `forget` continues a log whose end is missing and records who decided so; Conflict when nothing is missing.
    """

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        durable: bool = True,
        seal_every: int | None = SEAL_EVERY,
        forget: Mapping[str, Any] | None = None,
    ) -> None:
        if seal_every is not None and seal_every < 2:
            raise ParameterError(f"an audit log is sealed every 2 records or more, not every {seal_every}")
        self.path = path
        self._lines = AuditFile(path, identity, durable=durable, seal_every=seal_every, forget=forget)

    def anchor(self) -> Anchor:
        """Return the last record's number and hash, for others to keep."""
        return self._lines.last()

    def append(self, event: str, fields: Mapping[str, Any]) -> Anchor:
        """Record any other event, with JSON-compatible fields; return the new record's anchor."""
        if event in OWN_EVENTS:
            raise ParameterError(f"audit log: the event {event} is the log's own")
        return self._lines.append((event, fields))

    def contract(self, canonical: bytes, session: str | None = None, requester: str | None = None) -> Anchor:
        """Record a contract that this party signs, in its canonical form; `session` names the session it is for.

        `requester` is the fingerprint of the certificate by which its client's own signature was verified.
        """
        try:
            text = canonical.decode()
        except UnicodeDecodeError:
            raise ParameterError("audit log: the contract is not JSON in UTF-8") from None
        digest = hashlib.sha256(canonical).hexdigest()
        given = {"session": session, "requester": requester}
        named = {name: each for name, each in given.items() if each is not None}
        return self._lines.append((CONTRACT, {"contract": text, "contract_hash": digest, **named}))

    def refusal(self, asker: str, reasons: Sequence[str], session: str | None = None) -> Anchor:
        """Record a request that this party refuses, with all reasons."""
        return self._lines.append((REFUSAL, {"asker": asker, "reasons": list(reasons), "session": session}))

    def message(self, session: str, entry: Entry) -> Anchor:
        """Record a message of a session, given its transcript entry."""
        fields = {
            "digest": entry.digest,
            "direction": entry.direction,
            "kind": entry.kind,
            "message": entry.number,
            "peer": entry.peer,
            "session": session,
            "size": entry.size,
        }
        return self._lines.append((MESSAGE, fields))

    def seal(self) -> Anchor:
        """Sign everything so far; do nothing in a log without seals."""
        return self._lines.append(seal=True)

    @contextmanager
    def session(
        self, session: str, peers: Sequence[str], transcript: Path | None = None
    ) -> Iterator[Transcript]:
        """Record a session's start and end, and log each entry of the yielded transcript immediately.

        The end's cause is the one sent to the peers: a kind and the party at fault, never an error's text.
        """
        with Transcript(transcript, on_entry=lambda entry: self.message(session, entry)) as entered:
            self._lines.append((SESSION_START, {"peers": list(peers), "session": session}))
            error: BaseException | None = None
            try:
                yield entered
            except BaseException as raised:
                error = raised
                raise
            finally:
                leave = leave_message(error)
                end = {
                    "cause": leave.cause.value,
                    "culprit": leave.culprit or None,
                    "messages": len(entered.entries),
                    "session": session,
                }
                self._lines.append((SESSION_END, end), seal=True)

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
