"""What is wrong with the bytes that a peer sent."""

from __future__ import annotations

from masquerade.errors import ParameterError


class BadMessage(ParameterError):
    """A peer's message that does not fit what is computed; a protocol names the peer."""
