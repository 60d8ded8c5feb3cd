"""Paillier, "Public-Key Cryptosystems Based on Composite Degree Residuosity Classes" (EUROCRYPT 1999).

    n = p·q;   E(m) = (1 + m·n) · h^r mod n²

The noise is that of Damgård, Jurik, Nielsen, "A Generalization of Paillier's Public-Key System with Applications
to Electronic Voting" (2010): h = (−x²)^n for one random x, so that one table serves all powers; here with exponents of
full length. Decryption is modulo p² and q², as in Paillier.

Messages are nearly as long as the key; ciphertexts are twice as long. Secure against chosen plaintexts when n-th
residues modulo n² cannot be told apart (decisional composite residuosity).
"""

from __future__ import annotations

import math
import secrets

from masquerade.crypto.homomorphic import SPARE_BITS, PublicKey, SecretKey, check_key_bits, split_key
from masquerade.crypto.integers import power, random_prime
from masquerade.errors import ParameterError


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
        """Add a message drawn uniformly from all, and fresh noise. Return the new ciphertext, and that message.

        Messages add modulo n, which is public, so the owner of the key decrypts a uniform number, whatever it encrypted
        before. (Okamoto and Uchiyama's modulus p is its owner's secret: no mask of theirs can be uniform.)
        """
        mask = secrets.randbelow(self.modulus)
        return self.rerandomise(self.add(ciphertext, self.message_part(mask))), mask

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

    def decrypt(self, ciphertext: int) -> int:
        """Return the message."""
        p, q = self._primes
        first, second = (
            _logarithm(ciphertext, prime) * unit % prime
            for prime, unit in zip(self._primes, self._units, strict=True)
        )
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


def _logarithm(number: int, prime: int) -> int:
    """Compute L_p(number^{p−1} mod p²)."""
    square = prime * prime
    return (power(number % square, prime - 1, square) - 1) // prime
