"""The uses of a batch of extended transfers: random, correlated or chosen values.

| kind | sender has | receiver has | extra message from the sender |
|---|---|---|---|
| random | two random blocks, or bits | the chosen one | none |
| correlated, XOR | x | x ⊕ r·Δ | 16 bytes per transfer |
| correlated by the sender's secret Δ | x | x ⊕ r·Δ | none |
| correlated, ring | x | x + r·Δ | one element per transfer |
| chosen | m₀, m₁ | m_r | both, masked |

Ishai et al. 2003 for chosen values; Asharov, Lindell, Schneider, Zohner, "More Efficient Oblivious Transfer and
Extensions for Faster Secure Computation" (CCS 2013) for the correlated and random kinds.

A batch is used once, for one kind: its hash values are one-time pads. `split` cuts it into parts that may be used for
different kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Self

import numpy as np

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import Bits, choose
from masquerade.crypto.hashing import Blocks, Bytes, TweakedHash, as_blocks, blocks_from_bytes
from masquerade.crypto.rings import Elements, Ring
from masquerade.errors import ParameterError

_AT_A_TIME = 1 << 12


class _Batch(ABC):
    """Rows of the extension with their consecutive numbers, to be used once."""

    def __init__(self, rows: Blocks) -> None:
        self._rows = rows
        self._used = False

    def __len__(self) -> int:
        return len(self._rows)

    def split(self, sizes: Sequence[int]) -> list[Self]:
        """Split into consecutive parts of these sizes, which must add up to the whole batch."""
        if sum(sizes) != len(self) or any(size < 0 for size in sizes):
            raise ParameterError(
                f"the parts of a batch must make up its {len(self)} transfers. Got {sum(sizes)}."
            )
        self._use()
        ends = np.cumsum([0, *sizes]).tolist()
        return [self._part(start, end) for start, end in pairwise(ends)]

    def _use(self) -> None:
        if self._used:
            raise ParameterError("these transfers were used before: a second use would reuse their pads")
        self._used = True

    @abstractmethod
    def _part(self, start: int, end: int) -> Self:
        """Return the transfers from `start` up to, excluding, `end`."""


class SentBatch(_Batch):
    """The sender's side of a batch."""

    def __init__(self, hashing: TweakedHash, first: int, rows: Blocks, secret: Blocks) -> None:
        super().__init__(rows)
        self._hash = hashing
        self._first = first
        self._secret = secret

    def random(self) -> tuple[Blocks, Blocks]:
        """Return two random blocks per transfer; the receiver has one of them."""
        self._use()
        return self._pads(2)

    def random_bits(self) -> tuple[Bits, Bits]:
        """Return two random bits per transfer; the receiver has one of them."""
        self._use()
        zeros, ones = np.empty(len(self), np.uint8), np.empty(len(self), np.uint8)
        secrets = np.tile(self._secret, (_AT_A_TIME, 1))  # XORs of whole arrays are the fastest
        for part in _parts(len(self)):
            rows, first = self._rows[part], self._first + part.start
            zeros[part] = _lowest_bits(self._hash.hash(rows, first))
            ones[part] = _lowest_bits(self._hash.hash(rows ^ secrets[: len(rows)], first))
        return zeros, ones

    def correlated_by_secret(self) -> Blocks:
        """Return blocks x, of which the receiver has x ⊕ r·Δ for the secret of these transfers."""
        self._use()
        return self._rows

    def correlate_xor(self, delta: Blocks) -> tuple[Blocks, bytes]:
        """Return blocks x, and the message that gives the receiver x ⊕ r·Δ. One Δ for all, or one for each."""
        deltas = np.broadcast_to(delta, (len(self), 2))
        if deltas.dtype != np.uint64:
            raise ParameterError(f"a difference must be uint64 words. Got {deltas.dtype} instead.")
        self._use()
        zeros, ones = self._pads(2)
        return zeros, (zeros ^ ones ^ deltas).tobytes()

    def correlate(self, ring: Ring, deltas: Elements) -> tuple[Elements, bytes]:
        """Return elements x, and the message that gives the receiver x + r·Δ; one Δ or row of them per transfer."""
        if len(deltas) != len(self) or deltas.dtype != np.uint64:
            raise ParameterError(
                f"{len(self)} transfers need as many differences. Got {len(deltas)} instead."
            )
        self._use()
        width = int(np.prod(deltas.shape[1:], dtype=np.int64))
        zeros, ones = (_elements(ring, pads, deltas.shape) for pads in self._pads(ring.words * width))
        return zeros, ring.encode(ring.add(ring.subtract(zeros, ones), deltas))

    def send(self, zeros: Bytes, ones: Bytes) -> bytes:
        """Return the message that gives the receiver its choice of each pair of rows, uint8[n, size]."""
        if zeros.shape != ones.shape or zeros.ndim != 2 or len(zeros) != len(self) or not zeros.shape[1]:
            raise ParameterError(
                f"{len(self)} transfers need two arrays uint8[{len(self)}, size]. Got {zeros.shape}, {ones.shape}."
            )
        self._use()
        pads = self._pads(-(-zeros.shape[1] // 8))
        return b"".join(
            (_raw(pad, zeros.shape[1]) ^ message).tobytes()
            for pad, message in zip(pads, (zeros, ones), strict=True)
        )

    def _pads(self, words: int) -> tuple[Elements, Elements]:
        return (
            self._hash.stretch(self._rows, self._first, words),
            self._hash.stretch(self._rows ^ self._secret, self._first, words),
        )

    def _part(self, start: int, end: int) -> SentBatch:
        return SentBatch(self._hash, self._first + start, self._rows[start:end], self._secret)


class ReceivedBatch(_Batch):
    """The receiver's side of a batch."""

    def __init__(self, hashing: TweakedHash, first: int, rows: Blocks, choices: Bits) -> None:
        super().__init__(rows)
        self._hash = hashing
        self._first = first
        self.choices = choices

    def random(self) -> Blocks:
        """Return the chosen one of the sender's two random blocks in each transfer."""
        self._use()
        return self._pads(2)

    def random_bits(self) -> Bits:
        """Return the chosen one of the sender's two random bits in each transfer."""
        self._use()
        chosen = np.empty(len(self), np.uint8)
        for part in _parts(len(self)):
            chosen[part] = _lowest_bits(self._hash.hash(self._rows[part], self._first + part.start))
        return chosen

    def correlated_by_secret(self) -> Blocks:
        """Return x ⊕ r·Δ for the sender's secret Δ: labels of a circuit that it garbles with this difference."""
        self._use()
        return self._rows

    def correlated_xor(self, message: bytes) -> Blocks:
        """Return x ⊕ r·Δ for the sender's x and Δ."""
        changes = blocks_from_bytes(message, len(self))
        self._use()
        return self._pads(2) ^ choose(self.choices, as_blocks(changes))

    def correlated(self, ring: Ring, message: bytes, width: int | None = None) -> Elements:
        """Return x + r·Δ for the sender's x and Δ; `width` elements per transfer when Δ has rows."""
        shape = (len(self),) if width is None else (len(self), width)
        changes = ring.decode(message, int(np.prod(shape))).reshape(shape)
        self._use()
        pads = _elements(ring, self._pads(ring.words * (width or 1)), shape)
        return ring.add(pads, choose(self.choices, changes))

    def receive(self, message: bytes, size: int) -> Bytes:
        """Return the chosen rows, uint8[n, size]."""
        if len(message) != 2 * len(self) * size:
            raise BadMessage(
                f"{len(self)} pairs of {size} bytes take {2 * len(self) * size} bytes. Got {len(message)} instead."
            )
        self._use()
        pairs = np.frombuffer(message, np.uint8).reshape(2, len(self), size)
        mask = (np.uint8(0) - self.choices)[:, None]
        chosen = pairs[0] ^ ((pairs[0] ^ pairs[1]) & mask)
        return np.asarray(chosen ^ _raw(self._pads(-(-size // 8)), size))

    def _pads(self, words: int) -> Elements:
        return self._hash.stretch(self._rows, self._first, words)

    def _part(self, start: int, end: int) -> ReceivedBatch:
        return ReceivedBatch(self._hash, self._first + start, self._rows[start:end], self.choices[start:end])


def _elements(ring: Ring, pads: Elements, shape: tuple[int, ...]) -> Elements:
    return ring.from_words(pads.reshape(*shape, ring.words))


def _raw(pads: Elements, size: int) -> Bytes:
    return np.ascontiguousarray(pads).view(np.uint8)[:, :size]


def _parts(count: int) -> Iterator[slice]:
    """Yield the parts in which many rows are hashed for a bit each, so that what comes between stays in the cache."""
    for start in range(0, count, _AT_A_TIME):
        yield slice(start, min(start + _AT_A_TIME, count))


def _lowest_bits(blocks: Blocks) -> Bits:
    return (blocks[:, 0] & np.uint64(1)).astype(np.uint8)
