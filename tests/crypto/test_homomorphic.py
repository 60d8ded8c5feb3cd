"""Okamoto–Uchiyama and Paillier with real keys: the textbook's formulas, sums, noise, packing and misuse."""

from __future__ import annotations

import math
import secrets
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import looks_random
from examples import examples
from masquerade.crypto import OkamotoUchiyamaPublic, PaillierPublic, SecretKey, Slots, homomorphic
from masquerade.crypto.homomorphic import (
    STATISTICAL_BITS,
    FixedBase,
    OkamotoUchiyamaSecret,
    PaillierSecret,
    PublicKey,
    is_prime,
    power,
    random_prime,
)
from masquerade.errors import BadMessage, ParameterError

# Two well-known primes: the largest below 2^1024 and the smallest above 2^1023.
P, Q = 2**1024 - 105, 2**1023 + 1155


@pytest.fixture(scope="module")
def keys() -> dict[str, SecretKey]:
    return {
        "okamoto-uchiyama": homomorphic.generate_okamoto_uchiyama(2048),
        "paillier": homomorphic.generate_paillier(2048),
    }


@pytest.fixture(params=["okamoto-uchiyama", "paillier"])
def key(request: pytest.FixtureRequest, keys: dict[str, SecretKey]) -> SecretKey:
    return keys[request.param]


_sent: dict[int, PublicKey] = {}


def sent(public: PublicKey) -> PublicKey:
    """The key as the other party gets it; once, for the sake of its tables."""
    if public.modulus not in _sent:
        _sent[public.modulus] = type(public).from_bytes(public.to_bytes())
    return _sent[public.modulus]


# Known answers.


def test_textbook_paillier_decrypts() -> None:
    """c = (1 + n)^m · r^n with noise that is not ours; and the textbook's λ and μ decrypt what we encrypt."""
    modulus = P * Q
    public = PaillierPublic(modulus, pow(3, modulus, modulus**2))
    secret = PaillierSecret(public, P, Q)
    message, noise = 0x1234567890ABCDEF << 1900, 0xC0FFEE
    textbook = pow(1 + modulus, message, modulus**2) * pow(noise, modulus, modulus**2) % modulus**2
    assert secret.decrypt(textbook) == message
    carmichael = math.lcm(P - 1, Q - 1)
    raised = (pow(public.encrypt(message), carmichael, modulus**2) - 1) // modulus
    assert raised * pow(carmichael, -1, modulus) % modulus == message


def test_textbook_okamoto_uchiyama_decrypts(keys: dict[str, SecretKey]) -> None:
    square, q = keys["okamoto-uchiyama"]._factors
    p, modulus = math.isqrt(square), square * q
    public = OkamotoUchiyamaPublic(modulus, 2, pow(2, modulus, modulus))
    secret = OkamotoUchiyamaSecret(public, p, q)
    message = 2**681 - 12345
    assert secret.decrypt(pow(2, message + modulus * 0xC0FFEE, modulus)) == message
    logarithms = [(pow(x, p - 1, p * p) - 1) // p for x in (public.encrypt(message), 2)]
    assert logarithms[0] * pow(logarithms[1], -1, p) % p == message


def test_primes_and_what_only_looks_like_them() -> None:
    assert [number for number in range(60) if is_prime(number)] == [
        *(2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
    ]
    assert is_prime(P)
    assert is_prime(Q)
    assert is_prime(2**521 - 1)
    assert not is_prime(P * Q)
    assert not is_prime(2**523 - 1)
    carmichael_numbers = [561, 1105, 1729, 9746347772161, 3825123056546413051]
    assert not any(is_prime(number) for number in carmichael_numbers)


def test_a_random_primes_shape() -> None:
    prime = random_prime(256)
    assert prime.bit_length() == 256
    assert prime >> 254 == 3
    assert prime % 4 == 3
    half = (prime - 1) // 2
    assert all(half % small for small in range(2, 1 << 16))
    with pytest.raises(ParameterError, match="at least 128"):
        random_prime(64)


# Sums.


@settings(max_examples=examples(4), deadline=None)
@given(st.data())
def test_sums_of_messages(keys: dict[str, SecretKey], data: st.DataObject) -> None:
    key = keys[data.draw(st.sampled_from(sorted(keys)))]
    public = sent(key.public)
    numbers = st.integers(0, 2 ** (public.plaintext_bits - 3))
    a, b, c = (data.draw(numbers) for _ in range(3))
    total = public.add(public.add(public.encrypt(a), key.encrypt(b)), public.message_part(c))
    assert key.decrypt(total) == key.decrypt(public.rerandomise(total)) == a + b + c
    assert key.decrypt(public.total([public.encrypt(5), key.encrypt(6), key.encrypt(7)])) == 18
    assert public.decode(public.encode([total]), 1) == [total]


def test_the_largest_and_smallest_messages(key: SecretKey) -> None:
    public = key.public
    for message in (0, 1, 2**public.plaintext_bits - 1):
        assert key.decrypt(public.encrypt(message)) == message
        assert key.decrypt(key.encrypt(message)) == message
    assert key.decrypt(public.total([])) == 0


# What others see.


def test_noise_has_full_length(key: SecretKey) -> None:
    """64 digits more than the order of its base has, so that its powers are as good as uniform."""
    order = math.lcm(*key._orders)
    assert pow(key.public.base, order, key.public.group) == 1
    assert key.public.noise_bits >= order.bit_length() + 64


def test_equal_messages_give_unequal_ciphertexts(key: SecretKey) -> None:
    public = key.public
    once = key.encrypt(1)
    made = [once, key.encrypt(1), public.encrypt(1), public.rerandomise(once), public.rerandomise(once)]
    assert len(set(made)) == 5
    assert {key.decrypt(ciphertext) for ciphertext in made} == {1}


@pytest.mark.parametrize("message", [0, 1])
def test_ciphertexts_look_alike(key: SecretKey, message: int) -> None:
    """Their lower halves are spread evenly for both messages; and both ways of encrypting do so."""
    made = [key.encrypt(message) for _ in range(24)] + [sent(key.public).encrypt(message) for _ in range(6)]
    assert looks_random(b"".join((ciphertext % 2**1024).to_bytes(128, "big") for ciphertext in made))


def test_a_mask_is_uniform_over_all_messages(keys: dict[str, SecretKey]) -> None:
    """Its difference is what it was added to, modulo the key's modulus, and the low digits are the slots."""
    secret = keys["paillier"]
    public = sent(secret.public)
    assert isinstance(public, PaillierPublic)
    slots = Slots(20, 16, public.plaintext_bits)
    packed = slots.pack(list(range(20)))
    shares = []
    for _ in range(30):
        ciphertext, mask = public.mask(public.encrypt(packed))
        opened = secret.decrypt(ciphertext)
        assert (opened - mask) % public.modulus == packed
        assert slots.unpack((opened - mask) % 2**320) == list(range(20))
        shares.append(opened)
    assert looks_random(b"".join((share % 2**2040).to_bytes(255, "big") for share in shares))
    # Seven standard deviations; without a mask up to the top, the mean would be 0.
    assert abs(np.mean([share / public.modulus for share in shares]) - 0.5) < 7 * np.sqrt(1 / 12 / 30)


def test_a_key_is_proved(keys: dict[str, SecretKey]) -> None:
    secret = keys["paillier"]
    assert isinstance(secret, PaillierSecret)
    public, proof = sent(secret.public), secret.proof()
    assert isinstance(public, PaillierPublic)
    public.check(proof)
    with pytest.raises(BadMessage, match="the roots of its challenges"):
        public.check(proof[:-1] + bytes([proof[-1] ^ 1]))
    with pytest.raises(BadMessage, match="takes 2048 bytes"):
        public.check(proof[1:])
    with pytest.raises(BadMessage, match="no small factor"):
        PaillierPublic(3 * (2**2046 + 1), 2).check(proof)


# Packing.


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 40), st.integers(1, 16), st.data())
def test_slots_add_on_their_own(bits: int, count: int, data: st.DataObject) -> None:
    slots = Slots(count, bits, 681)
    half = st.lists(st.integers(0, (2**bits - 1) // 2), min_size=count, max_size=count)
    left, right = data.draw(half), data.draw(half)
    packed = slots.pack(left) + slots.pack(right)
    assert slots.unpack(packed) == [a + b for a, b in zip(left, right, strict=True)]
    assert packed < 2 ** (681 - STATISTICAL_BITS)


# Misuse.


def test_messages_out_of_range_are_refused(key: SecretKey) -> None:
    for message in (-1, 2**key.public.plaintext_bits):
        for encrypt in (key.encrypt, key.public.encrypt):
            with pytest.raises(ParameterError, match="a message must lie between 0 and 2"):
                encrypt(message)


def test_ciphertexts_that_are_none_are_refused(key: SecretKey) -> None:
    public, size = key.public, key.public.ciphertext_bytes
    good = public.encode([key.encrypt(1)])
    with pytest.raises(BadMessage, match=f"2 ciphertexts take {2 * size} bytes"):
        public.decode(good, 2)
    for bad in (0, public.group, public.group + 1):
        with pytest.raises(BadMessage, match="ciphertext 1 does not lie below"):
            public.decode(good + bad.to_bytes(size, "big"), 2)
    with pytest.raises(BadMessage, match="not invertible"):
        public.decode(good + math.isqrt(key._factors[0]).to_bytes(size, "big"), 2)


def test_keys_that_are_none_are_refused(key: SecretKey) -> None:
    public = key.public
    data = public.to_bytes()
    kind = type(public)
    assert sent(public).modulus == public.modulus
    other = PaillierPublic if isinstance(public, OkamotoUchiyamaPublic) else OkamotoUchiyamaPublic
    with pytest.raises(BadMessage, match="of the scheme"):
        other.from_bytes(data)
    for cut in (data[:-1], data + b"\0"):
        with pytest.raises(BadMessage, match="this public key takes"):
            kind.from_bytes(cut)
    with pytest.raises(BadMessage, match="cut off"):
        kind.from_bytes(b"OU")
    with pytest.raises(BadMessage, match="2048 or 3072"):
        kind.from_bytes(data[:2] + (1024).to_bytes(2, "big") + data[4:])
    numbers = len(data) - 4
    with pytest.raises(BadMessage, match="a key's"):
        kind.from_bytes(data[:4] + bytes(numbers))
    with pytest.raises(BadMessage, match="a key's base must be invertible"):
        kind.from_bytes(data[: -public.ciphertext_bytes] + bytes(public.ciphertext_bytes))


def test_a_base_that_is_no_power_of_the_generator_is_refused(keys: dict[str, SecretKey]) -> None:
    """Noise with a message part of its own would change messages."""
    public = keys["okamoto-uchiyama"].public
    assert isinstance(public, OkamotoUchiyamaPublic)
    with pytest.raises(BadMessage, match="to the power of the modulus"):
        OkamotoUchiyamaPublic(public.modulus, public.generator, public.generator)


def test_only_safe_lengths_are_made() -> None:
    for generate in (homomorphic.generate_okamoto_uchiyama, homomorphic.generate_paillier):
        for bits in (1024, 2047, 4096):
            with pytest.raises(ParameterError, match="a key's length"):
                generate(bits)


def test_a_secret_key_of_another_public_key_is_refused(keys: dict[str, SecretKey]) -> None:
    public = keys["paillier"].public
    assert isinstance(public, PaillierPublic)
    with pytest.raises(ParameterError, match="does not belong"):
        PaillierSecret(public, P, Q)


def test_slots_misused() -> None:
    with pytest.raises(ParameterError, match="1 to 40 slots of 16 bits"):
        Slots(41, 16, 681)
    with pytest.raises(ParameterError, match="at least one bit"):
        Slots(1, 0, 681)
    slots = Slots(3, 8, 681)
    for numbers in ([1, 2, 3, 4], [256], [-1]):
        with pytest.raises(ParameterError, match="at most 3 numbers below"):
            slots.pack(numbers)
    with pytest.raises(ParameterError, match="between 0 and 2"):
        slots.unit(3)
    for overflown in (1 << 24, -1):
        with pytest.raises(ParameterError, match="overflowed"):
            slots.unpack(overflown)


def test_longer_keys() -> None:
    """3,072 bits: the sizes that the documentation promises."""
    key = homomorphic.generate_okamoto_uchiyama(3072)
    assert key.public.modulus.bit_length() == 3072
    assert key.public.plaintext_bits == 1023
    assert key.public.ciphertext_bytes == 384
    message = secrets.randbits(1023)
    assert key.decrypt(pow(key.public.generator, message, key.public.modulus)) == message  # type: ignore[attr-defined]


# Both arithmetics, Python's own and gmpy2's (extra `gmp`), give the same numbers, and plain ones.


@pytest.fixture(params=["Python", "gmpy2"])
def arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    whole: Any = int
    if request.param == "gmpy2":
        whole = pytest.importorskip("gmpy2", reason="gmpy2 (extra gmp) is not installed").mpz
    monkeypatch.setattr(homomorphic, "whole", whole)
    return whole


def test_powers_are_those_of_the_definition_and_plain_numbers(arithmetic: Any) -> None:
    table = FixedBase(3, P, 40, window=5)
    assert type(table._modulus) is type(arithmetic(1))  # so it is this arithmetic that is tested
    for exponent in 3 * (0, 1, 31, 32, 1 << 39, 2**40 - 1, 0x5A5A5A5A5A):  # before and with the table
        for found in (table.power(exponent), power(3, exponent, P)):
            assert found == pow(3, exponent, P)
            assert type(found) is int
    for exponent in (2**40, -1):
        with pytest.raises(ParameterError, match="at most 40 binary digits"):
            table.power(exponent)
    prime = random_prime(256)
    assert type(prime) is int
    assert is_prime(prime)
    assert not is_prime(prime * Q)


def test_what_one_arithmetic_encrypts_the_other_decrypts(arithmetic: Any, keys: dict[str, SecretKey]) -> None:
    """The keys of the module were made by whichever arithmetic is the usual one here."""
    made = keys["okamoto-uchiyama"]
    square, q = made._factors
    public = OkamotoUchiyamaPublic.from_bytes(made.public.to_bytes())
    textbook = PaillierPublic(P * Q, pow(3, P * Q, (P * Q) ** 2))
    own = (OkamotoUchiyamaSecret(public, math.isqrt(square), q), made)
    for key, other in (own, (PaillierSecret(textbook, P, Q), PaillierSecret(textbook, P, Q))):
        slots = Slots(3, 8, key.public.plaintext_bits)
        units = [key.encrypt(slots.unit(0)), key.public.encrypt(slots.unit(2)), other.encrypt(slots.unit(2))]
        sealed = key.public.rerandomise(key.public.total(units))
        assert type(sealed) is int
        assert key.public.decode(key.public.encode([sealed]), 1) == [sealed]
        for found in (key.decrypt(sealed), other.decrypt(sealed)):
            assert type(found) is int
            assert slots.unpack(found) == [1, 0, 2]
