"""Circuits that all providers of a session evaluate together on shares.

Each provider's inputs are shared among all (crypto/gmw.py), with triples made ahead by oblivious transfer between every
two. Private against any n − 1 semi-honest providers: they learn the opened results, and what these
imply together with their own inputs.

Cost: 128 base transfers per pair and session. An AND of n providers takes n(n − 1)/2 · 32 bytes of transfers ahead and
n(n − 1)/4 bytes when it is evaluated; an evaluation as many rounds as the circuit is deep, and one to open. How many
messages there are and how long they are follows from the number of instances, which is public.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from masquerade.crypto.circuit import Bits, Circuit
from masquerade.crypto.gmw import InputMasks, SharedEvaluation
from masquerade.crypto.hashing import BLOCK_BYTES
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.crypto.triples import TripleMaking, Triples
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.pairwise_setup import set_up_pairs
from masquerade.protocol.shared_circuits import Masked, evaluate_and_open, exchange

TRIPLES_STEP = 1 << 12  # a multiple of which is made, so that small evaluations share the cost
MOST_TRIPLES = 1 << 18  # made at a time, so that messages stay small


class Seed(Message, tag="shared-seed", frozen=True):
    """The seed from which one peer draws its shares of our inputs."""

    data: bytes


class Order(Message, tag="shared-order", frozen=True):
    """The sender's hidden choices in the transfers that make triples."""

    columns: bytes


class Delivery(Message, tag="shared-delivery", frozen=True):
    """The answer to an order."""

    corrections: bytes


def prepare(me: int, parties: Sequence[str], session: bytes) -> Script[SharedBits]:
    """Set up the session; `session` is its name, the same for all providers."""
    senders, receivers = yield from set_up_pairs(
        me,
        parties,
        b"masquerade/shared-bits/1\0" + session,
        lambda named, _: TransferSender(named),
        lambda named, _: TransferReceiver(named),
    )
    peers = {number: name for number, name in enumerate(parties) if number != me}
    sent = {number: os.urandom(BLOCK_BYTES) for number in peers}
    for number, name in peers.items():
        yield Send((name,), Seed(sent[number]))
    heard = {}
    for number, name in peers.items():
        seed = yield Receive(name, Seed)
        if len(seed.data) != BLOCK_BYTES:
            raise PeerBrokeProtocol(name, f"sent a seed of {len(seed.data)} bytes instead of {BLOCK_BYTES}")
        heard[number] = seed.data
    return SharedBits(me, tuple(parties), InputMasks(me, sent, heard), senders, receivers)


class SharedBits:
    """One provider's side of a session; `prepare` makes it. All providers call the same methods in the same order."""

    def __init__(
        self,
        me: int,
        parties: tuple[str, ...],
        inputs: InputMasks,
        senders: dict[int, TransferSender],
        receivers: dict[int, TransferReceiver],
    ) -> None:
        self.me, self.parties = me, parties
        self.peers = tuple(name for number, name in enumerate(parties) if number != me)
        self._inputs = inputs
        self._senders, self._receivers = senders, receivers
        self._triples: Triples | None = None

    def evaluate(self, circuit: Circuit, own: Bits, *outputs: str) -> Script[Bits]:
        """Return the outputs of a circuit whose input "provider p" comes from party p; one column per instance.

        Instances are processed in batches, so that neither triples nor wires take much memory.
        """
        at_a_time = max(1, MOST_TRIPLES // max(circuit.n_and, 1))
        parts = []
        for first in range(0, own.shape[1], at_a_time):
            part = yield from self._evaluate(circuit, own[:, first : first + at_a_time], outputs)
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def share(self, owner: int, own: Bits) -> Bits:
        """Return this party's share of the owner's bits; `own` are this party's, of the same shape as all others'."""
        return self._inputs.own(own) if owner == self.me else self._inputs.of(owner, own.shape)

    def evaluate_shares(self, circuit: Circuit, inputs: Mapping[str, Bits], *outputs: str) -> Script[Bits]:
        """Return this party's shares of the outputs, from its shares of the inputs; nothing is opened."""
        at_a_time = max(1, MOST_TRIPLES // max(circuit.n_and, 1))
        parts = []
        for first in range(0, next(iter(inputs.values())).shape[1], at_a_time):
            some = {name: bits[:, first : first + at_a_time] for name, bits in inputs.items()}
            part = yield from self._part(circuit, some)
            while part.message is not None:
                part.hear((yield from exchange(Masked, part.message, self.peers)))
            parts.append(part.shares(*outputs))
        return np.concatenate(parts, axis=1)

    def open_from_shares(self, circuit: Circuit, inputs: Mapping[str, Bits], *outputs: str) -> Script[Bits]:
        """Return the outputs, which all learn, from this party's shares of the inputs."""
        at_a_time = max(1, MOST_TRIPLES // max(circuit.n_and, 1))
        parts = []
        for first in range(0, next(iter(inputs.values())).shape[1], at_a_time):
            some = {name: bits[:, first : first + at_a_time] for name, bits in inputs.items()}
            part = yield from self._part(circuit, some)
            parts.append((yield from evaluate_and_open(part, self.peers, *outputs)))
        return np.concatenate(parts, axis=1)

    def _evaluate(self, circuit: Circuit, own: Bits, outputs: Sequence[str]) -> Script[Bits]:
        shares = {f"provider {number}": self.share(number, own) for number in range(len(self.parties))}
        part = yield from self._part(circuit, shares)
        return (yield from evaluate_and_open(part, self.peers, *outputs))

    def _part(self, circuit: Circuit, shares: Mapping[str, Bits]) -> Script[SharedEvaluation]:
        """Return this party's part of an evaluation, with the triples that it needs."""
        needed = circuit.n_and * next(iter(shares.values())).shape[1]
        if self._triples is None or len(self._triples) < needed:
            steps = max(1, -(-needed // TRIPLES_STEP))
            self._triples = yield from self._make_triples(steps * TRIPLES_STEP)
        return SharedEvaluation(circuit, self.me, len(self.parties), shares, self._triples)

    def _make_triples(self, count: int) -> Script[Triples]:
        making = TripleMaking(count)
        batches = {}
        for number, receiver in self._receivers.items():
            columns, batches[number] = receiver.extend(making.choices)
            yield Send((self.parties[number],), Order(columns))
        for number, sender in self._senders.items():
            name = self.parties[number]
            order = yield Receive(name, Order)
            with blaming(name):
                batch = sender.extend(order.columns, 2 * count)
            yield Send((name,), Delivery(making.correct(number, *batch.random_bits())))
        for number, received in batches.items():
            name = self.parties[number]
            delivery = yield Receive(name, Delivery)
            with blaming(name):
                making.absorb(number, received.random_bits(), delivery.corrections)
        return making.triples(len(self.parties))
