"""Find who has the best candidate: the one step of a mashup that compares the parties' scores.

`plain` is the paper's: every party sends its best score. The default shows the winner alone (argmax.py).
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
from itertools import combinations
from typing import Protocol, TypeVar

import numpy as np

from masquerade.crypto import (
    BidWords,
    Bits,
    Delta,
    Evaluation,
    Evaluator,
    Garbler,
    Garbling,
    HeldCircuit,
    ReceivedBatch,
    SentBatch,
    SharedEvaluation,
    TransferReceiver,
    TransferSender,
    TripleMaking,
    Triples,
    compare_bids,
    corrected,
    derive_key,
    hold,
    pack,
    random_bytes,
    undefeated,
    unpack,
)
from masquerade.errors import BadMessage, Bug, ParameterError, PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import blaming, set_up_pairs
from masquerade.protocol.shared_circuits import evaluate_and_open

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


def _tell_all(me: int, parties: Sequence[str], offer: Offer, speakers: Sequence[int]) -> Script[dict[int, Bid | None]]:
    """Return the bids of these parties, which they tell everybody."""
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    bids: dict[int, Bid | None] = {}
    if me in speakers:
        own = bids[me] = offer()
        yield Send(peers, BestScore(b"", -1) if own is None else BestScore(_signed(own.score), own.position))
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


def _signed(score: int) -> bytes:
    return score.to_bytes(score.bit_length() // 8 + 1, "little", signed=True)


def _bid(sent: BestScore, sender: str) -> Bid | None:
    if not sent.score:
        return None
    if len(sent.score) > MOST_SCORE_BYTES:
        raise PeerBrokeProtocol(sender, "sent a score that is too large for any table")
    return Bid(int.from_bytes(sent.score, "little", signed=True), sent.position)


# --- pairwise comparison ------------------------------------------------------------------------------------
# Two parties' sides of comparing their bids by a garbled circuit, on transfers made ahead.
#
# In each pair one party garbles and sends in all transfers, the other evaluates and chooses. A side holds
# the pair's setup (fresh for the session) and a stock of labels, one row per future comparison; rows are
# used once. Several bids are compared at once where several are given, each with its own result.

OUTPUTS = ("left wins", "right wins")


class Garbled(Message, tag="argmax-garbled", frozen=True):
    """A garbled comparison: tables, the seed of the labels of the garbler's bid, what gives the evaluator its own.

    And tags, if the evaluator may read the result.
    """

    tables: bytes
    seed: bytes
    chosen: bytes
    tags: bytes


class GarblingSide:
    """The side that garbles."""

    def __init__(self, session: bytes, sender: TransferSender, width: int, *, is_left: bool) -> None:
        self._width, self._sender = width, sender
        self._mine, self._theirs = ("left", "right") if is_left else ("right", "left")
        self._delta = Delta()
        self._garbler = Garbler(derive_key(session, b"comparison"), self._delta)
        self._stock: SentBatch  # for the labels of future comparisons

    def stock_up(self, columns: bytes, n_rounds: int, peer: int, making: TripleMaking | None) -> bytes:
        """Keep transfers for `n_rounds` rounds, by the evaluator's choices. Return the message that makes triples."""
        n_labels = n_rounds * self._width
        n_triple_bits = making.transfers(peer) if making is not None else 0
        batch = self._sender.extend(columns, n_labels + n_triple_bits)
        self._stock, for_triples = batch.split([n_labels, n_triple_bits])
        return making.correct(peer, *for_triples.random_bits()) if making is not None else b""

    def garble(self, bid: Bits, flips: bytes, *, reveal: bool) -> tuple[Garbling, Garbled]:
        """Garble the next comparisons; `flips` marks where the evaluator's bids differ from its transfer choices."""
        n_bids = bid.shape[1]
        if len(flips) != -(-self._width * n_bids // 8):
            raise BadMessage(f"bids of {len(flips)} bytes; {self._width} bits were expected of each of {n_bids}")
        flipped = unpack(np.frombuffer(flips, np.uint8), self._width * n_bids).reshape(self._width, n_bids)
        batch, self._stock = _taken(self._stock, n_bids * self._width)
        made, chosen = batch.correlate_xor(self._delta.block)
        zeros = corrected(made.reshape(n_bids, self._width, 2).transpose(1, 0, 2), flipped, self._delta)
        circuit = compare_bids(self._width, True)
        garbling = self._garbler.garble(circuit, n_bids, {self._theirs: zeros}, {self._mine: bid})
        tags = garbling.reveal(*OUTPUTS) if reveal else b""
        return garbling, Garbled(garbling.tables, garbling.seed, chosen, tags)


class EvaluatingSide:
    """The side that evaluates."""

    def __init__(self, session: bytes, receiver: TransferReceiver, width: int, *, is_left: bool) -> None:
        self._width, self._receiver = width, receiver
        self._mine, self._theirs = ("left", "right") if is_left else ("right", "left")
        self._evaluator = Evaluator(derive_key(session, b"comparison"))
        self._stock: ReceivedBatch
        self._triples_ordered: ReceivedBatch
        self._bidding: ReceivedBatch | None = None  # whose choices mask our last bids

    def order(self, n_rounds: int, peer: int, making: TripleMaking | None) -> bytes:
        """Draw choices for the labels of `n_rounds` rounds and for triples. Return the message to the garbler."""
        n_labels = n_rounds * self._width
        masks = unpack(np.frombuffer(random_bytes(-(-n_labels // 8)), np.uint8), n_labels)
        for_triples = making.choices(peer) if making is not None else np.zeros(0, np.uint8)
        columns, batch = self._receiver.extend(np.concatenate((masks, for_triples)))
        self._stock, self._triples_ordered = batch.split([n_labels, len(for_triples)])
        return columns

    def stock_up(self, correction: bytes, peer: int, making: TripleMaking) -> None:
        """Process the garbler's answer to an order of triples."""
        making.absorb(peer, self._triples_ordered.random_bits(), correction)

    def flips(self, bid: Bits) -> bytes:
        """Return our bids for the next comparisons, masked by our choices in the transfers."""
        n_bids = bid.shape[1]
        self._bidding, self._stock = _taken(self._stock, n_bids * self._width)
        return pack((bid ^ self._bidding.choices.reshape(n_bids, self._width).T).ravel()).tobytes()

    def evaluate(self, garbled: Garbled) -> Evaluation:
        """Evaluate the comparisons that the garbler sent."""
        if self._bidding is None:
            raise Bug("a comparison was evaluated before its bid was sent")
        batch, self._bidding = self._bidding, None
        n_bids = len(batch) // self._width
        held = batch.correlated_xor(garbled.chosen).reshape(n_bids, self._width, 2)
        labels = {self._mine: held.transpose(1, 0, 2)}
        circuit = compare_bids(self._width, True)
        return self._evaluator.evaluate(circuit, n_bids, garbled.tables, labels, garbled.seed)


Batch = TypeVar("Batch", SentBatch, ReceivedBatch)


def _taken(stock: Batch, count: int) -> tuple[Batch, Batch]:
    """Return the next transfers of a stock, and the rest."""
    if count > len(stock):
        raise Bug("no labels are in stock")
    taken, left = stock.split([count, len(stock) - count])
    return taken, left


# --- secure argmax ------------------------------------------------------------------------------------------
# Find who has the best candidate, without showing any score: all learn the winner, or that there is no candidate.
#
# Two parties: a garbled circuit compares their bids, and both read the winner.
#
# More: every pair compares its bids by a garbled circuit whose result stays shared between the two, and
# then all find out by n-party sharing, with triples made ahead, who won against everybody. Nobody learns
# how any other ended: private against any n − 1 curious parties that follow the protocol.
#
# A bid is one word (crypto/circuits_library.py), the score first and then the earlier attribute, so that no
# two are equal; no candidate, and holding back, is a word below all others and looks like any other.
#
# Who learns what, each round: everyone the winner's number, or that the game is over; nothing else.
#
# Cost of a round, for bids of w bits: an evaluator sends w bits; a garbler about 3·w garbled gates and w
# labels, some 96·w bytes; for n ≥ 3, each party then tells each peer 2·n(n − 2) + n bits in all. Messages
# that wait for each other: 3 for two parties, 3 + ⌈log₂(n − 1)⌉ for more. Ahead: 128 base transfers a pair
# and session, 4·w bytes a pair and round.
#
# What it does not protect against: a party that does not follow the protocol can make a wrong winner come out. Whoever
# had a better candidate notices when the winner instructs (`mashup` recomputes its score), and everybody whose
# candidate is passed over when the game is said to be over; but not who did it, when there are more than two.

ROUNDS_AHEAD = 64
_READ = "a comparison's message"  # named when a peer is blamed for it


class EvaluatorOrder(Message, tag="argmax-order", frozen=True):
    """An evaluator's hidden choices in the transfers of future rounds."""

    columns: bytes


class GarblerDelivery(Message, tag="argmax-delivery", frozen=True):
    """The garbler's answer to an order of triples."""

    triples: bytes


class HiddenBid(Message, tag="argmax-bid", frozen=True):
    """An evaluator's bid, masked."""

    flips: bytes


class OutputLabels(Message, tag="argmax-verdict", frozen=True):
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
    senders, receivers, sessions = yield from set_up_pairs(me, parties, b"masquerade/argmax/1")
    garbling = {
        peer: GarblingSide(sessions[peer], sender, words.width, is_left=me < peer) for peer, sender in senders.items()
    }
    evaluating = {
        peer: EvaluatingSide(sessions[peer], receiver, words.width, is_left=me < peer)
        for peer, receiver in receivers.items()
    }
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
        if len(self._parties) == 2:
            flags = yield from self._of_two(words)
        else:  # all pairs are compared, and then is found out who won all of its own comparisons
            shares = yield from self._compare_pairs(words)
            if self._triples is None:
                raise Bug("no triples are in stock")
            part = SharedEvaluation(self._held(), self._me, shares, self._triples)
            flags = yield from evaluate_and_open(part, self._me, self._parties, "winner")
        winners: list[Winner | None] = []
        for bid, won in zip(bids, flags.T, strict=True):
            found = np.flatnonzero(won).tolist()
            if len(found) > 1 or (bid is None and found == [self._me]) or (bid is not None and not found):
                text = "made the comparison come out impossibly"
                if len(self._peers) > 1:  # nobody can tell which one caused it
                    raise PeerBrokeProtocol("", f"{' or '.join(self._peers)} {text}")
                raise PeerBrokeProtocol(self._peers[0], text)
            winners.append(Winner(found[0], None) if found else None)
        return winners

    def stock_up(self, rounds: int) -> Script[None]:
        """Make labels and triples for this many comparisons, when none is left."""
        n = len(self._parties)
        making = TripleMaking(self._held(), self._me, 8 * -(-rounds // 8)) if n > 2 else None
        for number, evaluating in self._evaluating.items():
            yield Send((self._parties[number],), EvaluatorOrder(evaluating.order(rounds, number, making)))
        for number, garbling in self._garbling.items():
            name = self._parties[number]
            order = yield Receive(name, EvaluatorOrder)
            with blaming(name, _READ):
                told = garbling.stock_up(order.columns, rounds, number, making)
            if making is not None:
                yield Send((name,), GarblerDelivery(told))
        if making is not None:
            for number, evaluating in self._evaluating.items():
                name = self._parties[number]
                delivery = yield Receive(name, GarblerDelivery)
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
            yield Send((peer,), OutputLabels(evaluation.labels(*OUTPUTS)))
        for garbling in self._garbling.values():
            hidden = yield Receive(peer, HiddenBid)
            with blaming(peer, _READ):
                kept, garbled = garbling.garble(word, hidden.flips, reveal=True)
            yield Send((peer,), garbled)
            verdict = yield Receive(peer, OutputLabels)
            with blaming(peer, _READ):
                read = kept.decode(verdict.labels, *OUTPUTS)
        return np.concatenate([read[name] for name in OUTPUTS])

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
