"""Primitives on numbers; they know nothing of tables."""

from __future__ import annotations

from masquerade.errors import ParameterError


class BadMessage(ParameterError):
    """A peer's message that does not fit what is computed; a protocol names the peer."""
