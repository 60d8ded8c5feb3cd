"""Both arithmetics, Python's own and gmpy2's (extra `gmp`), give the same numbers, and plain ones."""

from __future__ import annotations

import math
from typing import Any

import pytest

from masquerade.crypto import (
    OkamotoUchiyamaPublic,
    PaillierPublic,
    SecretKey,
    Slots,
    homomorphic,
    homomorphic as integers,
    homomorphic as okamoto_uchiyama,
)
from masquerade.crypto.homomorphic import (
    FixedBase,
    OkamotoUchiyamaSecret,
    PaillierSecret,
    is_prime,
    power,
    random_prime,
)

P, Q = 2**1024 - 105, 2**1023 + 1155  # the largest prime below 2^1024, the smallest above 2^1023


@pytest.fixture(params=["Python", "gmpy2"])
def arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    whole: Any = int
    if request.param == "gmpy2":
        whole = pytest.importorskip("gmpy2", reason="gmpy2 (extra gmp) is not installed").mpz
    for module in (integers, homomorphic):
        monkeypatch.setattr(module, "whole", whole)
    return whole


@pytest.fixture(scope="module")
def made() -> OkamotoUchiyamaSecret:
    """A key of whichever arithmetic is the usual one here."""
    return okamoto_uchiyama.generate_okamoto_uchiyama(2048)


def paillier_key() -> PaillierSecret:
    return PaillierSecret(PaillierPublic(P * Q, pow(3, P * Q, (P * Q) ** 2)), P, Q)


def okamoto_uchiyama_key(made: OkamotoUchiyamaSecret) -> OkamotoUchiyamaSecret:
    square, q = made._factors
    return OkamotoUchiyamaSecret(OkamotoUchiyamaPublic.from_bytes(made.public.to_bytes()), math.isqrt(square), q)


def test_powers_are_those_of_the_definition_and_plain_numbers(arithmetic: Any) -> None:
    table = FixedBase(3, P, 40, window=5)
    assert type(table._modulus) is type(arithmetic(1))  # so it is this arithmetic that is tested
    for exponent in 3 * (0, 1, 31, 32, 1 << 39, 2**40 - 1, 0x5A5A5A5A5A):  # before and with the table
        for found in (table.power(exponent), power(3, exponent, P)):
            assert found == pow(3, exponent, P)
            assert type(found) is int
    prime = random_prime(256)
    assert type(prime) is int
    assert is_prime(prime)
    assert not is_prime(prime * Q)


def test_what_one_arithmetic_encrypts_the_other_decrypts(arithmetic: Any, made: OkamotoUchiyamaSecret) -> None:
    keys: list[tuple[SecretKey, SecretKey]] = [(okamoto_uchiyama_key(made), made), (paillier_key(), paillier_key())]
    for key, other in keys:
        slots = Slots(3, 8, key.public.plaintext_bits)
        units = [key.encrypt(slots.unit(0)), key.public.encrypt(slots.unit(2)), other.encrypt(slots.unit(2))]
        sealed = key.public.rerandomise(key.public.scale(key.public.total(units), 5))
        assert type(sealed) is int
        assert key.public.decode(key.public.encode([sealed]), 1) == [sealed]
        for found in (key.decrypt(sealed), other.decrypt(sealed)):
            assert type(found) is int
            assert slots.unpack(found) == [5, 0, 10]
