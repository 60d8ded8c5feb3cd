"""The hash that breaks correlations (for transfers and garbled gates) and the generator that expands seeds.

    H(x, i) = π(π(x) ⊕ i) ⊕ π(x),   π = AES-128 under a key that is fresh for the session

This is the TMMO construction of Guo, Katz, Wang, Yu, "Efficient and Secure Multiparty Computation from
Fixed-Key Block Ciphers" (IEEE S&P 2020): tweakable circular correlation robust when π is an ideal
permutation, hence suitable for OT extension and for half-gates with free XOR. Two AES calls per block.

A block is two 64-bit words, the lower first; an array of blocks is uint64[n, 2]. Words are little-endian in
memory, as on every machine that numpy's wheels are built for. π is public: the key is not secret, but must not be
known when labels and seeds are drawn, which a nonce from both parties ensures.

What it does not protect against: with C hashed blocks and T offline AES calls an attacker's chance grows as
C·T / 2^128, so a key must not be used for ever; hence one per session.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from masquerade.errors import BadMessage, ParameterError

Blocks = NDArray[np.uint64]  # uint64[n, 2]
Bytes = NDArray[np.uint8]
Tweaks = int | NDArray[np.uint64]

BLOCK_BYTES = 16
_CHUNK = 1 << 13  # blocks at a time: 128 kB a buffer stays in the cache


class TweakedHash:
    """H(x, i) over whole arrays. Both parties of a session give the same 16-byte key."""

    def __init__(self, session_key: bytes) -> None:
        if len(session_key) != BLOCK_BYTES:
            raise ParameterError(f"a hash's session key has {BLOCK_BYTES} bytes. Got {len(session_key)} instead.")
        self._cipher = Cipher(algorithms.AES(session_key), modes.ECB())  # noqa: S305 - a permutation, no mode

    def hash(self, blocks: Blocks, tweaks: Tweaks) -> Blocks:
        """Return H of each block under its tweak.

        Tweaks are uint64[n], or uint64[n, 2] for all 128 bits, or the first of n consecutive numbers. A tweak may
        recur only with blocks of the same gate or transfer: `TweakCounter` hands out fresh ones.
        """
        blocks = as_blocks(blocks)
        lows, highs = _split(tweaks, len(blocks))
        permute = self._cipher.encryptor()
        out = np.empty_like(blocks)
        inner = np.empty((min(_CHUNK, len(blocks)) + 1, 2), np.uint64)  # one more: OpenSSL needs the room
        outer = np.empty_like(inner)
        for at in range(0, len(blocks), _CHUNK):
            size = min(_CHUNK, len(blocks) - at)
            permute.update_into(_raw(blocks[at : at + size]), _raw(inner))
            np.bitwise_xor(inner[:size, 0], lows[at : at + size], out=out[at : at + size, 0])
            np.bitwise_xor(inner[:size, 1], highs[at : at + size], out=out[at : at + size, 1])
            permute.update_into(_raw(out[at : at + size]), _raw(outer))
            np.bitwise_xor(outer[:size], inner[:size], out=out[at : at + size])
        return out

    def expand(self, blocks: Blocks, tweaks: Tweaks, words: int) -> NDArray[np.uint64]:
        """Return `words` pseudorandom 64-bit words per block: H under the tweaks (i, 0), (i, 1), …"""
        lows, highs = _split(tweaks, len(blocks))
        if highs.any():
            raise ParameterError("tweaks of an expanded block have 64 bits: the upper half counts")
        rounds = -(-words // 2)
        if rounds == 1:  # the most frequent case, without the copies
            return self.hash(blocks, lows)[:, :words]
        wide = np.empty((len(blocks), rounds, 2), np.uint64)
        wide[:, :, 0] = lows[:, None]
        wide[:, :, 1] = np.arange(rounds, dtype=np.uint64)
        hashed = self.hash(np.repeat(as_blocks(blocks), rounds, axis=0), wide.reshape(-1, 2))
        return hashed.reshape(len(blocks), 2 * rounds)[:, :words]


class TweakCounter:
    """Hands out tweaks, each once: using a tweak for two gates or transfers would correlate them."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> int:
        """Return the first of `count` fresh consecutive tweaks."""
        first = self._next
        self.claim(first, count)
        return first

    def claim(self, first: int, count: int) -> None:
        """Reserve first … first + count − 1, which must exceed all tweaks used before."""
        if count < 0 or first + count > 1 << 64:
            raise ParameterError(f"the number of tweaks must lie between 0 and 2^64. Got {count} instead.")
        if first < self._next:
            raise ParameterError(f"tweak {first} was used before: the next fresh one is {self._next}")
        self._next = first + count


class Stream:
    """The pseudorandom bytes derived from a 16-byte seed (AES-128 in counter mode), each read once."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != BLOCK_BYTES:
            raise ParameterError(f"a seed has {BLOCK_BYTES} bytes. Got {len(seed)} instead.")
        self._encryptor = Cipher(algorithms.AES(seed), modes.CTR(bytes(BLOCK_BYTES))).encryptor()

    def read(self, count: int) -> Bytes:
        """Return the next `count` bytes as a read-only array."""
        if count < 0:
            raise ParameterError(f"the number of bytes must not be negative. Got {count} instead.")
        return np.frombuffer(self._encryptor.update(bytes(count)), np.uint8)


def expand(seed: bytes, count: int) -> Bytes:
    """Return the first `count` pseudorandom bytes of a 16-byte seed. Use a seed for one purpose only."""
    return Stream(seed).read(count)


def expand_blocks(seed: bytes, count: int) -> Blocks:
    """Return the first `count` pseudorandom blocks of a 16-byte seed."""
    return expand(seed, BLOCK_BYTES * count).view(np.uint64).reshape(count, 2)


def random_bytes(count: int) -> bytes:
    """Draw fresh secret bytes: here alone, for every key, mask and shuffle of a protocol."""
    return os.urandom(count)


def random_blocks(count: int) -> Blocks:
    """Draw fresh secret blocks."""
    return expand_blocks(random_bytes(BLOCK_BYTES), count)


def derive_key(secret: bytes, *purpose: bytes) -> bytes:
    """Derive a 16-byte key for a purpose, unrelated to the keys for all other purposes."""
    digest = hashlib.sha256(b"masquerade/crypto/1\0" + len(secret).to_bytes(8, "big") + secret)
    for part in purpose:
        digest.update(len(part).to_bytes(8, "big") + part)  # with lengths, so that no two lists hash alike
    return digest.digest()[:BLOCK_BYTES]


def as_blocks(data: Blocks) -> Blocks:
    """Check that an array is uint64[n, 2] and return it contiguous in memory."""
    if data.dtype != np.uint64 or data.ndim != 2 or data.shape[1] != 2:
        raise ParameterError(f"blocks must be uint64[n, 2]. Got {data.dtype}{list(data.shape)} instead.")
    return np.ascontiguousarray(data)


def blocks_from_bytes(data: bytes, count: int) -> Blocks:
    """Decode `count` blocks from a peer's message."""
    if len(data) != BLOCK_BYTES * count:
        raise BadMessage(f"{count} blocks take {BLOCK_BYTES * count} bytes. Got {len(data)} instead.")
    return np.frombuffer(data, np.uint64).reshape(count, 2)


def _split(tweaks: Tweaks, count: int) -> tuple[Blocks, Blocks]:
    zeros = np.broadcast_to(np.uint64(0), (count,))
    if isinstance(tweaks, int):
        if tweaks < 0 or tweaks + count > 1 << 64:
            raise ParameterError("tweaks must lie between 0 and 2^64 − 1")
        return np.arange(count, dtype=np.uint64) + np.uint64(tweaks), zeros
    if tweaks.dtype != np.uint64 or tweaks.shape not in ((count,), (count, 2)):
        raise ParameterError(
            f"tweaks must be uint64[{count}] or uint64[{count}, 2]. Got {tweaks.dtype}{list(tweaks.shape)} instead."
        )
    return (tweaks, zeros) if tweaks.ndim == 1 else (tweaks[:, 0], tweaks[:, 1])


def _raw(blocks: Blocks) -> memoryview:
    return blocks.data.cast("B")


# --- seed streams -------------------------------------------------------------------------------------------
# Pseudorandom streams of many seeds at once: block c of seed s is π(s ⊕ c) ⊕ s.
#
# That is the cipher of Even and Mansour (1997) with one key, s, in counter mode; π is AES-128 under a key
# of the session, which is public. In the ideal permutation model, with D blocks of all seeds together and T
# calls of π beside them, an attacker's chance of telling them from random is at most about (D² + 2·D·T) /
# 2^128 (Mouha, Luykx, CRYPTO 2015). One call of the library serves all seeds, where a cipher keyed with
# each seed would cost a call for each.


class SeedStreams:
    """The streams of some seeds, each block read once."""

    def __init__(self, session_key: bytes, seeds: Blocks) -> None:
        self._permute = Cipher(algorithms.AES(session_key), modes.ECB()).encryptor()  # noqa: S305 - a permutation
        self._seeds = seeds.copy()
        self._repeated = self._seeds  # each seed as often as a read has blocks, so that XORs run along whole rows
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
