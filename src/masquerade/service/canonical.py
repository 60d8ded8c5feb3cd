"""What is hashed, signed or shown to people has one form: canonical JSON, and plain text.

Canonical JSON (RFC 8785) is without floats, so that it is the same in every language. No white space; keys sorted by
their UTF-16 code units, as the RFC says (which differs from the order of code points once a key has characters outside
the basic plane); text as UTF-8 with the RFC's few escapes. Decimals are strings; integers stay within the range that
every JSON reader keeps exact.

Text from others, on which people base decisions, is plain: a name or a purpose that moves the cursor, ends a line or
reverses the writing direction could forge the page on which a steward bases an approval.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from masquerade.errors import Key, ParameterError, Problem, shown

MOST_WHOLE = 2**53 - 1


def canonical(value: Any) -> bytes:
    """Encode None, a bool, an int, a str, a list, a dict, or a Struct of these, in canonical form."""
    ordered = _ordered(msgspec.to_builtins(value))
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def digest(value: Any) -> bytes:
    """Hash the canonical form with SHA-256."""
    return hashlib.sha256(canonical(value)).digest()


def decimal_text(number: float | str) -> str:
    """Write a decimal as canonical JSON holds it: 1, 1.0 and "1.00" are all "1"."""
    value = float(number)
    return str(int(value)) if value.is_integer() and abs(value) <= MOST_WHOLE else repr(value)


def _ordered(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > MOST_WHOLE:
            raise ParameterError(f"canonical JSON: {value} is not a whole number of at most 2^53 − 1")
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return [_ordered(each) for each in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ParameterError(f"canonical JSON: a key must be text; got {key!r}")
        keys = sorted(map(_text, value), key=lambda key: key.encode("utf-16-be"))
        return {key: _ordered(value[key]) for key in keys}
    raise ParameterError(f"canonical JSON: {value!r} has no place in it; a decimal is written as text")


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"canonical JSON: {shown(text)} holds half a character") from None
    return text


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
