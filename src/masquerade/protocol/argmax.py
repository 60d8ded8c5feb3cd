"""Find who has the best candidate: the one step of a mashup that compares the parties' scores.

`plain` is the paper's: every party sends its best score. The default shows the winner alone (secure_argmax.py).
Either way, the winner is the higher score, then the earlier attribute of the joint schema.

Leakage of `plain`: each round, every party learns every other party's best valid score and the attribute that has
it, or that it has none or holds back. Rounds: 1. Messages: n (n − 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send

MOST_SCORE_BYTES = 24  # |T|² in units of 2^-32, for more records than there are people


class BestScore(Message, tag="score", frozen=True):
    """A party's best candidate: its score in fixed point (signed, little-endian) and attribute; empty for none."""

    score: bytes
    position: int


@dataclass(frozen=True)
class Bid:
    """A best candidate: its score in fixed point, and its attribute's position in the joint schema."""

    score: int
    position: int

    def beats(self, other: Bid) -> bool:
        """Return whether it wins against another party's bid."""
        return (self.score, -self.position) > (other.score, -other.position)


@dataclass(frozen=True)
class Winner:
    """The winner of the round, with its bid where the comparison reveals it."""

    party: int
    bid: Bid | None


class ArgMax(Protocol):
    """A protocol that finds the winner of a round."""

    def __call__(self, me: int, parties: Sequence[str], bid: Bid | None) -> Script[Winner | None]:
        """Return the winner of this round; None when no party has a candidate."""


def plain(me: int, parties: Sequence[str], bid: Bid | None) -> Script[Winner | None]:
    """Send the best score to every peer, and compare openly."""
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    yield Send(peers, _best_score(bid))
    bids: dict[int, Bid] = {} if bid is None else {me: bid}
    for number, name in enumerate(parties):
        if number != me:
            sent = yield Receive(name, BestScore)
            if (heard := _bid(sent, name)) is not None:
                bids[number] = heard
    if not bids:
        return None
    party = min(bids, key=lambda number: (-bids[number].score, bids[number].position))
    return Winner(party, bids[party])


def _best_score(bid: Bid | None) -> BestScore:
    if bid is None:
        return BestScore(b"", -1)
    return BestScore(bid.score.to_bytes(bid.score.bit_length() // 8 + 1, "little", signed=True), bid.position)


def _bid(sent: BestScore, sender: str) -> Bid | None:
    if not sent.score:
        return None
    if len(sent.score) > MOST_SCORE_BYTES:
        raise PeerBrokeProtocol(sender, "sent a score that is too large for any table")
    return Bid(int.from_bytes(sent.score, "little", signed=True), sent.position)
