"""Two parties' sides of comparing their bids by a garbled circuit, on transfers made ahead.

In each pair one party garbles and sends in all transfers, the other evaluates and chooses. A side holds the pair's
setup (fresh for the session) and a stock of labels, one row per future comparison; rows are used once. Several bids
are compared at once where several are given, each with its own result.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import Bits, pack, unpack
from masquerade.crypto.circuits_library import compare_bids
from masquerade.crypto.garble import Delta, Evaluation, Evaluator, Garbler, Garbling, Labels, corrected
from masquerade.crypto.hashing import derive_key
from masquerade.crypto.transfer_batches import ReceivedBatch
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.crypto.triples import TripleMaking
from masquerade.errors import Bug
from masquerade.net.script import Message

OUTPUTS = ("left wins", "right wins")


class Garbled(Message, tag="argmax-garbled", frozen=True):
    """A garbled comparison: tables, the seed of the labels of the garbler's bid, tags if the evaluator may read it."""

    tables: bytes
    seed: bytes
    tags: bytes


class GarblingSide:
    """The side that garbles."""

    def __init__(self, session: bytes, width: int, *, is_left: bool) -> None:
        self._width = width
        self._mine, self._theirs = ("left", "right") if is_left else ("right", "left")
        self._sender = TransferSender(session)
        # The evaluator's labels are the rows of the transfers themselves, which differ by the sender's secret.
        self._delta = Delta(self._sender.secret)
        self._garbler = Garbler(derive_key(session, b"comparison"), self._delta)
        self._stock = _Stock(width)

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._sender.setup()

    def finish_setup(self, message: bytes) -> None:
        """Process the peer's message of the base transfers."""
        self._sender.finish_setup(message)

    def stock_up(self, columns: bytes, n_rounds: int, peer: int, making: TripleMaking | None) -> bytes:
        """Make labels for `n_rounds` rounds, and triples, from the evaluator's choices. Return the triples' message."""
        n_labels = n_rounds * self._width
        n_triple_bits = making.transfers(peer) if making is not None else 0
        batch = self._sender.extend(columns, n_labels + n_triple_bits)
        for_labels, for_triples = batch.split([n_labels, n_triple_bits])
        self._stock.refill(for_labels.correlated_by_secret())
        return making.correct(peer, *for_triples.random_bits()) if making is not None else b""

    def garble(self, bid: Bits, flips: bytes, *, reveal: bool) -> tuple[Garbling, Garbled]:
        """Garble the next comparisons; `flips` marks where the evaluator's bids differ from its transfer choices."""
        n_bids = bid.shape[1]
        if len(flips) != -(-self._width * n_bids // 8):
            raise BadMessage(
                f"bids of {len(flips)} bytes; {self._width} bits were expected of each of {n_bids}"
            )
        flipped = unpack(np.frombuffer(flips, np.uint8), self._width * n_bids).reshape(self._width, n_bids)
        zeros = corrected(self._stock.take(n_bids), flipped, self._delta)
        circuit = compare_bids(self._width, True)
        garbling = self._garbler.garble(circuit, n_bids, {self._theirs: zeros}, {self._mine: bid})
        tags = garbling.reveal(*OUTPUTS) if reveal else b""
        return garbling, Garbled(garbling.tables, garbling.seed, tags)


class EvaluatingSide:
    """The side that evaluates."""

    def __init__(self, session: bytes, width: int, *, is_left: bool) -> None:
        self._width = width
        self._mine, self._theirs = ("left", "right") if is_left else ("right", "left")
        self._evaluator = Evaluator(derive_key(session, b"comparison"))
        self._receiver = TransferReceiver(session)
        self._stock = _Stock(width)
        self._choices: list[Bits] = []
        self._triples_ordered: ReceivedBatch
        self._held: Labels | None = None

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._receiver.setup()

    def finish_setup(self, message: bytes) -> None:
        """Process the peer's message of the base transfers."""
        self._receiver.finish_setup(message)

    def order(self, n_rounds: int, peer: int, making: TripleMaking | None) -> bytes:
        """Draw choices for the labels of `n_rounds` rounds and for triples. Return the message to the garbler."""
        packed = np.frombuffer(os.urandom(n_rounds * -(-self._width // 8)), np.uint8).reshape(n_rounds, -1)
        rows = np.unpackbits(packed, axis=1, count=self._width, bitorder="little")
        for_triples = making.choices(peer) if making is not None else np.zeros(0, np.uint8)
        columns, batch = self._receiver.extend(np.concatenate((rows.ravel(), for_triples)))
        for_labels, self._triples_ordered = batch.split([rows.size, len(for_triples)])
        self._stock.refill(for_labels.correlated_by_secret())
        self._choices = list(rows)
        return columns

    def stock_up(self, correction: bytes, peer: int, making: TripleMaking) -> None:
        """Process the garbler's answer to an order of triples."""
        making.absorb(peer, self._triples_ordered.random_bits(), correction)

    def flips(self, bid: Bits) -> bytes:
        """Return our bids for the next comparisons, masked by our choices in the transfers."""
        n_bids = bid.shape[1]
        self._held = self._stock.take(n_bids)
        choices = np.stack([self._choices.pop(0) for _ in range(n_bids)], axis=1)
        return pack((bid ^ choices).ravel()).tobytes()

    def evaluate(self, garbled: Garbled) -> Evaluation:
        """Evaluate the comparisons that the garbler sent."""
        if self._held is None:
            raise Bug("a comparison was evaluated before its bid was sent")
        labels, n_bids = {self._mine: self._held}, self._held.shape[1]
        self._held = None
        circuit = compare_bids(self._width, True)
        return self._evaluator.evaluate(circuit, n_bids, garbled.tables, labels, garbled.seed)


class _Stock:
    """Labels of future comparisons; each row is handed out once."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: list[Labels] = []

    def refill(self, blocks: NDArray[np.uint64]) -> None:
        if self._rows:
            raise Bug("labels are still in stock")
        self._rows = list(blocks.reshape(-1, self._width, 1, 2))

    def take(self, n_rows: int) -> Labels:
        """Return labels of the shape width × rows × block."""
        if len(self._rows) < n_rows:
            raise Bug("no labels are in stock")
        taken, self._rows = self._rows[:n_rows], self._rows[n_rows:]
        return np.concatenate(taken, axis=1)
