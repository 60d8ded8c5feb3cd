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

import hashlib
import importlib
import math
import secrets
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import BadMessage, ParameterError

# --- integers -----------------------------------------------------------------------------------------------
# Large integers: primes for keys, and powers of a fixed base by table. Uses gmpy2 when it is installed.
#
# Not constant-time: somebody who can time our arithmetic from within the machine may learn exponents.

try:
    whole: Any = importlib.import_module("gmpy2").mpz  # several times as fast; an extra, because it is LGPL
except ImportError:
    whole = int

_SMALL = 1 << 16
_WINDOW = 1 << 15  # candidates sieved at once
_ROUNDS = 20
_WITHOUT_TABLE = 16  # powers that cost about as much as a table


class FixedBase:
    """Powers of a fixed base and modulus from a table: one multiplication per `window` bits of the exponent.

    The table has exponent_bits / window · 2^window numbers; it is made once enough powers were requested to make it
    worthwhile.
    """

    def __init__(self, base: int, modulus: int, exponent_bits: int, window: int | None = None) -> None:
        self._base, self._modulus = whole(base), whole(modulus)
        self._exponent_bits = exponent_bits
        self._window = window or (8 if modulus.bit_length() <= 3072 else 6)  # a table of at most 20 MB
        self._table: list[list[Any]] = []
        self._uses = 0

    def power(self, exponent: int) -> int:
        """Compute base^exponent modulo the modulus."""
        if exponent < 0 or exponent.bit_length() > self._exponent_bits:
            raise ParameterError(f"an exponent must have at most {self._exponent_bits} binary digits")
        if not self._table:
            self._uses += 1
            if self._uses <= _WITHOUT_TABLE:
                return power(self._base, exponent, self._modulus)
            self._table = self._filled()
        result, modulus, mask = whole(1), self._modulus, (1 << self._window) - 1
        at = 0
        while exponent:
            digit = exponent & mask
            if digit:
                result = result * self._table[at][digit] % modulus
            exponent >>= self._window
            at += 1
        return int(result)

    def _filled(self) -> list[list[Any]]:
        table, unit, modulus = [], self._base, self._modulus
        for _ in range(-(-self._exponent_bits // self._window)):
            row = [whole(1)]
            for _ in range((1 << self._window) - 1):
                row.append(row[-1] * unit % modulus)
            table.append(row)
            unit = row[-1] * unit % modulus
        return table


def power(base: int, exponent: int, modulus: int) -> int:
    """Compute base^exponent modulo the modulus."""
    return int(pow(whole(base), whole(exponent), whole(modulus)))


def random_prime(bits: int) -> int:
    """Draw a random prime p with its two highest bits set, p ≡ 3 modulo 4, and no small factor in (p − 1) / 2.

    So a random square modulo p has an order without small gaps, which the table of noise needs (Damgård, Jurik,
    Nielsen 2010). Twenty rounds of Miller–Rabin: an error probability far below 2^-128 for random candidates of this
    length (Damgård, Landrock, Pomerance 1993).
    """
    if bits < 128:
        raise ParameterError(f"a prime must have at least 128 binary digits. Got {bits} instead.")
    while True:
        start = secrets.randbits(bits) | (3 << (bits - 2)) | 3
        for step in np.flatnonzero(_unmarked(start)):
            candidate = start + 4 * int(step)
            if candidate.bit_length() == bits and is_prime(candidate):
                return candidate


def is_prime(number: int) -> bool:
    """Test primality by Miller–Rabin with random bases."""
    if number < 4 or number % 2 == 0:
        return number in (2, 3)
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(_ROUNDS):
        value = power(2 + secrets.randbelow(number - 3), odd, number)
        if value in (1, number - 1):
            continue
        for _ in range(twos - 1):
            value = value * value % number
            if value == number - 1:
                break
        else:
            return False
    return True


def _unmarked(start: int) -> NDArray[np.bool_]:
    """Return which p of start, start + 4, … have no small factor, and p − 1 none but 2."""
    good = np.ones(_WINDOW, bool)
    for prime in small_primes():
        quarter = pow(4, -1, prime)
        good[(-start) * quarter % prime :: prime] = False
        good[(1 - start) * quarter % prime :: prime] = False
    return good


@cache
def small_primes() -> list[int]:
    """Return the odd primes below 2^16."""
    sieve = np.ones(_SMALL, bool)
    sieve[:3] = False
    sieve[4::2] = False
    for number in range(3, 256, 2):
        if sieve[number]:
            sieve[number * number :: number] = False
    return [int(prime) for prime in np.flatnonzero(sieve)]


# --- homomorphic --------------------------------------------------------------------------------------------

KEY_BITS = (2048, 3072)
SPARE_BITS = 64  # of a noise exponent, beyond the order of its base
STATISTICAL_BITS = 40
_KEY_HEADER = struct.Struct(">2sH")


class PublicKey(ABC):
    """The public key: encrypts, adds and re-randomises."""

    scheme: ClassVar[bytes]
    n_numbers: ClassVar[int]
    group_powers: ClassVar[int]  # the group's modulus is this power of the key's
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

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode a peer's key."""
        if len(data) < _KEY_HEADER.size:
            raise BadMessage("a public key is cut off")
        sent, bits = _KEY_HEADER.unpack_from(data)
        if sent != cls.scheme or bits not in KEY_BITS:
            raise BadMessage(f"a public key must be of the scheme {cls.scheme.decode()} and of 2048 or 3072 bits")
        size = bits // 8 * cls.group_powers
        expected = _KEY_HEADER.size + cls.n_numbers * size
        if len(data) != expected:
            raise BadMessage(f"this public key takes {expected} bytes. Got {len(data)}.")
        starts = range(_KEY_HEADER.size, len(data), size)
        return cls(*(int.from_bytes(data[at : at + size], "big") for at in starts))

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
        first, second = (table.power(exponent % order) for table, order in zip(self._noise, self._orders, strict=True))
        noise = first + self._factors[0] * ((second - first) * self._lift % self._factors[1])
        return self.public.add(self.public.message_part(self.public.checked(message)), noise)

    @abstractmethod
    def decrypt(self, ciphertext: int) -> int:
        """Return the message."""


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
            raise ParameterError(f"a message has room for 1 to {largest} slots of {bits} bits. Got {count} instead.")
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


# --- okamoto uchiyama ---------------------------------------------------------------------------------------
# Okamoto, Uchiyama, "A New Public-Key Cryptosystem as Secure as Factoring" (EUROCRYPT 1998).
#
#     n = p²·q;   E(m) = g^m · h^r mod n with h = g^n;   D(c) = L(c^{p−1} mod p²) / L(g^{p−1} mod p²) mod p,
#     L(x) = (x − 1) / p
#
# Messages lie below p, a third of the key's length; ciphertexts are as long as the key. Secure against
# chosen plaintexts when elements of order p cannot be told apart (the p-subgroup assumption); anyone who
# learns the decryption of one message above p can factor n, so sums must stay below 2^plaintext_bits.


class OkamotoUchiyamaPublic(PublicKey):
    """The public key: n, g and h."""

    scheme, n_numbers, group_powers = b"OU", 3, 1

    def __init__(self, modulus: int, generator: int, base: int) -> None:
        bits = modulus.bit_length()
        # h's order divides lcm(p − 1, q − 1), which has at most |p| + |q| bits.
        super().__init__(modulus, base, modulus, bits - bits // 3 + SPARE_BITS)
        if not 1 < generator < modulus or math.gcd(generator, modulus) != 1:
            raise BadMessage("a key's generator must be invertible")
        if power(generator, modulus, modulus) != base:
            raise BadMessage("a key's base must be the generator to the power of the modulus")
        self.generator = generator
        self.plaintext_bits = bits // 3 - 1
        self._messages = FixedBase(generator, modulus, self.plaintext_bits)

    def message_part(self, message: int) -> int:
        """Return g^m, a ciphertext without noise."""
        return self._messages.power(message)

    def _numbers(self) -> tuple[int, ...]:
        return self.modulus, self.generator, self.base


class OkamotoUchiyamaSecret(SecretKey):
    """The secret key: p and q."""

    def __init__(self, public: OkamotoUchiyamaPublic, p: int, q: int) -> None:
        if p * p * q != public.modulus:
            raise ParameterError("the secret key does not belong to the public key")
        super().__init__(public, (p * p, q), (p - 1, q - 1))
        self._p = p
        self._unit = pow(self._logarithm(public.generator), -1, p)

    def decrypt(self, ciphertext: int) -> int:
        """Return the message."""
        return self._logarithm(ciphertext) * self._unit % self._p

    def _logarithm(self, number: int) -> int:
        square = self._p * self._p
        return (power(number % square, self._p - 1, square) - 1) // self._p


def generate_okamoto_uchiyama(bits: int = 2048) -> OkamotoUchiyamaSecret:
    """Generate a key of 2,048 or 3,072 bits."""
    check_key_bits(bits)
    size = bits // 3 + (bits % 3 > 0)
    p = q = modulus = 0
    while modulus.bit_length() != bits or math.gcd(modulus, (p - 1) * (q - 1)) != 1:
        p, q = random_prime(size), random_prime(bits - 2 * size)
        modulus = p * p * q
    while True:
        generator = 2 + secrets.randbelow(modulus - 3)
        if math.gcd(generator, modulus) == 1 and power(generator, p - 1, p * p) != 1:
            break
    public = OkamotoUchiyamaPublic(modulus, generator, power(generator, modulus, modulus))
    return OkamotoUchiyamaSecret(public, p, q)


# --- paillier -----------------------------------------------------------------------------------------------
# Paillier, "Public-Key Cryptosystems Based on Composite Degree Residuosity Classes" (EUROCRYPT 1999).
#
#     n = p·q;   E(m) = (1 + m·n) · h^r mod n²
#
# The noise is that of Damgård, Jurik, Nielsen, "A Generalization of Paillier's Public-Key System with
# Applications to Electronic Voting" (2010): h = (−x²)^n for one random x, so that one table serves all
# powers; here with exponents of full length. Decryption is modulo p² and q², as in Paillier.
#
# Messages are nearly as long as the key; ciphertexts are twice as long. Secure against chosen plaintexts
# when n-th residues modulo n² cannot be told apart (decisional composite residuosity).
#
# Who computes on another's ciphertexts need not trust its key. With a proof that n and φ(n) have no common
# factor (Gennaro, Micciancio, Rabin, "An Efficient Non-Interactive Statistical Zero-Knowledge Proof System
# for Quasi-Safe Prime Products", CCS 1998: n-th roots of numbers that nobody chose) every element of the
# group is (1 + n)^m · r^n for exactly one m and r, so that `mask`, which multiplies by a uniform such
# element, gives a uniform one, whatever it was given.

_ROOTS = 8  # of a proof: without small factors below 2^16, a false one passes with a chance of 2^-128


class PaillierPublic(PublicKey):
    """The public key: n and h."""

    scheme, n_numbers, group_powers = b"PA", 2, 2

    def __init__(self, modulus: int, base: int) -> None:
        super().__init__(modulus, base, modulus * modulus, modulus.bit_length() + SPARE_BITS)
        self.plaintext_bits = modulus.bit_length() - 1

    def message_part(self, message: int) -> int:
        """Return 1 + m·n = (1 + n)^m, a ciphertext without noise."""
        return 1 + message * self.modulus

    def mask(self, ciphertext: int) -> tuple[int, int]:
        """Add a message drawn uniformly from all, and uniform noise. Return the new ciphertext, and that message.

        So the owner of the key gets a uniform element of the group, whatever it encrypted and however, if its key is
        `check`ed. Messages add modulo n, which is public. (Okamoto and Uchiyama's modulus p is its owner's secret: no
        mask of theirs can be uniform.) The noise is no power of the key's base, which the owner has chosen.
        """
        mask, noise = secrets.randbelow(self.modulus), 0
        while math.gcd(noise, self.modulus) != 1:
            noise = secrets.randbelow(self.modulus)
        uniform = self.add(self.message_part(mask), power(noise, self.modulus, self.group))
        return self.add(ciphertext, uniform), mask

    def check(self, proof: bytes) -> None:
        """Raise BadMessage unless the owner has proved that the modulus and its totient have no common factor."""
        size = self.modulus.bit_length() // 8
        if len(proof) != _ROOTS * size:
            raise BadMessage(f"a key's proof takes {_ROOTS * size} bytes. Got {len(proof)} instead.")
        if any(self.modulus % prime == 0 for prime in small_primes()):
            raise BadMessage("a key's modulus must have no small factor")
        for at, number in enumerate(_challenges(self.modulus)):
            root = int.from_bytes(proof[at * size : (at + 1) * size], "big")
            if power(root, self.modulus, self.modulus) != number:
                raise BadMessage("a key's proof must have the roots of its challenges")

    def _numbers(self) -> tuple[int, ...]:
        return self.modulus, self.base


class PaillierSecret(SecretKey):
    """The secret key: p and q."""

    def __init__(self, public: PaillierPublic, p: int, q: int) -> None:
        if p * q != public.modulus:
            raise ParameterError("the secret key does not belong to the public key")
        super().__init__(public, (p * p, q * q), (p - 1, q - 1))
        self._primes = (p, q)
        self._units = tuple(pow(_logarithm(1 + public.modulus, prime), -1, prime) for prime in self._primes)
        self._inverse = pow(p, -1, q)

    def proof(self) -> bytes:
        """Prove that the modulus and its totient have no common factor: n-th roots of its challenges."""
        modulus = self.public.modulus
        inverses = [pow(modulus, -1, prime - 1) for prime in self._primes]
        roots = (
            self._joined(
                *(power(number % prime, each, prime) for prime, each in zip(self._primes, inverses, strict=True))
            )
            for number in _challenges(modulus)
        )
        return b"".join(root.to_bytes(modulus.bit_length() // 8, "big") for root in roots)

    def decrypt(self, ciphertext: int) -> int:
        """Return the message."""
        return self._joined(
            *(
                _logarithm(ciphertext, prime) * unit % prime
                for prime, unit in zip(self._primes, self._units, strict=True)
            )
        )

    def _joined(self, first: int, second: int) -> int:
        """Return the number below n with these remainders modulo p and q."""
        p, q = self._primes
        return first + p * ((second - first) * self._inverse % q)


def generate_paillier(bits: int = 2048) -> PaillierSecret:
    """Generate a key of 2,048 or 3,072 bits."""
    check_key_bits(bits)
    p = q = 0
    while (p * q).bit_length() != bits or math.gcd(p - 1, q - 1) != 2 or math.gcd(p * q, (p - 1) * (q - 1)) != 1:
        p, q = random_prime(bits // 2), random_prime(bits // 2)
    modulus = p * q
    square = 0
    while math.gcd(square, modulus) != 1:
        square = secrets.randbelow(modulus) ** 2 % modulus
    public = PaillierPublic(modulus, power(modulus - square, modulus, modulus * modulus))
    return PaillierSecret(public, p, q)


def _challenges(modulus: int) -> list[int]:
    """Return numbers that follow from the modulus by hashing. One has a root by chance with less than 2^-16."""
    size = modulus.bit_length() // 8
    seed = b"masquerade/paillier/1\0" + modulus.to_bytes(size, "big")
    stream = hashlib.shake_256(seed).digest(_ROOTS * (size + 16))
    parts = (stream[at : at + size + 16] for at in range(0, len(stream), size + 16))
    return [int.from_bytes(part, "big") % modulus for part in parts]


def _logarithm(number: int, prime: int) -> int:
    """Compute L_p(number^{p−1} mod p²)."""
    square = prime * prime
    return (power(number % square, prime - 1, square) - 1) // prime
