"""Pseudorandom streams of many seeds at once: block c of seed s is π(s ⊕ c) ⊕ s.

That is the cipher of Even and Mansour (1997) with one key, s, in counter mode; π is AES-128 under a key of the session,
which is public. In the ideal permutation model, with D blocks of all seeds together and T calls of π beside them, an
attacker's chance of telling them from random is at most about (D² + 2·D·T) / 2^128 (Mouha, Luykx, CRYPTO 2015). One
call of the library serves all seeds, where a cipher keyed with each seed would cost a call for each.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.crypto.hashing import Blocks


class SeedStreams:
    """The streams of some seeds, each block read once."""

    def __init__(self, session_key: bytes, seeds: Blocks) -> None:
        self._permute = Cipher(algorithms.AES(session_key), modes.ECB()).encryptor()  # noqa: S305 - a permutation
        self._seeds = seeds.copy()
        self._repeated = (
            self._seeds
        )  # each seed as often as a read has blocks, so that XORs run along whole rows
        self._next = 0

    def read(self, width: int) -> NDArray[np.uint64]:
        """Return the next `width` bytes of every seed, a multiple of 16; uint64[seeds, width / 8]."""
        n_seeds, n_words = len(self._seeds), width // 8
        if n_words > self._repeated.shape[1]:
            self._repeated = np.tile(self._seeds, (1, n_words // 2))
        seeds = self._repeated[:, :n_words]
        counters = np.zeros(n_words, np.uint64)
        counters[::2] = np.arange(self._next, self._next + n_words // 2, dtype=np.uint64)
        self._next += n_words // 2
        inner = np.empty((n_seeds, n_words), np.uint64)
        np.bitwise_xor(seeds, counters, out=inner)
        outer = np.empty(n_seeds * n_words + 2, np.uint64)  # a block more: OpenSSL needs the room
        self._permute.update_into(inner.data.cast("B"), outer.data.cast("B"))
        made = outer[:-2].reshape(n_seeds, n_words)
        made ^= seeds
        return made
