"""All parties in one process: the in-memory twin of a network, for tests and simulations.

Messages are encoded and decoded as on a real network, so tests exercise the bytes that would be sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Move, Receive, Script, decode, encode, kind_of


@dataclass(frozen=True)
class Heard:
    """One message as it was sent."""

    sender: str
    receiver: str
    kind: str
    data: bytes


@dataclass
class Wire:
    """All messages sent, in order."""

    heard: list[Heard] = field(default_factory=list)

    def seen_by(self, party: str) -> list[Heard]:
        """Return the messages that a party received."""
        return [message for message in self.heard if message.receiver == party]


class Deadlock(RuntimeError):
    """Every party waits for another: a bug in the protocol."""


def run_together(scripts: Mapping[str, Script[Any]], wire: Wire | None = None) -> dict[str, Any]:
    """Run the scripts of all parties to completion; return their results by party."""
    wire = wire if wire is not None else Wire()
    queues: dict[tuple[str, str], deque[bytes]] = {}
    waiting: dict[str, Receive] = {}
    results: dict[str, Any] = {}

    def advance(name: str, heard: Any) -> None:
        """Run a party until it waits or ends."""
        script = scripts[name]
        try:
            move: Move = script.send(heard)
            while not isinstance(move, Receive):
                for peer in move.peers:
                    data = encode(move.message)
                    wire.heard.append(Heard(name, peer, kind_of(move.message), data))
                    queues.setdefault((name, peer), deque()).append(data)
                move = script.send(None)
            waiting[name] = move
        except StopIteration as end:
            waiting.pop(name, None)
            results[name] = end.value

    for name in scripts:
        advance(name, None)
    while waiting:
        ready = [name for name, move in waiting.items() if queues.get((move.peer, name))]
        if not ready:
            raise Deadlock(f"everybody waits: {waiting}")
        for name in ready:
            move = waiting[name]
            try:
                heard = decode(queues[move.peer, name].popleft(), [move.kind])
            except ValueError as error:
                raise PeerBrokeProtocol(move.peer, f"sent something that is {error}") from None
            advance(name, heard)
    return results
