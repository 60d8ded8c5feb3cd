"""Rings for additive shares: the integers modulo 2^k (k ≤ 64, or 512), over numpy arrays.

An element is a uint64 below the modulus, of 512 bits a Python integer. Both have the same interface, so that products,
sums and correlated transfers are written once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.crypto.hashing import BLOCK_BYTES, expand, random_bytes
from masquerade.errors import BadMessage, ParameterError

Elements: TypeAlias = NDArray[np.uint64]


class PowerOfTwo:
    """The integers modulo 2^bits; an element is made of `words` random 64-bit words."""

    words = 1

    def __init__(self, bits: int) -> None:
        if not 1 <= bits <= 64:
            raise ParameterError(f"a ring's bits must lie between 1 and 64. Got {bits} instead.")
        self.modulus = 1 << bits
        self.element_bytes = -(-bits // 8)
        self._mask = np.uint64(self.modulus - 1)

    @property
    def bits(self) -> int:
        """The number of bits of an element."""
        return (self.modulus - 1).bit_length()

    def elements(self, values: ArrayLike) -> Elements:
        """Convert integers to elements; negative ones count down from the modulus, larger ones are an error."""
        array = np.asarray(values)
        if array.size == 0:
            return np.zeros(array.shape, np.uint64)
        if not np.issubdtype(array.dtype, np.integer) and array.dtype != object:
            raise ParameterError(f"elements must be whole numbers. Got {array.dtype} instead.")
        if int(array.max()) >= self.modulus or int(array.min()) < -(self.modulus - 1):
            raise ParameterError(f"elements must lie between −{self.modulus - 1} and {self.modulus - 1}")
        if array.dtype == np.uint64:
            return array
        return np.where(array < 0, self._negate(np.abs(array).astype(np.uint64)), array.astype(np.uint64))

    def random(self, shape: int | tuple[int, ...]) -> Elements:
        """Draw fresh secret elements."""
        return self.from_seed(random_bytes(BLOCK_BYTES), shape)

    def from_seed(self, seed: bytes, shape: int | tuple[int, ...]) -> Elements:
        """Return the pseudorandom elements of a 16-byte seed."""
        shape = shape if isinstance(shape, tuple) else (shape,)
        count = int(np.prod(shape))
        words = expand(seed, 8 * self.words * count).view(np.uint64)
        return self.from_words(words.reshape(*shape, self.words))

    def subtract(self, left: Elements, right: Elements) -> Elements:
        """Compute left − right."""
        return self.add(left, self._negate(right))

    def encode(self, elements: Elements) -> bytes:
        """Encode elements in `element_bytes` bytes each, lowest first."""
        raw = np.ascontiguousarray(elements).view(np.uint8).reshape(-1, 8)
        return raw[:, : self.element_bytes].tobytes()

    def decode(self, data: bytes, count: int) -> Elements:
        """Decode `count` elements from a peer's message."""
        if len(data) != count * self.element_bytes:
            raise BadMessage(f"{count} elements take {count * self.element_bytes} bytes. Got {len(data)} instead.")
        raw = np.zeros((count, 8), np.uint8)
        raw[:, : self.element_bytes] = np.frombuffer(data, np.uint8).reshape(count, self.element_bytes)
        elements: Elements = raw.view(np.uint64)[:, 0]
        if count and int(elements.max()) >= self.modulus:
            raise BadMessage(f"elements must lie below {self.modulus}")
        return elements

    def from_words(self, words: Elements) -> Elements:
        """Return the lowest bits of each word."""
        return words[..., 0] & self._mask

    def add(self, left: Elements, right: Elements) -> Elements:
        """Compute left + right."""
        return np.asarray((left + right) & self._mask)

    def multiply(self, left: Elements, right: Elements) -> Elements:
        """Compute left · right."""
        return np.asarray((left * right) & self._mask)

    def total(self, elements: Elements, axis: int = 0) -> Elements:
        """Sum along one axis."""
        return np.asarray(elements.sum(axis=axis, dtype=np.uint64) & self._mask)

    def _negate(self, elements: Elements) -> Elements:
        return np.asarray((~elements + np.uint64(1)) & self._mask)


class WidePowerOfTwo(PowerOfTwo):
    """The integers modulo 2^512, as arrays of Python's: for hundreds of numbers, not for millions."""

    words = 8

    def __init__(self) -> None:
        self.modulus = 1 << 512
        self.element_bytes = 64

    def elements(self, values: ArrayLike) -> Elements:
        """Convert integers to elements; negative ones count down from the modulus."""
        return self._reduced(np.asarray(values, dtype=object))

    def from_words(self, words: Elements) -> Elements:
        """Return the number of eight words, the lowest first."""
        places = np.array([1 << 64 * place for place in range(self.words)], dtype=object)
        return np.asarray((words.astype(object) * places).sum(axis=-1), dtype=object)

    def encode(self, elements: Elements) -> bytes:
        """Encode elements in 64 bytes each, lowest first."""
        return b"".join(int(each).to_bytes(self.element_bytes, "little") for each in elements.ravel())

    def decode(self, data: bytes, count: int) -> Elements:
        """Decode `count` elements from a peer's message."""
        size = self.element_bytes
        if len(data) != count * size:
            raise BadMessage(f"{count} elements take {count * size} bytes. Got {len(data)} instead.")
        starts = range(0, len(data), size)
        return np.array([int.from_bytes(data[at : at + size], "little") for at in starts], dtype=object)

    def add(self, left: Elements, right: Elements) -> Elements:
        """Compute left + right."""
        return self._reduced(left + right)

    def multiply(self, left: Elements, right: Elements) -> Elements:
        """Compute left · right."""
        return self._reduced(left * right)

    def total(self, elements: Elements, axis: int = 0) -> Elements:
        """Sum along one axis."""
        return self._reduced(elements.sum(axis=axis))

    def signed(self, elements: Elements) -> list[int]:
        """Return elements as integers around 0."""
        half = self.modulus // 2
        return [(int(each) + half) % self.modulus - half for each in elements]

    def _negate(self, elements: Elements) -> Elements:
        return self._reduced(-elements)  # objects, so that nothing wraps around

    def _reduced(self, numbers: Elements) -> Elements:
        return np.asarray(numbers % self.modulus, dtype=object)
