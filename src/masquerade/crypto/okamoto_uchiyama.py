"""Okamoto, Uchiyama, "A New Public-Key Cryptosystem as Secure as Factoring" (EUROCRYPT 1998).

    n = p²·q;   E(m) = g^m · h^r mod n with h = g^n;   D(c) = L(c^{p−1} mod p²) / L(g^{p−1} mod p²) mod p,
    L(x) = (x − 1) / p

Messages lie below p, a third of the key's length; ciphertexts are as long as the key. Secure against chosen
plaintexts when elements of order p cannot be told apart (the p-subgroup assumption); anyone who learns the decryption
of one message above p can factor n, so sums must stay below 2^plaintext_bits.
"""

from __future__ import annotations

import math
import secrets

from masquerade.crypto import BadMessage
from masquerade.crypto.homomorphic import SPARE_BITS, PublicKey, SecretKey, check_key_bits, split_key
from masquerade.crypto.integers import FixedBase, power, random_prime
from masquerade.errors import ParameterError


class OkamotoUchiyamaPublic(PublicKey):
    """The public key: n, g and h."""

    scheme = b"OU"

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

    @classmethod
    def from_bytes(cls, data: bytes) -> OkamotoUchiyamaPublic:
        """Decode a peer's key."""
        return cls(*split_key(data, cls.scheme, 3, 1))

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


def generate(bits: int = 2048) -> OkamotoUchiyamaSecret:
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
