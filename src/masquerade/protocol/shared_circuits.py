"""Evaluate a circuit on shares, and open its outputs to all parties.

Each layer of ANDs takes one message to every peer, and opening one more. All parties' messages of a layer are equally
long, so that one of another length is its sender's fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.crypto.bits import Bits
from masquerade.crypto.gmw import SharedEvaluation, opened, share_message
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send


class Masked(Message, tag="shared-masked", frozen=True):
    """Shares of masked operands: one layer of ANDs."""

    data: bytes


class Share(Message, tag="shared-result", frozen=True):
    """A share of the outputs."""

    data: bytes


def evaluate_and_open(part: SharedEvaluation, peers: Sequence[str], *outputs: str) -> Script[Bits]:
    """Run this party's part of the evaluation. Return these outputs, which all parties learn."""
    while part.message is not None:
        part.hear((yield from exchange(Masked, part.message, peers)))
    own = part.shares(*outputs)
    return opened(own, (yield from exchange(Share, share_message(own), peers)))


def exchange(kind: type[Masked | Share], ours: bytes, peers: Sequence[str]) -> Script[list[bytes]]:
    """Send bytes to every peer, and receive equally many from each."""
    yield Send(tuple(peers), kind(ours))
    heard = []
    for name in peers:
        theirs = yield Receive(name, kind)
        if len(theirs.data) != len(ours):
            raise PeerBrokeProtocol(name, f"sent {len(theirs.data)} bytes where the message has {len(ours)}")
        heard.append(theirs.data)
    return heard
