"""Two sides of extended transfers in one process, and what "looks random" means here."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import TransferReceiver, TransferSender


def set_up(session: bytes = b"session, a to b") -> tuple[TransferSender, TransferReceiver]:
    sender, receiver = TransferSender(session), TransferReceiver(session)
    to_receiver, to_sender = sender.setup(), receiver.setup()
    sender.finish_setup(to_sender)
    receiver.finish_setup(to_receiver)
    return sender, receiver


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
