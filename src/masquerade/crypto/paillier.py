"""Paillier, "Public-Key Cryptosystems Based on Composite Degree Residuosity Classes" (EUROCRYPT 1999).

    n = p·q;   E(m) = (1 + m·n) · h^r mod n²

The noise is that of Damgård, Jurik, Nielsen, "A Generalization of Paillier's Public-Key System with Applications
to Electronic Voting" (2010): h = (−x²)^n for one random x, so that one table serves all powers; here with exponents of
full length. Decryption is modulo p² and q², as in Paillier.

Messages are nearly as long as the key; ciphertexts are twice as long. Secure against chosen plaintexts when n-th
residues modulo n² cannot be told apart (decisional composite residuosity).

Who computes on another's ciphertexts need not trust its key. With a proof that n and φ(n) have no common factor
(Gennaro, Micciancio, Rabin, "An Efficient Non-Interactive Statistical Zero-Knowledge Proof System for Quasi-Safe Prime
Products", CCS 1998: n-th roots of numbers that nobody chose) every element of the group is (1 + n)^m · r^n for exactly
one m and r, so that `mask`, which multiplies by a uniform such element, gives a uniform one, whatever it was given.
"""

from __future__ import annotations

import hashlib
import math
import secrets

from masquerade.crypto import BadMessage
from masquerade.crypto.homomorphic import SPARE_BITS, PublicKey, SecretKey, check_key_bits, split_key
from masquerade.crypto.integers import power, random_prime, small_primes
from masquerade.errors import ParameterError

_ROOTS = 8  # of a proof: without small factors below 2^16, a false one passes with a chance of 2^-128


class PaillierPublic(PublicKey):
    """The public key: n and h."""

    scheme = b"PA"

    def __init__(self, modulus: int, base: int) -> None:
        super().__init__(modulus, base, modulus * modulus, modulus.bit_length() + SPARE_BITS)
        self.plaintext_bits = modulus.bit_length() - 1

    @classmethod
    def from_bytes(cls, data: bytes) -> PaillierPublic:
        """Decode a peer's key."""
        return cls(*split_key(data, cls.scheme, 2, 2))

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
                *(
                    power(number % prime, each, prime)
                    for prime, each in zip(self._primes, inverses, strict=True)
                )
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


def generate(bits: int = 2048) -> PaillierSecret:
    """Generate a key of 2,048 or 3,072 bits."""
    check_key_bits(bits)
    p = q = 0
    while (
        (p * q).bit_length() != bits or math.gcd(p - 1, q - 1) != 2 or math.gcd(p * q, (p - 1) * (q - 1)) != 1
    ):
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
