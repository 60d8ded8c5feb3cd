"""Guess a CSV file's encoding by its first bytes: a byte order mark, UTF-8, or what Windows writes in the West."""

from __future__ import annotations

import codecs
from pathlib import Path

from masquerade.data.reading import why_unreadable

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LOOKED_AT = 1 << 22  # bytes


def likely_encoding(path: Path) -> str:
    """Return "utf-8", "utf-16", "cp1252" or, where even that has no sign for a byte, "latin-1"."""
    try:
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
    except (OSError, ValueError) as error:
        raise why_unreadable(path, error) from None
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(head)  # may end within a character
        except UnicodeError:
            continue
        return encoding
    return "latin-1"
