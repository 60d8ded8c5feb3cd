"""Text from others on which people base decisions: only plain text is accepted.

A name or a purpose that moves the cursor, ends a line or reverses the writing direction could forge the page on which
a steward bases an approval.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from masquerade.errors import Key, ParameterError, Problem

_MOVING = ("Cc", "Cs", "Zl", "Zp")  # controls, halves of characters, ends of lines and paragraphs
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def not_plain(text: str) -> str | None:
    """Return what is wrong with a text that a person will read, or None."""
    if text.isprintable():
        return None
    for sign in text:
        if unicodedata.category(sign) in _MOVING or sign in _TURNING:
            return f"holds the control character {repr(sign)[1:-1]}; write plain text, on one line"
    return None


def places_not_plain(content: Any) -> Iterator[tuple[Key, str]]:
    """Yield every string and key name that is not plain, with its position."""
    waiting: list[tuple[Key, Any]] = [((), content)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            if (problem := not_plain(value)) is not None:
                yield place, problem
        elif isinstance(value, Mapping):
            for key, each in value.items():
                if isinstance(key, str) and (problem := not_plain(key)) is not None:
                    yield (*place, key), f"its name {problem}"
                waiting.append(((*place, key), each))
        elif isinstance(value, list | tuple):
            waiting += [((*place, at), each) for at, each in enumerate(value)]


def insist_on_plain(content: Any, source: str) -> None:
    """Raise ParameterError, naming the source and each position, if any text in the content is not plain."""
    found = (Problem(text, source=source, key=place) for place, text in places_not_plain(content))
    problems = sorted(found, key=str)
    if problems:
        raise ParameterError(*problems)
