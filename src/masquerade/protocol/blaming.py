"""What does not fit in a peer's message is the peer's fault, and told as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from masquerade.errors import ParameterError, PeerBrokeProtocol


@contextmanager
def blaming(name: str, what: str = "a message") -> Iterator[None]:
    """While the block reads what this peer sent."""
    try:
        yield
    except ParameterError as error:
        raise PeerBrokeProtocol(name, f"sent {what} that does not fit: {error}") from None
