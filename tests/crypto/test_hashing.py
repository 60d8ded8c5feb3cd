"""The hash and the generator: published AES vectors, the definition, and what must not be reused."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings, strategies as st

from crypto.two_parties import looks_random
from examples import examples
from masquerade.crypto import TweakedHash, derive_key, expand
from masquerade.crypto.hashing import Stream, TweakCounter, blocks_from_bytes, expand_blocks, random_blocks
from masquerade.errors import ParameterError

# NIST SP 800-38A, F.1.1: AES-128 in ECB mode.
KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
PLAIN = [bytes.fromhex("6bc1bee22e409f96e93d7e117393172a"), bytes.fromhex("ae2d8a571e03ac9c9eb76fac45af8e51")]
SECRET = [bytes.fromhex("3ad77bb40d7a3660a89ecaf32466ef97"), bytes.fromhex("f5d3d58503b9699de785895a96fdbaaf")]

words = st.integers(0, 2**64 - 1)


def block(data: bytes) -> np.ndarray:
    return blocks_from_bytes(data, 1)


def xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def test_the_published_vectors_give_the_hash() -> None:
    """With tweak π(x) ⊕ y the hash is π(y) ⊕ π(x)."""
    for second in (0, 1):
        tweak = xor(SECRET[0], PLAIN[second])
        got = TweakedHash(KEY).hash(block(PLAIN[0]), block(tweak))
        assert got.tobytes() == xor(SECRET[second], SECRET[0])


def test_the_generator_is_counter_mode() -> None:
    """AES under the zero key of 0 and of 1, as every GCM test vector has them."""
    known = "66e94bd4ef8a2c3b884cfa59ca342b2e58e2fccefa7e3061367f1d57a4e7455a"
    assert expand(bytes(16), 32).tobytes().hex() == known
    assert expand_blocks(bytes(16), 2).tobytes().hex() == known


@settings(max_examples=examples(30), deadline=None)
@given(st.binary(min_size=16, max_size=16), st.lists(st.tuples(words, words, words, words), max_size=9))
def test_every_block_is_hashed_as_the_definition_says(key: bytes, rows: list[tuple[int, int, int, int]]) -> None:
    def permute(data: bytes) -> bytes:
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)

    blocks = np.array([row[:2] for row in rows], np.uint64).reshape(-1, 2)
    tweaks = np.array([row[2:] for row in rows], np.uint64).reshape(-1, 2)
    hashed = TweakedHash(key).hash(blocks, tweaks)
    for x, tweak, got in zip(blocks, tweaks, hashed, strict=True):
        inner = permute(x.tobytes())
        assert got.tobytes() == xor(permute(xor(inner, tweak.tobytes())), inner)


def test_long_arrays_and_all_forms_of_tweaks_agree() -> None:
    hashing, blocks = TweakedHash(KEY), random_blocks(20_001)
    numbers = np.arange(7, 7 + len(blocks), dtype=np.uint64)
    whole = hashing.hash(blocks, 7)
    assert np.array_equal(whole, hashing.hash(blocks, numbers))
    assert np.array_equal(whole, hashing.hash(blocks, np.stack([numbers, np.zeros_like(numbers)], axis=1)))
    assert np.array_equal(whole[12_345:], hashing.hash(blocks[12_345:], 7 + 12_345))
    assert np.array_equal(whole[::3], hashing.hash(blocks[::3], numbers[::3]))
    assert len(hashing.hash(blocks[:0], 0)) == 0


def test_an_expanded_block_begins_with_its_hash() -> None:
    hashing, blocks = TweakedHash(KEY), random_blocks(100)
    expanded = hashing.expand(blocks, 5, 7)
    assert expanded.shape == (100, 7)
    assert np.array_equal(expanded[:, :2], hashing.hash(blocks, 5))
    assert np.array_equal(expanded[:, :1], hashing.expand(blocks, 5, 1))
    assert len(np.unique(expanded)) == expanded.size


def test_a_correlation_does_not_survive_the_hash() -> None:
    """H(x) ⊕ H(x ⊕ Δ) looks random although x ⊕ (x ⊕ Δ) is one Δ."""
    hashing, blocks, delta = TweakedHash(KEY), random_blocks(20_000), random_blocks(1)
    assert not looks_random((blocks ^ (blocks ^ delta)).tobytes())
    assert looks_random((hashing.hash(blocks, 0) ^ hashing.hash(blocks ^ delta, 0)).tobytes())


def test_another_key_or_tweak_gives_another_hash() -> None:
    blocks = random_blocks(50)
    first = TweakedHash(KEY).hash(blocks, 0)
    assert not (first == TweakedHash(bytes(16)).hash(blocks, 0)).any()
    assert not (first == TweakedHash(KEY).hash(blocks, 1)).any()


def test_a_stream_goes_on_where_it_was() -> None:
    stream = Stream(KEY)
    parts = b"".join(stream.read(count).tobytes() for count in (0, 1, 15, 16, 33))
    assert parts == expand(KEY, 65).tobytes()


def test_keys_of_different_purposes_differ() -> None:
    keys = {derive_key(*parts) for parts in ((b"ab",), (b"a", b"b"), (b"a", b"", b"b"), (b"", b"ab"), (b"ab", b""))}
    assert len(keys) == 5
    assert derive_key(b"session", b"purpose").hex() == "68d9e148d89ea61c5639e1d3e63dc530"


def test_a_tweak_is_handed_out_once() -> None:
    counter = TweakCounter()
    assert [counter.take(3), counter.take(0), counter.take(2)] == [0, 3, 3]
    counter.claim(10, 5)
    with pytest.raises(ParameterError, match="tweak 14 was used before"):
        counter.claim(14, 1)
    assert counter.take(1) == 15
    with pytest.raises(ParameterError, match="tweaks"):
        counter.take(-1)
    with pytest.raises(ParameterError, match="tweaks"):
        counter.claim(2**64 - 1, 2)


@pytest.mark.parametrize(
    ("blocks", "tweaks"),
    [
        (np.zeros((2, 2), np.int64), 0),
        (np.zeros(4, np.uint64), 0),
        (np.zeros((2, 3), np.uint64), 0),
        (np.zeros((2, 2), np.uint64), -1),
        (np.zeros((2, 2), np.uint64), 2**64 - 1),
        (np.zeros((2, 2), np.uint64), np.zeros(3, np.uint64)),
        (np.zeros((2, 2), np.uint64), np.zeros(2, np.int64)),
    ],
)
def test_wrong_blocks_and_tweaks_are_refused(blocks: np.ndarray, tweaks: int | np.ndarray) -> None:
    with pytest.raises(ParameterError, match=r"blocks|tweaks"):
        TweakedHash(KEY).hash(blocks, tweaks)


def test_wrong_lengths_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"16 bytes\. Got 15"):
        TweakedHash(bytes(15))
    with pytest.raises(ParameterError, match=r"16 bytes\. Got 17"):
        Stream(bytes(17))
    with pytest.raises(ParameterError, match="must not be negative"):
        expand(KEY, -1)
    with pytest.raises(ParameterError, match=r"2 blocks take 32 bytes\. Got 31"):
        blocks_from_bytes(bytes(31), 2)
    with pytest.raises(ParameterError, match="64 bits"):
        TweakedHash(KEY).expand(np.zeros((1, 2), np.uint64), np.ones((1, 2), np.uint64), 4)
