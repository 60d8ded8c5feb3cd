"""Large integers: primes for keys, and powers of a fixed base by table. Uses gmpy2 when it is installed.

Not constant-time: somebody who can time our arithmetic from within the machine may learn exponents.
"""

from __future__ import annotations

import importlib
import secrets
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import ParameterError

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
