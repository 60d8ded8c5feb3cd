"""Shares of values in an order that only the other party knows.

The orderer knows an order, the owner one value per place; both end with XOR shares of the values in that order. The
orderer sets the switches of a network (`permutation_network`); the owner draws a mask for every wire.

    owner → orderer    each value ⊕ the mask of its wire
    each switch        one transfer: for inputs masked by a₀, a₁ and outputs by b₀, b₁ the orderer takes
                       (a₀ ⊕ b₀, a₁ ⊕ b₁) to leave them or (a₁ ⊕ b₀, a₀ ⊕ b₁) to exchange them

After the last stage the orderer has the values in its order under masks that the owner knows. It never sees a value
without a mask; the owner sees transfers alone.

Huang, Evans, Katz, "Private Set Intersection: Are Garbled Circuits Better than Custom Protocols?" (NDSS 2012) and
Mohassel, Sadeghian, "How to Hide Circuits in MPC" (EUROCRYPT 2013). Cost of 2^m places: (2·m − 1)·2^(m−1) transfers
of two words. Semi-honest; the number of values is public.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from masquerade.crypto import BadMessage
from masquerade.crypto.permutation_network import Order, depth_for, rearranged, stages_of, switches
from masquerade.crypto.pseudorandom_row_sums import Word, Words
from masquerade.crypto.transfer_batches import ReceivedBatch
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.errors import ParameterError

_MOST_SWITCHES = 1 << 19  # in one message


def batches(places: int) -> Iterator[range]:
    """Yield the stages whose switches go into one message."""
    depth = depth_for(places)
    step = max(1, _MOST_SWITCHES >> (depth - 1))
    for at in range(0, stages_of(depth), step):
        yield range(at, min(at + step, stages_of(depth)))


class Orderer:
    """The side that knows the order: share i is of value order[i]."""

    def __init__(self, transfers: TransferReceiver, order: Order, word: Word) -> None:
        self._transfers, self._word, self._n = transfers, word, len(order)
        self._depth = depth_for(len(order))
        padded = np.arange(1 << self._depth)
        padded[: len(order)] = order
        self._switches = switches(padded)
        self._wires: Words | None = None
        self._asked: tuple[range, ReceivedBatch] | None = None

    def ask(self, stages: range) -> bytes:
        """Return the message that sets the switches of these stages."""
        if self._asked is not None:
            raise ParameterError("the last switches were not received yet")
        message, batch = self._transfers.extend(self._switches[stages.start : stages.stop].ravel())
        self._asked = stages, batch
        return message

    def start(self, message: bytes) -> None:
        """Take the owner's masked values."""
        if len(message) != self._n * self._word.itemsize:
            raise BadMessage(
                f"{self._n} masked values take {self._n * self._word.itemsize} bytes. Got {len(message)} instead."
            )
        self._wires = np.zeros(1 << self._depth, self._word)
        self._wires[: self._n] = np.frombuffer(message, self._word)

    def receive(self, message: bytes) -> None:
        """Pass the values through the stages that were asked for."""
        if self._asked is None or self._wires is None:
            raise ParameterError("the values and the switches come first")
        stages, batch = self._asked
        told = batch.receive(message, 2 * self._word.itemsize)
        self._asked = None
        changes = np.ascontiguousarray(told).view(self._word).reshape(len(stages), -1, 2)
        for stage, change in zip(stages, changes, strict=True):
            pairs = rearranged(self._wires, stage, self._depth).reshape(-1, 2)
            crossed = self._switches[stage].astype(bool)[:, None]
            self._wires = (np.where(crossed, pairs[:, ::-1], pairs) ^ change).reshape(-1)

    def share(self) -> Words:
        """Return this side's share, one word per place."""
        if self._wires is None or self._asked is not None:
            raise ParameterError("some switches are missing")
        return self._wires[: self._n]


class Owner:
    """The side that knows the values."""

    def __init__(self, transfers: TransferSender, values: Words) -> None:
        self._transfers, self._word, self._n = transfers, values.dtype, len(values)
        self._depth = depth_for(len(values))
        self._masks = self._random()
        self._masks[self._n :] = 0  # the places beyond the values are known to be 0
        self.start = (values ^ self._masks[: self._n]).tobytes()

    def answer(self, message: bytes, stages: range) -> bytes:
        """Return what every setting of these stages' switches gives."""
        half = 1 << (self._depth - 1)
        batch = self._transfers.extend(message, len(stages) * half)
        changes = np.empty((2, len(stages), half, 2), self._word)
        for at, stage in enumerate(stages):
            pairs = rearranged(self._masks, stage, self._depth).reshape(-1, 2)
            self._masks = self._random()
            out = self._masks.reshape(-1, 2)
            changes[0, at] = pairs ^ out
            changes[1, at] = pairs[:, ::-1] ^ out
        rows = changes.reshape(2, len(stages) * half, 2).view(np.uint8)
        return batch.send(rows[0], rows[1])

    def share(self) -> Words:
        """Return this side's share, one word per place."""
        return self._masks[: self._n]

    def _random(self) -> Words:
        size = 1 << self._depth
        return np.frombuffer(bytearray(os.urandom(size * self._word.itemsize)), self._word)
