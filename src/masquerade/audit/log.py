"""The audit log of a party or coordinator: append-only, hash-chained, kept locally.

    with AuditLog(path, identity) as log:
        log.contract(contract.canonical())
        with log.session(contract.hash.hex(), peers) as transcript:
            run_async(run_script(script, channels, transcript=transcript))

It holds contracts, refusals, sessions and how they ended, and every message's kind, size and digest, never its
content. Events are logged before they happen: a message is entered before it is sent, and when the log cannot be
written the session ends.

The chain shows that no line was changed, and the head beside it (chained_file.py) that its end was not cut off by
accident. Two things prove that the end was not cut off or the whole rewritten: anchors kept by others, and seals,
which are lines signed with the party's key. Line 2, every line whose number is a multiple of `seal_every`, and the
line after each session's end are seals.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from masquerade.audit.chained_file import (
    MOST_LINE,
    NOTHING,
    RECOVERED,
    Anchor,
    ChainedFile,
    Event,
    LineError,
    Record,
    missing_records,
    read_head,
    read_line,
    unhashed_line,
    write_line,
)
from masquerade.errors import Conflict, ParameterError, shown
from masquerade.files import FileError
from masquerade.net import Entry, Identity, Transcript, is_signed, leave_message, signing_key

# --- genesis ------------------------------------------------------------------------------------------------
# The first record of an audit log: its party, and how often it is sealed.

FORMAT = "masquerade-audit-1"
GENESIS = "genesis"

_START = b'{"event":"genesis","fields":{'


def genesis(identity: Identity, seal_every: int | None) -> tuple[str, Mapping[str, Any]]:
    """Make the first event of a new log."""
    fields = {
        "certificate": identity.fingerprint,
        "format": FORMAT,
        "log": secrets.token_hex(16),
        "party": identity.name,
        "seal_every": seal_every,
    }
    return GENESIS, fields


def read_genesis(record: Record) -> tuple[str, int | None]:
    """Return the party and `seal_every`; LineError when the record does not begin an audit log of this version."""
    fields = record.fields
    texts = [fields.get(key) for key in ("party", "log", "certificate")]
    every = fields.get("seal_every")
    if record.event != GENESIS or not all(isinstance(text, str) for text in texts):
        raise LineError("not the beginning of an audit log")
    if fields.get("format") != FORMAT or not (every is None or (type(every) is int and every >= 2)):
        raise LineError(f"not the beginning of an audit log of this version, {FORMAT}")
    return fields["party"], every


def looks_like_log(first_line: bytes) -> bool:
    """Return whether a file's first line, even if damaged or cut short, appears to begin an audit log."""
    if first_line and (first_line.startswith(_START) or _START.startswith(first_line)):
        return True
    if FORMAT.encode() in first_line:
        return True
    try:
        read_line(first_line)
    except LineError:
        return False
    return True


# --- seals --------------------------------------------------------------------------------------------------
# Seals: lines of an audit log that sign the line before them, and through the chain all earlier ones.

SEAL = "seal"

_CONTEXT = b"masquerade audit seal\n"


def is_seal_due(number: int, seal_every: int | None) -> bool:
    """Return whether the record with this number must be a seal: number 2 and each multiple of `seal_every`."""
    return seal_every is not None and (number == 2 or (number > 2 and number % seal_every == 0))


def write_seal(identity: Identity, after: Anchor, time: str) -> tuple[bytes, Anchor]:
    """Encode the seal that follows `after`; return it and its anchor."""
    fields = {"certificate": identity.fingerprint}
    signature = identity.sign(_signed_bytes(fields, after, time))
    return write_line(SEAL, {**fields, "signature": signature.hex()}, after, time)


class SealCheck:
    """Checks seals against certificates (PEM, by fingerprint); each seal names the one it was made with."""

    def __init__(self, certificates: Mapping[str, bytes]) -> None:
        for fingerprint, pem in certificates.items():
            if signing_key(pem) is None:
                raise ParameterError(f"certificate {fingerprint}: not for an ECDSA key, which seals need")
        self._certificates = certificates

    def check(self, seal: Record) -> None:
        """Raise LineError when a seal is malformed, names an unknown certificate, or has a wrong signature."""
        named, signature = seal.fields.get("certificate"), seal.fields.get("signature")
        if not isinstance(named, str) or not isinstance(signature, str) or len(seal.fields) != 2:
            raise LineError("bad seal: it does not have a certificate's fingerprint and a signature")
        if named not in self._certificates:
            raise LineError(f"bad seal: it is of certificate {shown(named, 100)}, which was not given")
        signed = _signed_bytes({"certificate": named}, Anchor(seal.number - 1, seal.previous), seal.time)
        try:
            right = is_signed(self._certificates[named], bytes.fromhex(signature), signed)
        except ValueError:
            right = False
        if not right:
            raise LineError("bad seal: the signature is not the certificate's")


def _signed_bytes(fields: Mapping[str, str], after: Anchor, time: str) -> bytes:
    """Encode the seal without signature and hash; its `previous` field binds it to this log and no other."""
    return _CONTEXT + unhashed_line(SEAL, fields, after, time)


# --- log ----------------------------------------------------------------------------------------------------
# A log that ends before its head is continued only on explicit request, which a `cut` record then documents.

OPENED, CUT = "opened", "cut"
OWN_EVENTS = (GENESIS, SEAL, OPENED, RECOVERED, CUT)  # written by the file itself

_BLOCK = 64 * 1024

CONTRACT, REFUSAL, MESSAGE, CONTROL = "contract", "refusal", "message", "control"
SESSION_START, SESSION_END = "session start", "session end"
SEAL_EVERY = 1000


class AuditLog(ChainedFile):
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
        self._identity, self._seal_every, self._forget = identity, seal_every, forget
        super().__init__(path, "audit log", durable=durable)

    def append(self, event: str, fields: Mapping[str, Any]) -> Anchor:
        """Record any other event, with JSON-compatible fields; return the new record's anchor."""
        if event in OWN_EVENTS:
            raise ParameterError(f"audit log: the event {event} is the log's own")
        return self.add((event, fields))

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
        return self.add((CONTRACT, {"contract": text, "contract_hash": digest, **named}))

    def refusal(self, asker: str, reasons: Sequence[str], session: str | None = None) -> Anchor:
        """Record a request that this party refuses, with all reasons."""
        return self.add((REFUSAL, {"asker": asker, "reasons": list(reasons), "session": session}))

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
        return self.add((MESSAGE, fields))

    def seal(self) -> Anchor:
        """Sign everything so far; do nothing in a log without seals."""
        return self.add(*self._seals())

    @contextmanager
    def session(self, session: str, peers: Sequence[str], transcript: Path | None = None) -> Iterator[Transcript]:
        """Record a session's start and end, and log each entry of the yielded transcript immediately.

        The end's cause is the one sent to the peers: a kind and the party at fault, never an error's text.
        """
        with Transcript(transcript, on_entry=lambda entry: self.message(session, entry)) as entered:
            self.add((SESSION_START, {"peers": list(peers), "session": session}))
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
                self.add((SESSION_END, end), *self._seals())

    # --- the file: a genesis record, seals, and the check against its head when it is opened ---

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
        while b"\n" not in start and len(start) < MOST_LINE and (more := os.pread(self._file, _BLOCK, len(start))):
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
            raise Conflict(f"{self.path}: nothing is missing from the audit log; nothing needs to be forgotten")
        known = head or NOTHING
        return ((CUT, {**self._forget, "found": last.number, "hash": known.hash, "record": known.number}),)
