"""Canonical JSON (RFC 8785) without floats: what is hashed and signed has one form, in every language.

No white space; keys sorted by their UTF-16 code units, as the RFC says (which differs from the order of code points
once a key has characters outside the basic plane); text as UTF-8 with the RFC's few escapes. Decimals are strings;
integers stay within the range that every JSON reader keeps exact.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from masquerade.errors import ParameterError, shown

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
