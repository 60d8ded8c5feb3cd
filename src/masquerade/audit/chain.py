"""One line of a chained file: its canonical form, its hash, and its link to the line before. No I/O.

    {"event":…,"fields":{…},"hash":…,"number":…,"previous":…,"time":…}

Canonical JSON: keys sorted, no white space. `number` is the line's own number in the file, from 1.
`previous` is the hash of the line before (zeros for the first), `hash` is SHA-256 over the canonical JSON of all other
fields. A line has exactly one form, so that no byte of it can change unnoticed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from masquerade.errors import ParameterError, one_line, shown
from masquerade.forms.decoders import json_decoder

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
        raise ParameterError(
            f"record {shown(event)}: takes {len(line)} bytes; a line has at most {MOST_LINE}"
        )
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
            raise LineError(
                f"not the record that was written here, by the head beside it: its hash is {record.hash}"
            )
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
