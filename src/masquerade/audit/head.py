"""The head of a chained file: the anchor of its last record, in a file beside it (`audit.head` for `audit.jsonl`).

A chain does not reveal that its last lines, or all of them, are missing. The head does: a file that ends before its
head was emptied, removed or cut short, or is an old copy. The head is written once a line is on the disk, but not
flushed itself: after a power cut it may be older than the file, never newer.

Anyone with write access to the folder can remove both. The head reveals accidents; anchors kept by others are proof.
"""

from __future__ import annotations

import os
from pathlib import Path

from masquerade.audit.chain import Anchor
from masquerade.errors import ParameterError
from masquerade.files import PRIVATE, FileError, read_file

_WIDTH = 84  # of the largest anchor; fixed, so that the head is overwritten in place


def head_path(path: Path) -> Path:
    """Return the path of the head of the file at `path`."""
    return path.with_suffix(".head")


def read_head(path: Path) -> Anchor | None:
    """Read the head of the file at `path`; None if there is none or it is still empty."""
    place = head_path(path)
    if not place.exists():
        return None
    text = read_file(place)[: 2 * _WIDTH].strip(b" \n\0").decode("ascii", "replace")
    if not text:  # a power cut came before the first write
        return None
    try:
        return Anchor.read(text)
    except ParameterError:
        raise FileError.at(
            place,
            f"is damaged: nobody can tell whether the last lines of {path.name} are missing; restore it from a"
            " backup, or, beside an audit log, look at the log with its seals and anchors, then remove this file",
        ) from None


def begin_head(path: Path) -> None:
    """Make an empty head before the first line is written, so that lines without a head mean that it was lost."""
    head_path(path).touch(PRIVATE)


def write_head(path: Path, last: Anchor) -> None:
    """Overwrite the head with the last record on the disk. The caller holds the file's lock."""
    file = os.open(head_path(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        os.pwrite(file, f"{last!s:<{_WIDTH}}\n".encode(), 0)
    finally:
        os.close(file)
