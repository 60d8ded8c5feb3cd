"""The head of a chained file: which record is its last, in a file beside it (`audit.head` of `audit.jsonl`).

A chain does not show that its last lines are gone, or all of them. The head does: a file that ends before it was
emptied, removed, cut short, or is an old copy. It is written after each line is on the disk, without waiting for it to
be there itself: after a power cut it may be older than the file, never newer.

Whoever may write the folder can remove both. The head shows a slip; anchors that others keep are the proof.
"""

from __future__ import annotations

import os
from pathlib import Path

from masquerade.audit.chain import Anchor
from masquerade.errors import ParameterError
from masquerade.files import PRIVATE, FileError, read_file

_WIDTH = 84  # of the largest anchor; always as long, so that it is written over in its place


def head_path(path: Path) -> Path:
    """Return the place of the head of the file at `path`."""
    return path.with_suffix(".head")


def read_head(path: Path) -> Anchor | None:
    """Read the last record that is known of the file at `path`; None where there is no head (yet)."""
    place = head_path(path)
    if not place.exists():
        return None
    text = read_file(place)[: 2 * _WIDTH].strip(b" \n\0").decode("ascii", "replace")
    if not text:  # it was new when the power went
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
    """Make an empty head before the first line is written: whoever finds lines without a head knows that it is lost."""
    head_path(path).touch(PRIVATE)


def write_head(path: Path, last: Anchor) -> None:
    """Note the last record, which is on the disk. Under the file's lock."""
    file = os.open(head_path(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        os.pwrite(file, f"{last!s:<{_WIDTH}}\n".encode(), 0)
    finally:
        os.close(file)
