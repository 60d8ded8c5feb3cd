"""Shares of products x·y modulo 2^k, where one party has x and the other y.

Gilboa, "Two Party RSA Key Generation" (CRYPTO 1999): for each bit y_i a correlated transfer with difference 2^i·x
leaves the parties with −r and r + y_i·2^i·x. Bit i needs only the lowest k − i bits of its difference, so
the transfers shrink. x may be a row of numbers, each of which is multiplied by y: the transfers are no more, only
longer.

Two messages: 16 bytes per bit and y one way (IKNP), one element per bit and product back. Perfectly hidden up to
the transfers; a party that takes wrong inputs gets shares of a wrong product, nothing more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from masquerade.crypto.bits import digits
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.crypto.transfer_extension import ReceivedBatch, TransferReceiver, TransferSender
from masquerade.errors import BadMessage, ParameterError


class ProductSender:
    """The party that has x, and the sender of the transfers. `places`: the most bits that y can have."""

    def __init__(self, transfers: TransferSender, ring: PowerOfTwo, places: int | None = None) -> None:
        self._transfers = transfers
        self._ring = ring
        self._places = _places(ring, places)

    def multiply(self, message: bytes, values: ArrayLike) -> tuple[Elements, bytes]:
        """Return our shares of all products, and the answer to the receiver's message; one x or row of them per y."""
        ring, places = self._ring, self._places
        x = ring.elements(values)
        batch = self._transfers.extend(message, places * len(x))
        total, answers = np.zeros_like(x), []
        for place, part in enumerate(batch.split([len(x)] * places)):
            smaller = PowerOfTwo(ring.bits - place)
            ours, answer = part.correlate(smaller, x & np.uint64(smaller.modulus - 1))
            total = ring.subtract(total, ring.multiply(ours, np.full_like(ours, 1 << place)))
            answers.append(answer)
        return total, b"".join(answers)


class ProductReceiver:
    """The party that has y, and the receiver of the transfers."""

    def __init__(self, transfers: TransferReceiver, ring: PowerOfTwo, places: int | None = None) -> None:
        self._transfers = transfers
        self._ring = ring
        self._places = _places(ring, places)
        self._waiting: ReceivedBatch | None = None

    def ask(self, values: ArrayLike) -> bytes:
        """Return the message to the sender that starts the products with these y."""
        if self._waiting is not None:
            raise ParameterError("the last products were not received yet")
        y = self._ring.elements(values)
        if y.size and int(y.max()) >> self._places:
            raise ParameterError(f"factors must have at most {self._places} binary digits")
        message, self._waiting = self._transfers.extend(digits(y, self._places).ravel())
        return message

    def multiply(self, message: bytes, width: int | None = None) -> Elements:
        """Return our shares of all products, from the sender's answer; `width` for each y, when x are rows."""
        if self._waiting is None:
            raise ParameterError("no products were asked for")
        ring, places = self._ring, self._places
        count = len(self._waiting) // places
        shape = (count,) if width is None else (count, width)
        n_products = count * (width or 1)
        sizes = [n_products * PowerOfTwo(ring.bits - place).element_bytes for place in range(places)]
        if len(message) != sum(sizes):
            raise BadMessage(f"{n_products} products take {sum(sizes)} bytes. Got {len(message)} instead.")
        total, at = np.zeros(shape, np.uint64), 0
        batch, self._waiting = self._waiting, None
        for place, part in enumerate(batch.split([count] * places)):
            ours = part.correlated(PowerOfTwo(ring.bits - place), message[at : at + sizes[place]], width)
            total = ring.add(total, ring.multiply(ours, np.full_like(ours, 1 << place)))
            at += sizes[place]
        return total


def _places(ring: PowerOfTwo, places: int | None) -> int:
    if places is not None and not 1 <= places <= ring.bits:
        raise ParameterError(f"a factor's binary digits must lie between 1 and {ring.bits}. Got {places} instead.")
    return places or ring.bits
