"""Two sides of extended transfers in one process, additive shares, comparisons, and what "looks random" means here."""

from __future__ import annotations

import os
from functools import reduce
from itertools import count

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.crypto import Builder, Circuit, Elements, PowerOfTwo, TransferReceiver, TransferSender, words

NARROW, WIDE = np.dtype(np.uint16), np.dtype(np.uint32)
Transfers = tuple[TransferSender, TransferReceiver]
_uses = count()


def fresh(what: bytes) -> bytes:
    """A session's text that nobody has used yet."""
    return b"%s %d" % (what, next(_uses))


def set_up(session: bytes = b"session, a to b") -> Transfers:
    sender, receiver = TransferSender(session), TransferReceiver(session)
    to_receiver, to_sender = sender.setup(), receiver.setup()
    sender.finish_setup(to_sender)
    receiver.finish_setup(to_receiver)
    return sender, receiver


def share(values: ArrayLike, parties: int, ring: PowerOfTwo) -> list[Elements]:
    elements = ring.elements(values)
    others = [ring.random(elements.shape) for _ in range(parties - 1)]
    return [*others, reduce(ring.subtract, others, elements)]


def comparison(width: int, shallow: bool = False) -> Circuit:
    """Whether left < right."""
    build = Builder()
    left, right = build.input("left", width), build.input("right", width)
    build.output("right is larger", [words.less_than(build, left, right, shallow=shallow)])
    return build.build()


def random_bits(count: int) -> NDArray[np.uint8]:
    return np.frombuffer(os.urandom(count), np.uint8) & 1


def balanced(bits: NDArray[np.uint8]) -> bool:
    """As many ones as zeros, within seven standard deviations: a fair coin fails once in 10^11 runs."""
    return abs(int(bits.sum(dtype=np.int64)) - bits.size / 2) < 3.5 * np.sqrt(bits.size)


def looks_random(data: bytes) -> bool:
    """Each of the eight places is balanced, and all byte values are about as frequent (chi-square, 255 degrees)."""
    values = np.frombuffer(data, np.uint8)
    expected = len(values) / 256
    chi_square = float(((np.bincount(values, minlength=256) - expected) ** 2 / expected).sum())
    places = np.unpackbits(values[:, None], axis=1)
    return all(balanced(places[:, place]) for place in range(8)) and 110 < chi_square < 440
