"""Circuits that all providers of a session evaluate together on shares.

A provider's input stays with it, and each wire is shared among those whose inputs it depends on (crypto/gmw.py), with
triples made ahead by oblivious transfer between every two. Private against any n − 1 semi-honest providers: they learn
the opened results, and what these imply together with their own inputs.

Cost: 128 base transfers per pair and session. An AND takes 16 bytes ahead for each provider that holds the left operand
and each other one that holds the right one, n(n − 1) at most, and at most n/2 bytes when it is evaluated; an evaluation
as many rounds as the circuit is deep, and one to open. How many messages there are and how long they are follows from
the number of instances, which is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.crypto import (
    BLOCK_BYTES,
    Bits,
    Circuit,
    HeldCircuit,
    InputMasks,
    SharedEvaluation,
    TransferReceiver,
    TransferSender,
    TripleMaking,
    Triples,
    ZeroShares,
    hold,
    pack,
    random_bytes,
    to_bits,
    unpack,
)
from masquerade.engine import Counts, Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import blaming, set_up_pairs
from masquerade.protocol.providers import circuits
from masquerade.protocol.providers.criterion import Criterion
from masquerade.protocol.providers.third_party_counts import SensitiveCodes
from masquerade.protocol.providers.tree import Answers
from masquerade.protocol.shared_circuits import evaluate, evaluate_and_open

AHEAD = 1 << 16  # transfers of a pair at a time where fewer are needed, once as many triples have been used
MOST = 1 << 19  # transfers of a pair at a time, so that messages stay small


class Seed(Message, tag="shared-seed", frozen=True):
    """The seed from which one peer draws its shares of our inputs."""

    data: bytes


class TripleOrder(Message, tag="shared-order", frozen=True):
    """The sender's hidden choices in the transfers that make triples."""

    columns: bytes


class TripleDelivery(Message, tag="shared-delivery", frozen=True):
    """The answer to an order."""

    corrections: bytes


def prepare(me: int, parties: Sequence[str], session: bytes) -> Script[SharedBits]:
    """Set up the session; `session` is its name, the same for all providers."""
    senders, receivers, _ = yield from set_up_pairs(me, parties, b"masquerade/shared-bits/1\0" + session)
    peers = {number: name for number, name in enumerate(parties) if number != me}
    sent = {number: random_bytes(BLOCK_BYTES) for number in peers}
    for number, name in peers.items():
        yield Send((name,), Seed(sent[number]))
    heard = {}
    for number, name in peers.items():
        seed = yield Receive(name, Seed)
        if len(seed.data) != BLOCK_BYTES:
            raise PeerBrokeProtocol(name, f"sent a seed of {len(seed.data)} bytes instead of {BLOCK_BYTES}")
        heard[number] = seed.data
    return SharedBits(me, tuple(parties), InputMasks(me, sent, heard), ZeroShares(me, sent, heard), senders, receivers)


class SharedBits:
    """One provider's side of a session; `prepare` makes it. All providers call the same methods in the same order."""

    def __init__(
        self,
        me: int,
        parties: tuple[str, ...],
        inputs: InputMasks,
        zeros: ZeroShares,
        senders: dict[int, TransferSender],
        receivers: dict[int, TransferReceiver],
    ) -> None:
        self.me, self.parties = me, parties
        self.peers = tuple(name for number, name in enumerate(parties) if number != me)
        self._inputs, self._zeros = inputs, zeros
        self.senders, self.receivers = senders, receivers
        self._stocks: dict[tuple[bytes, bool, str], _Stock] = {}

    def evaluate(self, circuit: Circuit, own: Bits, *outputs: str, of: str = "") -> Script[Bits]:
        """Return the outputs of a circuit whose input "provider p" comes from party p; one column per instance.

        `of` keeps the triples apart from those of the same circuit for something else.
        """
        part = yield from self._own_part(circuit, own, of)
        return (yield from self._open(part, *outputs))

    def share(self, owner: int, own: Bits) -> Bits:
        """Return this party's share of the owner's bits; `own` are this party's, of the same shape as all others'."""
        return self._inputs.own(own) if owner == self.me else self._inputs.of(owner, own.shape)

    def evaluate_own(self, circuit: Circuit, own: Bits, *outputs: str) -> Script[Bits]:
        """Return this party's shares of the outputs of a circuit as in `evaluate`; nothing is opened."""
        part = yield from self._own_part(circuit, own)
        yield from evaluate(part, self.me, self.parties)
        return part.shares(*outputs)

    def evaluate_shares(self, circuit: Circuit, inputs: Mapping[str, Bits], *outputs: str) -> Script[Bits]:
        """Return this party's shares of the outputs, from its shares of the inputs; nothing is opened."""
        part = yield from self._part(self._stock(circuit, by_provider=False), inputs)
        yield from evaluate(part, self.me, self.parties)
        return part.shares(*outputs)

    def open_from_shares(self, circuit: Circuit, inputs: Mapping[str, Bits], *outputs: str) -> Script[Bits]:
        """Return the outputs, which all learn, from this party's shares of the inputs."""
        part = yield from self._part(self._stock(circuit, by_provider=False), inputs)
        return (yield from self._open(part, *outputs))

    def contradicted(self) -> PeerBrokeProtocol:
        """Return the error for an answer that this party's own input proves wrong."""
        who = " or ".join(self.peers)
        return PeerBrokeProtocol("", f"{who} made an answer come out that contradicts our records")

    def _open(self, part: SharedEvaluation, *outputs: str) -> Script[Bits]:
        return (yield from evaluate_and_open(part, self.me, self.parties, *outputs, zeros=self._zeros))

    def _own_part(self, circuit: Circuit, own: Bits, of: str = "") -> Script[SharedEvaluation]:
        """Return this party's part from its shares of what the providers know: its own input, and zeros."""
        mine = f"provider {self.me}"
        shares = {name: own if name == mine else np.zeros_like(own) for name in circuit.inputs}
        return (yield from self._part(self._stock(circuit, by_provider=True, of=of), shares))

    def _stock(self, circuit: Circuit, *, by_provider: bool, of: str = "") -> _Stock:
        """Return what is left of a circuit's triples; its inputs are held by one provider each, or by all."""
        key = (circuit.digest, by_provider, of)  # all parties must agree on it, whose caches have other histories
        if key not in self._stocks:
            n = len(self.parties)
            owners = {f"provider {each}": each for each in range(n)} if by_provider else None
            self._stocks[key] = _Stock(hold(circuit, n, owners))
        return self._stocks[key]

    def _part(self, stock: _Stock, shares: Mapping[str, Bits]) -> Script[SharedEvaluation]:
        """Return this party's part of an evaluation, with the triples that it needs."""
        needed = next(iter(shares.values())).shape[1]
        while stock.left < needed:
            more = max(needed - stock.left, min(stock.used, stock.worth(AHEAD)))
            made = yield from self._make_triples(stock.held, 8 * -(-min(more, stock.worth(MOST)) // 8))
            stock.triples = made if stock.triples is None else stock.triples.joined(made)
        assert stock.triples is not None
        stock.used += needed
        return SharedEvaluation(stock.held, self.me, shares, stock.triples)

    def _make_triples(self, held: HeldCircuit, instances: int) -> Script[Triples]:
        making = TripleMaking(held, self.me, instances)
        batches = {}
        for number, receiver in self.receivers.items():
            if making.transfers(number):
                columns, batches[number] = receiver.extend(making.choices(number))
                yield Send((self.parties[number],), TripleOrder(columns))
        for number, sender in self.senders.items():
            if making.transfers(number):
                name = self.parties[number]
                order = yield Receive(name, TripleOrder)
                with blaming(name):
                    batch = sender.extend(order.columns, making.transfers(number))
                yield Send((name,), TripleDelivery(making.correct(number, *batch.random_bits())))
        for number, received in batches.items():
            name = self.parties[number]
            delivery = yield Receive(name, TripleDelivery)
            with blaming(name):
                making.absorb(number, received.random_bits(), delivery.corrections)
        return making.triples()


@dataclass
class _Stock:
    """The triples of one circuit that are left, and how many instances were evaluated."""

    held: HeldCircuit
    triples: Triples | None = None
    used: int = 0

    @property
    def left(self) -> int:
        return 0 if self.triples is None else len(self.triples)

    def worth(self, transfers: int) -> int:
        """Return how many instances a pair's `transfers` make triples for, at least 8."""
        return max(8, transfers // max(self.held.most_products, 1))


# --- secret counts ------------------------------------------------------------------------------------------
# The judge for providers that do not see each other's records: answers come from circuits on shares.
#
# Who learns what: every provider the answers that `tree` lists, and nothing else; `shared_bits` says against whom.


class Alone(Message, tag="collaborate-alone", frozen=True):
    """Which of its own parts a provider has no records of, and which of them satisfy alone."""

    bits: bytes


class SecretJudge:
    """Judges parts of which each provider contributes its own rows."""

    def __init__(
        self, criterion: Criterion, shared: SharedBits, sensitive: Sequence[SensitiveCodes], most_records: int = 0
    ) -> None:
        self._criterion, self._shared, self._sensitive = criterion, shared, tuple(sensitive)
        self._n_values = tuple(each.n_values for each in sensitive)
        self._shape = circuits.Shape(tuple(each.labels for each in sensitive), most_records)
        self._private = circuits.private(criterion, self._shape)

    def of_rows(self, rows: Rows) -> SecretJudge:
        """Return the judge of these of our rows, and of those that the others are left with."""
        left = [each.of_rows(rows) for each in self._sensitive]
        return SecretJudge(self._criterion, self._shared, left, self._shape.most_records)

    def whole(self, rows: Rows) -> Script[Answers]:
        """Judge the group of all records. If it is refused, one more bit is opened: whether records are lacking."""
        criterion = self._criterion.of_whole
        circuit = circuits.private(criterion, self._shape)
        own = self._input(criterion, [rows])
        of = "" if criterion == self._criterion else "all records"
        told = self._answers([rows], (yield from self._shared.evaluate(circuit, own, "good", "more", of=of)))
        if not told.private[0]:
            enough = yield from self._shared.evaluate(circuit, own, "enough", of=of)
            raise criterion.unreachable(self._n_values, bool(enough[0, 0]))
        return told

    def verdicts(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part, opening two bits for its four possible verdicts."""
        own = self._input(self._criterion, parts)
        return self._answers(parts, (yield from self._shared.evaluate(self._private, own, "good", "more")))

    def acceptable(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part, opening whether it may stand and whether it may be divided, not whether it is empty."""
        own = self._input(self._criterion, parts)
        found = yield from self._shared.evaluate(self._private, own, "good", "divisible")
        good, divisible = found[0] > 0, found[1] > 0
        if (divisible & ~good).any():
            raise self._shared.contradicted()
        return Answers(~good, good, divisible)

    def lone_verdicts(self, parts: Sequence[tuple[int, Rows]]) -> Script[Answers]:
        """Judge parts of one provider each: that provider announces the verdict."""
        owners = np.array([owner for owner, _ in parts])
        me, parties = self._shared.me, self._shared.parties
        verdicts = np.zeros((2, len(parts)), np.uint8)
        mine = np.flatnonzero(owners == me)
        counts, tallies = self._counted([parts[int(each)][1] for each in mine])
        verdicts[0, mine] = counts == 0
        verdicts[1, mine] = self._criterion.alone(counts, tallies) & (counts > 0)
        yield Send(self._shared.peers, Alone(pack(verdicts[:, mine].ravel()).tobytes()))
        for number, name in enumerate(parties):
            if number == me:
                continue
            told = yield Receive(name, Alone)
            theirs = np.flatnonzero(owners == number)
            with blaming(name):
                bits = unpack(np.frombuffer(told.bits, np.uint8), 2 * theirs.size).reshape(2, -1)
            if (bits[0] & bits[1]).any():
                raise PeerBrokeProtocol(name, "says that a group without records satisfies")
            verdicts[:, theirs] = bits
        return Answers(verdicts[0] > 0, verdicts[1] > 0, np.zeros(len(parts), bool))

    def sole(self, families: Sequence[Sequence[Rows]]) -> Script[list[int]]:
        """Return, for each family of parts, the index of the only non-empty one; −1 when there are several."""
        found = [-1] * len(families)
        by_length: dict[int, list[int]] = {}
        for number, parts in enumerate(families):
            by_length.setdefault(len(parts), []).append(number)
        for length, numbers in sorted(by_length.items()):
            own = np.array([[part.size > 0 for part in families[number]] for number in numbers], np.uint8).T.copy()
            circuit = circuits.sole(self._criterion.n_providers, length)
            flags = yield from self._shared.evaluate(circuit, own, "sole")
            for number, column in zip(numbers, flags.T, strict=True):
                if column.any():
                    found[number] = only = int(column.argmax())
                    if any(part.size for at, part in enumerate(families[number]) if at != only):
                        raise self._shared.contradicted()
        return found

    def fittest(self, choices: Sequence[Sequence[Sequence[Rows]]]) -> Script[list[int]]:
        """Return, for each choice between cuts, the index of the one whose least fit part is fittest; −1 for none."""
        parts = [part for cuts in choices for cut in cuts for part in cut]
        counts, _ = self._counted(parts)
        own = np.concatenate(
            [self._input(self._criterion, parts), to_bits(counts, self._shape.most_records.bit_length())]
        )
        circuit = circuits.scored(self._criterion, self._shape)
        scores = yield from self._shared.evaluate_own(circuit, own, "fine", "fitness")
        by_shape: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # number of the choice, its first part
        first = 0
        for number, cuts in enumerate(choices):
            by_shape.setdefault(tuple(map(len, cuts)), []).append((number, first))
            first += sum(map(len, cuts))
        found = [-1] * len(choices)
        for shape, alike in sorted(by_shape.items()):
            starts = np.array([start for _, start in alike])
            given = {}
            for cut, n_parts in enumerate(shape):
                given[f"cut {cut}"] = np.concatenate([scores[:, starts + each] for each in range(n_parts)])
                starts = starts + n_parts
            choice = circuits.fittest(shape, scores.shape[0] - 1)
            flags = yield from self._shared.open_from_shares(choice, given, "fittest")
            for (number, _), column in zip(alike, flags.T, strict=True):
                if column.any():
                    found[number] = int(column.argmax())
        return found

    def _input(self, criterion: Criterion, parts: Sequence[Rows]) -> Bits:
        wholes = [each.whole.counts[0] for each in self._sensitive]
        return circuits.private_input(criterion, *self._counted(parts), wholes, self._shape.most_records)

    def _counted(self, parts: Sequence[Rows]) -> tuple[Counts, list[Counts]]:
        """Count this provider's records of each part, and those with each value."""
        counts = np.array([part.size for part in parts], np.int64)
        tallies = [
            np.array([each.tally(part) for part in parts], np.int64).reshape(len(parts), each.n_values)
            for each in self._sensitive
        ]
        return counts, tallies

    def _answers(self, parts: Sequence[Rows], found: Bits) -> Answers:
        """Read the verdicts on parts. Where we have records, an honest answer is never that there are none."""
        good, more = found[0] > 0, found[1] > 0
        empty = ~good & more
        if any(part.size for part, none in zip(parts, empty, strict=True) if none):
            raise self._shared.contradicted()
        return Answers(empty, good, good & more)
