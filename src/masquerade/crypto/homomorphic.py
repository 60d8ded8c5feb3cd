"""What both additively homomorphic schemes share: keys, noise by table, packing, and ciphertexts as bytes.

A ciphertext is an element of a group (a number below `group`): a message part times noise, a random power of a
public base. Multiplying ciphertexts adds messages. The noise's exponent always has the full length of the base's
order plus 64 bits, so that it is within 2^-64 of uniform: a re-randomised answer then reveals to the owner of the key
its message and nothing about how it was computed. (Okamoto and Uchiyama's text, and the DkA paper, take short
exponents: the owner of the key could tell from the noise which ciphertexts were multiplied.)

Protects encrypted messages against everybody but the owner of the key (chosen-plaintext security), and no more:
anybody can change a ciphertext, and an owner that reveals what strangers' ciphertexts decrypt to gives its key away.
Arithmetic is not constant-time. An honestly generated key is assumed, but by `PaillierPublic.mask`: the shape of a key
is checked, not its factors.
"""

from __future__ import annotations

import math
import secrets
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from masquerade.crypto import BadMessage
from masquerade.crypto.integers import FixedBase, power, whole
from masquerade.errors import ParameterError

KEY_BITS = (2048, 3072)
SPARE_BITS = 64  # of a noise exponent, beyond the order of its base
STATISTICAL_BITS = 40
_KEY_HEADER = struct.Struct(">2sH")


class PublicKey(ABC):
    """The public key: encrypts, adds, scales and re-randomises."""

    scheme: ClassVar[bytes]
    plaintext_bits: int

    def __init__(self, modulus: int, base: int, group: int, noise_bits: int) -> None:
        if modulus.bit_length() not in KEY_BITS or modulus % 2 == 0:
            raise BadMessage(f"a key's modulus must be an odd number of {KEY_BITS[0]} or {KEY_BITS[1]} bits")
        if not 1 < base < group or math.gcd(base, modulus) != 1:
            raise BadMessage("a key's base must be invertible")
        self.modulus, self.base, self.group = modulus, base, group
        self.noise_bits = noise_bits
        self.ciphertext_bytes = -(-group.bit_length() // 8)
        self._group = whole(group)
        self._noise = FixedBase(base, group, noise_bits)

    def encrypt(self, message: int) -> int:
        """Encrypt a message below 2^plaintext_bits with fresh noise."""
        return self.rerandomise(self.message_part(self.checked(message)))

    def rerandomise(self, ciphertext: int) -> int:
        """Return another ciphertext of the same message, independent of how the first was made."""
        return self.add(ciphertext, self._noise.power(secrets.randbits(self.noise_bits)))

    def add(self, left: int, right: int) -> int:
        """Return a ciphertext of the sum. It still reveals its origin: re-randomise before sending it."""
        return int(whole(left) * right % self._group)

    def total(self, ciphertexts: Iterable[int]) -> int:
        """Return a ciphertext of the sum of all; not re-randomised."""
        result = whole(1)
        for ciphertext in ciphertexts:
            result = result * ciphertext % self._group
        return int(result)

    def add_plain(self, ciphertext: int, message: int) -> int:
        """Return a ciphertext of the sum with a known message; not re-randomised."""
        return self.add(ciphertext, self.message_part(self.checked(message)))

    def scale(self, ciphertext: int, factor: int) -> int:
        """Return a ciphertext of factor times the message; not re-randomised."""
        return power(ciphertext, self.checked(factor), self.group)

    def checked(self, message: int) -> int:
        """Return the message if it is below 2^plaintext_bits; else ParameterError."""
        if not 0 <= message < 1 << self.plaintext_bits:
            raise ParameterError(f"a message must lie between 0 and 2^{self.plaintext_bits} − 1")
        return message

    def encode(self, ciphertexts: Sequence[int]) -> bytes:
        """Encode ciphertexts in `ciphertext_bytes` bytes each."""
        return b"".join(ciphertext.to_bytes(self.ciphertext_bytes, "big") for ciphertext in ciphertexts)

    def decode(self, data: bytes, count: int) -> list[int]:
        """Decode `count` ciphertexts from a peer's message."""
        size = self.ciphertext_bytes
        if len(data) != count * size:
            raise BadMessage(f"{count} ciphertexts take {count * size} bytes. Got {len(data)} instead.")
        ciphertexts = [int.from_bytes(data[at : at + size], "big") for at in range(0, len(data), size)]
        product = whole(1)
        for at, ciphertext in enumerate(ciphertexts):
            if not 0 < ciphertext < self.group:
                raise BadMessage(f"ciphertext {at} does not lie below the group's modulus")
            product = product * ciphertext % self.modulus
        if (
            math.gcd(int(product), self.modulus) != 1
        ):  # all at once: a product is invertible if and only if each factor is
            raise BadMessage("a ciphertext is not invertible")
        return ciphertexts

    def to_bytes(self) -> bytes:
        """Encode the key for the other party."""
        size = -(-self.group.bit_length() // 8)
        numbers = b"".join(number.to_bytes(size, "big") for number in self._numbers())
        return _KEY_HEADER.pack(self.scheme, self.modulus.bit_length()) + numbers

    @abstractmethod
    def message_part(self, message: int) -> int:
        """Return a ciphertext without noise."""

    @abstractmethod
    def _numbers(self) -> tuple[int, ...]: ...


class SecretKey(ABC):
    """The owner's key: decrypts, and encrypts faster, modulo each of the group's two factors."""

    public: PublicKey

    def __init__(self, public: PublicKey, factors: tuple[int, int], orders: tuple[int, int]) -> None:
        self.public = public
        self._factors, self._orders = factors, orders
        self._noise = [
            FixedBase(public.base % factor, factor, order.bit_length())
            for factor, order in zip(factors, orders, strict=True)
        ]
        self._lift = pow(factors[0], -1, factors[1])

    def encrypt(self, message: int) -> int:
        """Encrypt like the public key, with the same distribution, but several times as fast."""
        exponent = secrets.randbits(self.public.noise_bits)
        first, second = (
            table.power(exponent % order) for table, order in zip(self._noise, self._orders, strict=True)
        )
        noise = first + self._factors[0] * ((second - first) * self._lift % self._factors[1])
        return self.public.add(self.public.message_part(self.public.checked(message)), noise)

    @abstractmethod
    def decrypt(self, ciphertext: int) -> int:
        """Return the message."""


def split_key(data: bytes, scheme: bytes, numbers: int, group_bytes: int) -> list[int]:
    """Decode the numbers of a peer's key; `group_bytes` bytes for every 8 of the modulus."""
    if len(data) < _KEY_HEADER.size:
        raise BadMessage("a public key is cut off")
    sent, bits = _KEY_HEADER.unpack_from(data)
    if sent != scheme or bits not in KEY_BITS:
        raise BadMessage(f"a public key must be of the scheme {scheme.decode()} and of 2048 or 3072 bits")
    size = bits // 8 * group_bytes
    if len(data) != _KEY_HEADER.size + numbers * size:
        raise BadMessage(f"this public key takes {_KEY_HEADER.size + numbers * size} bytes. Got {len(data)}.")
    starts = range(_KEY_HEADER.size, len(data), size)
    return [int.from_bytes(data[at : at + size], "big") for at in starts]


def check_key_bits(bits: int) -> None:
    """Raise ParameterError unless this key length is considered safe today and was tested."""
    if bits not in KEY_BITS:
        raise ParameterError(f"a key's length must be one of {KEY_BITS}. Got {bits} instead.")


class Slots:
    """Packs several small numbers into one message: number i at bit i·bits. Sums must stay below 2^bits.

    40 bits above them stay free: a message to which a uniform one is added (`PaillierPublic.mask`) then reaches the
    modulus with a chance of 2^-40 only, and the low digits of the difference are the slots.
    """

    def __init__(self, count: int, bits: int, plaintext_bits: int) -> None:
        largest = Slots.most(bits, plaintext_bits)
        if not 1 <= count <= largest:
            raise ParameterError(
                f"a message has room for 1 to {largest} slots of {bits} bits. Got {count} instead."
            )
        self.count, self.bits = count, bits

    @staticmethod
    def most(bits: int, plaintext_bits: int) -> int:
        """Return how many slots fit."""
        if bits < 1:
            raise ParameterError(f"a slot must have at least one bit. Got {bits} instead.")
        return (plaintext_bits - STATISTICAL_BITS) // bits

    def pack(self, numbers: Sequence[int]) -> int:
        """Pack numbers into one message; slots not given hold 0."""
        if len(numbers) > self.count or any(not 0 <= number < 1 << self.bits for number in numbers):
            raise ParameterError(f"slots hold at most {self.count} numbers below 2^{self.bits}")
        return sum(int(number) << (at * self.bits) for at, number in enumerate(numbers))

    def unit(self, slot: int) -> int:
        """Return the message with 1 in this slot and 0 elsewhere."""
        if not 0 <= slot < self.count:
            raise ParameterError(f"a slot must lie between 0 and {self.count - 1}. Got {slot} instead.")
        return 1 << (slot * self.bits)

    def unpack(self, message: int) -> list[int]:
        """Return the numbers of all slots."""
        if message < 0 or message >> (self.count * self.bits):
            raise ParameterError("a message has more digits than its slots: a slot or the mask overflowed")
        mask = (1 << self.bits) - 1
        return [message >> (at * self.bits) & mask for at in range(self.count)]
