"""Checks on values before they are stored; each refusal is one clear line, the same for every database."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from masquerade.errors import ParameterError, shown

MOST_CENTS = 10**12
_USER = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,127}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def user_name(name: str) -> str:
    """Return a valid user name in its one spelling: nobody can pass for another by a capital or an accent."""
    if not _USER.fullmatch(name):
        raise ParameterError(
            f"{shown(name)} cannot name a user: small letters a-z, digits and . _ @ + - are allowed,"
            " first a letter or a digit, at most 128 characters"
        )
    return name


def findable(name: str) -> str:
    """Normalise a name for look-up; names that no database can store match nobody."""
    return "" if _unstorable(name) else name


def text(value: str, what: str, longest: int = 4_000) -> str:
    """Check that every database can hold this text; return it."""
    if _unstorable(value):
        raise ParameterError(f"{what}: {shown(value)} holds characters that are no text")
    if len(value) > longest:
        raise ParameterError(f"{what}: at most {longest} characters are allowed; got {len(value)}")
    return value


def document(value: Mapping[str, Any], what: str, longest: int = 4_000_000) -> dict[str, Any]:
    """Return a checked copy of a JSON object, which later changes cannot affect."""
    try:
        written = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{what}: not a JSON object: {error}") from None
    if len(written) > longest:
        raise ParameterError(f"{what}: at most {longest} bytes of JSON are allowed; got {len(written)}")
    copied: dict[str, Any] = json.loads(written)
    return copied


def sha256(value: str, what: str) -> str:
    """Check a SHA-256 digest of 64 hexadecimal digits."""
    if not _HASH.fullmatch(value):
        raise ParameterError(f"{what}: must be 64 hexadecimal digits (small letters); got {shown(value)}")
    return value


def cents(value: int, what: str) -> int:
    """Check an amount of money: whole cents, never a float."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_CENTS:
        raise ParameterError(f"{what}: must be whole cents from 0 to {MOST_CENTS}; got {value!r}")
    return value


def page(limit: int) -> int:
    """Check the number of items in one page."""
    if not 1 <= limit <= 1000:
        raise ParameterError(f"limit: must be from 1 to 1000; got {limit}")
    return limit


def _unstorable(value: str) -> bool:
    return "\0" in value or value.encode("utf-8", "ignore").decode() != value
