"""Evaluate a circuit on shares, and open its outputs to all parties.

Among two or three parties each layer of ANDs takes one message to every peer, and so does opening. From four on, all
send theirs to the first party, which combines them and sends everybody what they open: 2(n − 1) messages instead of
n(n − 1), of which two wait for each other. The shares that it sees are uniform bits but for their sum, which everybody
learns. How long each message is follows from the circuit, so that one of another length is its sender's fault.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.crypto import Bits, SharedEvaluation, ZeroShares, opened, share_message
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import received


class MaskedOperands(Message, tag="shared-masked", frozen=True):
    """Shares of masked operands: one layer of ANDs."""

    data: bytes


class Share(Message, tag="shared-result", frozen=True):
    """A share of the outputs."""

    data: bytes


class Opened(Message, tag="shared-opened", frozen=True):
    """What all parties' shares open: the masked operands of one layer of ANDs."""

    data: bytes


class OpenedOutputs(Message, tag="shared-outputs", frozen=True):
    """What all parties' shares of the outputs open."""

    data: bytes


FROM_ONE = 4  # parties, from which on one of them combines what all have masked


def evaluate(part: SharedEvaluation, me: int, parties: Sequence[str]) -> Script[None]:
    """Run this party's part of an evaluation, up to its shares of the outputs."""
    peers = [name for number, name in enumerate(parties) if number != me]
    while part.message is not None:
        if len(parties) < FROM_ONE:
            yield Send(tuple(peers), MaskedOperands(part.message))
            part.hear((yield from _told(MaskedOperands, part.message_bytes, peers)))
        elif me == 0:
            heard = yield from _told(MaskedOperands, part.message_bytes, peers)
            combined = part.combine(heard)
            yield Send(tuple(peers), Opened(combined))
            part.take(combined)
        else:
            yield Send((parties[0],), MaskedOperands(part.message))
            yield from received(parties[0], Opened, part.take)


def evaluate_and_open(
    part: SharedEvaluation, me: int, parties: Sequence[str], *outputs: str, zeros: ZeroShares | None = None
) -> Script[Bits]:
    """Run this party's part of the evaluation. Return these outputs, which all parties learn.

    Without shares of `zeros` the shares of the outputs are told as they are: where each is an AND of operands that all
    parties hold.
    """
    yield from evaluate(part, me, parties)
    own = part.shares(*outputs)
    if zeros is not None:
        own ^= zeros.draw(own.shape)
    ours = share_message(own)
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    if len(parties) < FROM_ONE:
        yield Send(peers, Share(ours))
        return opened(own, (yield from _told(Share, [len(ours)] * len(peers), peers)))
    if me == 0:
        result = opened(own, (yield from _told(Share, [len(ours)] * len(peers), peers)))
        yield Send(peers, OpenedOutputs(share_message(result)))
        return result
    yield Send((parties[0],), Share(ours))
    (combined,) = yield from _told(OpenedOutputs, [len(ours)], parties[:1])
    return opened(np.zeros_like(own), [combined])


def _told(
    kind: type[MaskedOperands | Share | OpenedOutputs], sizes: Sequence[int], peers: Sequence[str]
) -> Script[list[bytes]]:
    """Receive from each peer as many bytes as the circuit says."""
    heard = []
    for name, size in zip(peers, sizes, strict=True):
        theirs = yield Receive(name, kind)
        if len(theirs.data) != size:
            raise PeerBrokeProtocol(name, f"sent {len(theirs.data)} bytes where the message has {size}")
        heard.append(theirs.data)
    return heard
