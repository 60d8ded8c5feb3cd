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

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits
from masquerade.crypto.hashing import random_bytes
from masquerade.crypto.punctured_trees import Words, WordType
from masquerade.crypto.transfer_extension import ReceivedBatch, TransferReceiver, TransferSender
from masquerade.errors import BadMessage, ParameterError

# --- permutation network ------------------------------------------------------------------------------------
# A permutation as switches that each exchange two neighbours or do not: Beneš's network ("Optimal
# Rearrangeable Multistage Connecting Networks", 1964).
#
# For 2^m places there are 2·m − 1 stages of 2^(m−1) switches. Stage 0 sends one of each two neighbours to
# the upper and one to the lower half, each half is a network of its own, and the last stage brings
# neighbours together again:
#
#     stages 0 … m − 2       switch neighbours, then sort the places of each network by their last digit
#     stage m − 1            switch neighbours
#     stages m … 2·m − 2     the reverse: shuffle the halves of each network, then switch neighbours
#
# Which switches are set depends on the permutation, everything else on m alone. Whoever goes to a half
# forces its neighbour into the other one, at the input and at the output: these constraints form cycles,
# and one choice in each is free. All networks of a stage are routed at once, and cycles by pointer
# doubling: (log₂ n)² passes over n numbers.

Order = NDArray[np.int64]
_Scalar = TypeVar("_Scalar", bound=np.generic)


def depth_for(places: int) -> int:
    """Return m of the smallest network whose 2^m places are enough; at least one switch."""
    return max(1, (places - 1).bit_length())


def stages_of(depth: int) -> int:
    """Return the number of stages of a network of 2^`depth` places."""
    return 2 * depth - 1


def switches(order: Order) -> Bits:
    """Return the switches, uint8[stages, places / 2], that turn v into v[order]; there are 2^m places, m ≥ 1."""
    size = len(order)
    if size < 2 or size & (size - 1):
        raise ParameterError(f"a network has a power of two of places. Got {size} instead.")
    places = np.arange(size)
    to = _inverse(order)
    first: list[Bits] = []
    last: list[Bits] = []
    width = size
    while width > 2:
        come_from = _inverse(to)
        # The input whose output neighbours that of our neighbour must go to the same half as we do.
        lowest = _lowest_of_cycle(come_from[to[places ^ 1] ^ 1])
        lower = (lowest > lowest[places ^ 1]).astype(np.int64)  # which half each input goes to
        out = lower[come_from]
        first.append(lower[::2].astype(np.uint8))
        last.append(out[::2].astype(np.uint8))
        within = (places & ~(width - 1)) + ((places & (width - 1)) >> 1)
        following = np.empty_like(to)
        following[within + lower * (width // 2)] = (within + out * (width // 2))[to]
        to = following
        width //= 2
    return np.stack([*first, (to[::2] & 1).astype(np.uint8), *reversed(last)])


def rearranged(wires: NDArray[_Scalar], stage: int, depth: int) -> NDArray[_Scalar]:
    """Return the wires in the order in which the switches of this stage take them, from that of the stage before."""
    if stage == 0:
        return wires
    if stage < depth:
        halves: NDArray[Any] = wires.reshape(1 << (stage - 1), -1, 2)
    else:
        halves = wires.reshape(1 << (2 * depth - 2 - stage), 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(-1)


def _inverse(order: Order) -> Order:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return inverse


def _lowest_of_cycle(step: Order) -> Order:
    """Return the lowest place of the cycle that each place is on."""
    lowest = np.arange(len(step))
    for _ in range(depth_for(len(step))):
        lowest = np.minimum(lowest, lowest[step])
        step = step[step]
    return lowest


# --- oblivious permutation ----------------------------------------------------------------------------------

_MOST_SWITCHES = 1 << 19  # in one message


def batches(places: int) -> Iterator[range]:
    """Yield the stages whose switches go into one message."""
    depth = depth_for(places)
    step = max(1, _MOST_SWITCHES >> (depth - 1))
    for at in range(0, stages_of(depth), step):
        yield range(at, min(at + step, stages_of(depth)))


class Orderer:
    """The side that knows the order: share i is of value order[i]."""

    def __init__(self, transfers: TransferReceiver, order: Order, word: WordType) -> None:
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
        return np.frombuffer(bytearray(random_bytes(size * self._word.itemsize)), self._word)
