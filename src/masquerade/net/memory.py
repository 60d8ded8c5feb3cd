"""All parties in one process: the in-memory twin of a network, for tests and simulations.

Messages are encoded and decoded as on a real network, so tests exercise the bytes that would be sent. A party whose
script raises `Vanished` is gone, as if its process had been killed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.errors import PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.net.script import Move, Receive, Script, TolerantReceive, decode, encode, kind_of, kinds_of


@dataclass(frozen=True)
class SentMessage:
    """One message as it was sent."""

    sender: str
    receiver: str
    kind: str
    data: bytes


@dataclass
class Wire:
    """All messages sent, in order."""

    heard: list[SentMessage] = field(default_factory=list)

    def seen_by(self, party: str) -> list[SentMessage]:
        """Return the messages that a party received."""
        return [message for message in self.heard if message.receiver == party]


class Vanished(Exception):
    """A party is gone, without a word to anybody."""


class Deadlock(RuntimeError):
    """Every party waits for another: a bug in the protocol."""


def run_together(scripts: Mapping[str, Script[Any]], wire: Wire | None = None) -> dict[str, Any]:
    """Run the scripts of all parties to completion; return their results by party, without those that vanished."""
    wire = wire if wire is not None else Wire()
    queues: dict[tuple[str, str], deque[bytes]] = {}
    waiting: dict[str, Receive] = {}
    results: dict[str, Any] = {}
    untold: dict[str, list[str]] = {name: [] for name in scripts}  # who has vanished, by whom it is to be told

    def advance(name: str, heard: Any) -> None:
        """Run a party until it waits or ends."""
        script = scripts[name]
        try:
            move: Move = script.throw(heard) if isinstance(heard, PeerError) else script.send(heard)
            while not isinstance(move, Receive):
                for peer in move.peers:
                    data = encode(move.message)
                    wire.heard.append(SentMessage(name, peer, kind_of(move.message), data))
                    queues.setdefault((name, peer), deque()).append(data)
                move = script.send(None)
            waiting[name] = move
        except StopIteration as end:
            waiting.pop(name, None)
            results[name] = end.value
        except Vanished:
            waiting.pop(name, None)
            for other in untold:
                untold[other].append(name)

    for name in scripts:
        advance(name, None)
    while waiting:
        ready = [name for name, move in waiting.items() if queues.get((move.peer, name)) or untold[name]]
        if not ready:
            raise Deadlock(f"everybody waits: {waiting}")
        for name in ready:
            move = waiting[name]
            if not queues.get((move.peer, name)):
                gone = PeerUnreachable(untold[name].pop(0), "vanished")
                if not isinstance(move, TolerantReceive):
                    raise gone
                advance(name, gone)
                continue
            try:
                heard = decode(queues[move.peer, name].popleft(), kinds_of(move))
            except ValueError as error:
                if isinstance(move, TolerantReceive) and move.skips:
                    continue
                raise PeerBrokeProtocol(move.peer, f"sent something that is {error}") from None
            advance(name, heard)
    return results
