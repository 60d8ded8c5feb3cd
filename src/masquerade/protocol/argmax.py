"""Find who has the best candidate: the one step of a mashup that compares the parties' scores.

`plain` is the paper's: every party sends its best score. The default shows the winner alone (secure_argmax.py).
Either way, the winner is the higher score, then the earlier attribute of the joint schema.

Leakage of `plain`: each round, every party learns every other party's best valid score and the attribute that has
it, or that it has none or holds back. Rounds: 1. Messages: n (n − 1).

`LastWinnerFirst` is the same where a party's bid cannot rise while others win. What a party has told then bounds what
it has from above, so the winner of the last round tells its next bid first, and wins again where that beats all that
the others have told; they tell theirs anew only where it does not. So everybody learns the bids that `plain` shows, or
fewer. A winner that goes on waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


Offer = Callable[[], Bid | None]  # looks for this party's best candidate


class ArgMax(Protocol):
    """A protocol that finds the winner of a round."""

    def __call__(self, me: int, parties: Sequence[str], offer: Offer) -> Script[Winner | None]:
        """Return the winner of this round; None when no party has a candidate. `offer` is called where it is needed."""


def plain(me: int, parties: Sequence[str], offer: Offer) -> Script[Winner | None]:
    """Send the best score to every peer, and compare openly."""
    bids = yield from _tell_all(me, parties, offer, range(len(parties)))
    return _best(bids)


class LastWinnerFirst:
    """An `ArgMax` like `plain` for a session in which a party's bid cannot rise while others win."""

    def __init__(self) -> None:
        self._told: dict[int, Bid | None] = {}
        self._last: Winner | None = None

    def __call__(self, me: int, parties: Sequence[str], offer: Offer) -> Script[Winner | None]:
        """Return the winner of this round; None when no party has a candidate."""
        speakers = list(range(len(parties)))
        if self._last is not None:
            number = self._last.party
            self._told |= yield from _tell_all(me, parties, offer, [number])
            self._last = _best(self._told)
            if self._last is not None and self._last.party == number:
                return self._last
            speakers.remove(number)
        self._told |= yield from _tell_all(me, parties, offer, speakers)
        self._last = _best(self._told)
        return self._last


def _tell_all(
    me: int, parties: Sequence[str], offer: Offer, speakers: Sequence[int]
) -> Script[dict[int, Bid | None]]:
    """Return the bids of these parties, which they tell everybody."""
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    bids: dict[int, Bid | None] = {}
    if me in speakers:
        bids[me] = offer()
        yield Send(peers, _best_score(bids[me]))
    for number in speakers:
        if number != me:
            sent = yield Receive(parties[number], BestScore)
            bids[number] = _bid(sent, parties[number])
    return bids


def _best(bids: Mapping[int, Bid | None]) -> Winner | None:
    """Return whose bid wins; None where there is none."""
    made = {number: bid for number, bid in bids.items() if bid is not None}
    if not made:
        return None
    party = min(made, key=lambda number: (-made[number].score, made[number].position))
    return Winner(party, made[party])


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
