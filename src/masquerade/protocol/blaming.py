"""Report an ill-fitting message as its sender's fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from masquerade.errors import ParameterError, PeerBrokeProtocol


@contextmanager
def blaming(name: str, what: str = "a message") -> Iterator[None]:
    """Turn a ParameterError raised in the block into a PeerBrokeProtocol that names this peer."""
    try:
        yield
    except ParameterError as error:
        raise PeerBrokeProtocol(name, f"sent {what} that cannot be right: {error}") from None
