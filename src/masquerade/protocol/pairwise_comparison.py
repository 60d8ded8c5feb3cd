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
    """A garbled comparison: tables, labels of the garbler's bid, and tags where the evaluator may read the result."""

    tables: bytes
    labels: bytes
    tags: bytes


class GarblingSide:
    """The side that garbles."""

    def __init__(self, session: bytes, width: int, *, is_left: bool) -> None:
        self._width = width
        self._mine, self._theirs = ("left", "right") if is_left else ("right", "left")
        self._delta = Delta()
        self._garbler = Garbler(derive_key(session, b"comparison"), self._delta)
        self._sender = TransferSender(session)
        self._stock = _Stock(width)

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._sender.setup()

    def finish_setup(self, message: bytes) -> None:
        """Process the peer's message of the base transfers."""
        self._sender.finish_setup(message)

    def stock_up(
        self, columns: bytes, n_rounds: int, peer: int, making: TripleMaking | None
    ) -> tuple[bytes, bytes]:
        """Make labels for `n_rounds` rounds and triples from the evaluator's choices. Return the messages for both."""
        n_labels = n_rounds * self._width
        n_triple_bits = len(making.choices) if making is not None else 0
        batch = self._sender.extend(columns, n_labels + n_triple_bits)
        for_labels, for_triples = batch.split([n_labels, n_triple_bits])
        zeros, labels_message = for_labels.correlate_xor(self._delta.block)
        self._stock.refill(zeros)
        if making is None:
            return labels_message, b""
        return labels_message, making.correct(peer, *for_triples.random_bits())

    def garble(self, bid: Bits, flips: bytes, *, reveal: bool) -> tuple[Garbling, Garbled]:
        """Garble the next comparisons; `flips` marks where the evaluator's bids differ from its transfer choices."""
        n_bids = bid.shape[1]
        if len(flips) != -(-self._width * n_bids // 8):
            raise BadMessage(
                f"bids of {len(flips)} bytes; {self._width} bits were expected of each of {n_bids}"
            )
        flipped = unpack(np.frombuffer(flips, np.uint8), self._width * n_bids).reshape(self._width, n_bids)
        zeros = corrected(self._stock.take(n_bids), flipped, self._delta)
        garbling = self._garbler.garble(compare_bids(self._width, True), n_bids, {self._theirs: zeros})
        tags = garbling.reveal(*OUTPUTS) if reveal else b""
        return garbling, Garbled(garbling.tables, garbling.encode(self._mine, bid), tags)


class EvaluatingSide:
    """The side that evaluates."""

    def __init__(self, session: bytes, width: int, *, is_left: bool) -> None:
        self._width = width
        self._mine, self._theirs = ("left", "right") if is_left else ("right", "left")
        self._evaluator = Evaluator(derive_key(session, b"comparison"))
        self._receiver = TransferReceiver(session)
        self._stock = _Stock(width)
        self._choices: list[Bits] = []
        self._ordered: list[ReceivedBatch] = []
        self._held: Labels | None = None

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._receiver.setup()

    def finish_setup(self, message: bytes) -> None:
        """Process the peer's message of the base transfers."""
        self._receiver.finish_setup(message)

    def order(self, n_rounds: int, making: TripleMaking | None) -> bytes:
        """Draw choices for the labels of `n_rounds` rounds and for triples. Return the message to the garbler."""
        packed = np.frombuffer(os.urandom(n_rounds * -(-self._width // 8)), np.uint8).reshape(n_rounds, -1)
        rows = np.unpackbits(packed, axis=1, count=self._width, bitorder="little")
        for_triples = making.choices if making is not None else np.zeros(0, np.uint8)
        columns, batch = self._receiver.extend(np.concatenate((rows.ravel(), for_triples)))
        self._ordered = batch.split([rows.size, len(for_triples)])
        self._choices = list(rows)
        return columns

    def stock_up(self, labels: bytes, correction: bytes, peer: int, making: TripleMaking | None) -> None:
        """Process the garbler's answer to an order."""
        for_labels, for_triples = self._ordered
        self._stock.refill(for_labels.correlated_xor(labels))
        if making is not None:
            making.absorb(peer, for_triples.random_bits(), correction)

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
        labels: dict[str, Labels | bytes] = {self._mine: self._held, self._theirs: garbled.labels}
        n_bids = self._held.shape[1]
        self._held = None
        return self._evaluator.evaluate(compare_bids(self._width, True), n_bids, garbled.tables, labels)


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
