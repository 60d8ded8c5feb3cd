"""Find who has the best candidate, without showing any score: all learn the winner, or that there is no candidate.

Two parties: a garbled circuit compares their bids, and both read the winner.

More: every pair compares its bids by a garbled circuit whose result stays shared between the two, and then all find
out by n-party sharing, with triples made ahead, who won against everybody. Nobody learns how any other ended:
private against any n − 1 curious parties that follow the protocol.

A bid is one word (crypto/circuits_library.py), the score first and then the earlier attribute, so that no two are
equal; no candidate, and holding back, is a word below all others and looks like any other.

Who learns what, each round: everyone the winner's number, or that the game is over; nothing else.

Cost of a round, for bids of w bits: an evaluator sends w bits; a garbler about 3·w garbled gates and w labels, some
96·w bytes; for n ≥ 3, each party then tells each peer 2·n(n − 2) + n bits in all. Messages that wait for each other: 3
for two parties, 3 + ⌈log₂(n − 1)⌉ for more. Ahead: 128 base transfers a pair and session, 4·w bytes a pair and round.

What it does not protect against: a party that does not follow the protocol can make a wrong winner come out. Whoever
had a better candidate notices when the winner instructs (`mashup` recomputes its score), and everybody whose candidate
is passed over when the game is said to be over; but not who did it, when there are more than two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuits_library import BidWords, undefeated
from masquerade.crypto.gmw import SharedEvaluation
from masquerade.crypto.holders import HeldCircuit, hold
from masquerade.crypto.triples import TripleMaking, Triples
from masquerade.errors import Bug, ParameterError, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.argmax import Bid, Offer, Winner
from masquerade.protocol.blaming import blaming
from masquerade.protocol.pairwise_comparison import OUTPUTS, EvaluatingSide, Garbled, GarblingSide
from masquerade.protocol.pairwise_setup import set_up_pairs
from masquerade.protocol.shared_circuits import evaluate_and_open

ROUNDS_AHEAD = 64
_READ = "a comparison's message"  # named when a peer is blamed for it


class Order(Message, tag="argmax-order", frozen=True):
    """An evaluator's hidden choices in the transfers of future rounds."""

    columns: bytes


class Delivery(Message, tag="argmax-delivery", frozen=True):
    """The garbler's answer to an order of triples."""

    triples: bytes


class HiddenBid(Message, tag="argmax-bid", frozen=True):
    """An evaluator's bid, masked."""

    flips: bytes


class Verdict(Message, tag="argmax-verdict", frozen=True):
    """The labels that the evaluator of two parties arrived at."""

    labels: bytes


def prepare(
    me: int, parties: Sequence[str], words: BidWords, *, rounds_ahead: int = ROUNDS_AHEAD
) -> Script[SecureArgMax]:
    """Set up a session's comparisons, before its first round. All parties give the same words and rounds ahead.

    With no round ahead, `stock_up` is called before each batch of comparisons.
    """
    if len(parties) < 2 or rounds_ahead < 0:
        raise ParameterError("a secure comparison takes at least 2 parties, and no fewer than 0 rounds ahead")
    garbling, evaluating = yield from set_up_pairs(
        me,
        parties,
        b"masquerade/argmax/1",
        lambda session, peer: GarblingSide(session, words.width, is_left=me < peer),
        lambda session, peer: EvaluatingSide(session, words.width, is_left=me < peer),
    )
    argmax = SecureArgMax(me, tuple(parties), words, garbling, evaluating, rounds_ahead)
    if rounds_ahead:
        yield from argmax.stock_up(rounds_ahead)
    return argmax


class SecureArgMax:
    """An `ArgMax` that shows the winner alone; `prepare` makes it."""

    def __init__(
        self,
        me: int,
        parties: tuple[str, ...],
        words: BidWords,
        garbling: dict[int, GarblingSide],
        evaluating: dict[int, EvaluatingSide],
        rounds_ahead: int,
    ) -> None:
        self._me, self._parties, self._words = me, parties, words
        self._garbling, self._evaluating = garbling, evaluating
        self._rounds_ahead = rounds_ahead
        self._rounds_left = 0
        self._peers = tuple(name for number, name in enumerate(parties) if number != me)
        self._triples: Triples | None = None

    def __call__(self, me: int, parties: Sequence[str], offer: Offer) -> Script[Winner | None]:
        """Return the winner of this round; None when no party has a candidate."""
        if me != self._me or tuple(parties) != self._parties:
            raise Bug("a comparison was prepared for other parties")
        if not self._rounds_left:
            yield from self.stock_up(self._rounds_ahead)
        (winner,) = yield from self.each([offer()])
        return winner

    def each(self, bids: Sequence[Bid | None]) -> Script[list[Winner | None]]:
        """Return the winner of each of several comparisons, made at once; None where no party has a candidate."""
        if self._rounds_left < len(bids):
            raise Bug("more comparisons are made than were prepared")
        self._rounds_left -= len(bids)
        words = self._words.each([(bid.score, bid.position) if bid is not None else None for bid in bids])
        flags = yield from (self._of_two(words) if len(self._parties) == 2 else self._of_many(words))
        winners: list[Winner | None] = []
        for bid, won in zip(bids, flags.T, strict=True):
            found = np.flatnonzero(won).tolist()
            if len(found) > 1 or (bid is None and found == [self._me]) or (bid is not None and not found):
                raise self._impossible()
            winners.append(Winner(found[0], None) if found else None)
        return winners

    def _impossible(self) -> PeerBrokeProtocol:
        """Return the error for an impossible outcome; with several peers, nobody can tell which one caused it."""
        if len(self._peers) == 1:
            return PeerBrokeProtocol(self._peers[0], "made the comparison come out impossibly")
        return PeerBrokeProtocol("", f"{' or '.join(self._peers)} made the comparison come out impossibly")

    def stock_up(self, rounds: int) -> Script[None]:
        """Make labels and triples for this many comparisons, when none is left."""
        n = len(self._parties)
        making = TripleMaking(self._held(), self._me, 8 * -(-rounds // 8)) if n > 2 else None
        for number, evaluating in self._evaluating.items():
            yield Send((self._parties[number],), Order(evaluating.order(rounds, number, making)))
        for number, garbling in self._garbling.items():
            name = self._parties[number]
            order = yield Receive(name, Order)
            with blaming(name, _READ):
                told = garbling.stock_up(order.columns, rounds, number, making)
            if making is not None:
                yield Send((name,), Delivery(told))
        if making is not None:
            for number, evaluating in self._evaluating.items():
                name = self._parties[number]
                delivery = yield Receive(name, Delivery)
                with blaming(name, _READ):
                    evaluating.stock_up(delivery.triples, number, making)
        self._triples = making.triples() if making is not None else None
        self._rounds_left = rounds

    def _of_two(self, word: Bits) -> Script[Bits]:
        """Compare two parties. Return one bit per party and comparison, the winner's set."""
        (peer,) = self._peers
        for evaluating in self._evaluating.values():
            yield Send((peer,), HiddenBid(evaluating.flips(word)))
            garbled = yield Receive(peer, Garbled)
            with blaming(peer, _READ):
                evaluation = evaluating.evaluate(garbled)
                read = evaluation.decode(garbled.tags, *OUTPUTS)
            yield Send((peer,), Verdict(evaluation.labels(*OUTPUTS)))
        for garbling in self._garbling.values():
            hidden = yield Receive(peer, HiddenBid)
            with blaming(peer, _READ):
                kept, garbled = garbling.garble(word, hidden.flips, reveal=True)
            yield Send((peer,), garbled)
            verdict = yield Receive(peer, Verdict)
            with blaming(peer, _READ):
                read = kept.decode(verdict.labels, *OUTPUTS)
        return np.concatenate([read[name] for name in OUTPUTS])

    def _of_many(self, word: Bits) -> Script[Bits]:
        """Compare all pairs of more than two parties, then find who won all of its own comparisons."""
        shares = yield from self._compare_pairs(word)
        if self._triples is None:
            raise Bug("no triples are in stock")
        part = SharedEvaluation(self._held(), self._me, shares, self._triples)
        return (yield from evaluate_and_open(part, self._me, self._parties, "winner"))

    def _held(self) -> HeldCircuit:
        """The circuit of the comparisons' results, of all of which every party holds a share."""
        n = len(self._parties)
        return hold(undefeated(n), n)

    def _compare_pairs(self, word: Bits) -> Script[dict[str, Bits]]:
        """Return this party's shares of all comparisons' results: zeros for those between others.

        Those trivial shares show nothing, since each AND masks them with a triple and every output is an AND.
        """
        for number, evaluating in self._evaluating.items():
            yield Send((self._parties[number],), HiddenBid(evaluating.flips(word)))
        ended: dict[int, dict[str, Bits]] = {}
        for number, garbling in self._garbling.items():
            name = self._parties[number]
            hidden = yield Receive(name, HiddenBid)
            with blaming(name, _READ):
                kept, garbled = garbling.garble(word, hidden.flips, reveal=False)
            yield Send((name,), garbled)
            ended[number] = kept.shares(*OUTPUTS)
        for number, evaluating in self._evaluating.items():
            name = self._parties[number]
            garbled = yield Receive(name, Garbled)
            with blaming(name, _READ):
                ended[number] = evaluating.evaluate(garbled).shares(*OUTPUTS)
        shares: dict[str, Bits] = {}
        for left, right in combinations(range(len(self._parties)), 2):
            other = right if left == self._me else left
            mine = (
                ended[other]
                if self._me in (left, right)
                else dict.fromkeys(OUTPUTS, np.zeros((1, word.shape[1]), np.uint8))
            )
            shares[f"{left} {right}"], shares[f"{right} {left}"] = (mine[name] for name in OUTPUTS)
        return shares
