"""The head of an audit log: which record is its last, in a file beside it (`audit.head` of `audit.jsonl`).

A chain does not show that its last lines are gone, or all of them. The head does: a log that ends before it was
emptied, removed, cut short, or is an old copy. It is written after each line is on the disk, without waiting for it to
be there itself: after a power cut it may be older than the log, never newer.

Whoever may write the folder can remove both. The head shows a slip; anchors that others keep are the proof.
"""

from __future__ import annotations

import os
from pathlib import Path

from masquerade.errors import ParameterError
from masquerade.service.audit_line import NOTHING, Anchor

_WIDTH = 84  # of the largest anchor; always as long, so that it is written over in its place


def head_path(path: Path) -> Path:
    """The file beside a log."""
    return path.with_suffix(".head")


def read_head(path: Path) -> Anchor | None:
    """The last record that is known of the log at `path`; None where there is no head (yet)."""
    place = head_path(path)
    try:
        text = place.read_bytes()[: 2 * _WIDTH].strip(b" \n\0").decode("ascii", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ParameterError(f"{place}: cannot be read: {error.strerror}") from None
    if not text:  # it was new when the power went
        return None
    try:
        return Anchor.read(text)
    except ParameterError:
        raise ParameterError(
            f"{place}: is damaged: nobody can tell whether the log's last lines are missing; look at the log with its"
            f" seals and anchors, then remove this file"
        ) from None


def write_head(path: Path, last: Anchor) -> None:
    """Note the last record, which is on the disk. Under the log's lock."""
    file = os.open(head_path(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(file, f"{last!s:<{_WIDTH}}\n".encode(), 0)
    finally:
        os.close(file)


def told_missing(head: Anchor, last: Anchor) -> str | None:
    """What is wrong with a log that ends with `last`; None when it goes as far as its head, or further."""
    if last.number > head.number or last == head:
        return None
    if last == NOTHING:
        return f"nothing is there, but {_records(head)}: it was emptied or removed"
    if last.number < head.number:
        return f"it ends with record {last.number}, but {_records(head)}: its end was cut off"
    return f"its last record, {last.number}, is not the one that was written: it is another log, or was written anew"


def _records(head: Anchor) -> str:
    return "1 record was written" if head.number == 1 else f"{head.number} records were written"
