"""Cryptographic primitives on numbers, independent of tables."""

from __future__ import annotations

from masquerade.errors import ParameterError


class BadMessage(ParameterError):
    """A peer's message that does not fit the computation; the calling protocol names the peer."""
