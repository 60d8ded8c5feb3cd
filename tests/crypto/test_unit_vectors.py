"""Shares of unit vectors whose places nobody knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import NARROW, WIDE, Transfers, fresh, looks_random, set_up
from examples import examples
from masquerade.crypto import LANES, Labels, UnitVectors, Words, WordType, random_words
from masquerade.errors import BadMessage


@pytest.fixture(scope="module")
def ways() -> tuple[Transfers, Transfers]:
    """The transfers of either party, of one session."""
    (send_0, receive_1), (send_1, receive_0) = set_up(b"0 to 1"), set_up(b"1 to 0")
    return (send_0, receive_0), (send_1, receive_1)


def exchanged(sides: Sequence[UnitVectors], step: str, told: Sequence[bytes]) -> list[bytes]:
    return [getattr(side, step)(each) for side, each in zip(sides, reversed(told), strict=True)]


def shares(
    own: Sequence[Labels], size: int, word: WordType, ways: tuple[Transfers, Transfers]
) -> tuple[list[Words], list[bytes]]:
    """Both parties' shares of the vectors, and everything that travelled but the table of eight."""
    session, n = fresh(b"vectors"), len(own[0])
    sides = [UnitVectors(session, me, ways[me], size, word) for me in (0, 1)]
    told = [side.begin(each) for side, each in zip(sides, own, strict=True)]
    travelled = [*told]
    exchanged(sides, "hear", told)
    for _ in range(sides[0].depth):
        told = [side.grow() for side in sides]
        corrections = exchanged(sides, "correct", told)
        travelled += [*told, *corrections]
        exchanged(sides, "descend", corrections)
    low = random_words((n, LANES), word)
    taken = sides[0].table(low)[np.arange(n), sides[1].low.astype(int)]
    told = [sides[0].finish(low), sides[1].finish(np.ascontiguousarray(taken).view(word))]
    for step in ("multiply", "tell"):
        travelled += told
        told = exchanged(sides, step, told)
    travelled += told
    found = [side.vectors(each) for side, each in zip(sides, reversed(told), strict=True)]
    return found, travelled


@settings(max_examples=examples(25), deadline=None)
@given(size=st.integers(1, 70), n=st.integers(1, 20), seed=st.integers(0, 2**32), word=st.sampled_from([NARROW, WIDE]))
def test_shares_add_up_to_unit_vectors(
    size: int, n: int, seed: int, word: WordType, ways: tuple[Transfers, Transfers]
) -> None:
    random = np.random.default_rng(seed)
    digits = UnitVectors(b"any", 0, ways[0], size, word).digits
    places, mask = (random.integers(0, end, n).astype(np.uint64) for end in (size, 1 << digits))
    (one, other), _ = shares((mask, mask ^ places), size, word, ways)
    assert one.shape == other.shape == (n, size)
    assert np.array_equal(one + other, np.eye(size, dtype=word)[places.astype(int)])


@pytest.mark.parametrize("place", [0, 40, 66])
def test_all_that_travels_looks_random(place: int, ways: tuple[Transfers, Transfers]) -> None:
    """Also at the last place, whose leaf has no neighbour: its correction must not be 0."""
    n = 2000
    mask = np.random.default_rng(place).integers(0, 128, n).astype(np.uint64)
    found, travelled = shares((mask, mask ^ np.uint64(place)), 67, NARROW, ways)
    for each in found:
        assert looks_random(np.ascontiguousarray(each).tobytes())
    for message in travelled:
        if len(message) > 4000:
            assert looks_random(message[16:])


def test_a_correction_of_another_length_is_refused(ways: tuple[Transfers, Transfers]) -> None:
    sides = [UnitVectors(fresh(b"vectors"), me, ways[me], 20, NARROW) for me in (0, 1)]
    told = [side.begin(np.zeros(5, np.uint64)) for side in sides]
    exchanged(sides, "hear", told)
    corrections = exchanged(sides, "correct", [side.grow() for side in sides])
    with pytest.raises(BadMessage, match=r"5 corrections take 81 bytes. Got 80"):
        sides[0].descend(corrections[1][:-1])


def test_words_of_another_length_are_refused(ways: tuple[Transfers, Transfers]) -> None:
    sides = [UnitVectors(fresh(b"vectors"), me, ways[me], 8, NARROW) for me in (0, 1)]
    assert sides[0].depth == 0
    exchanged(sides, "hear", [side.begin(np.zeros(5, np.uint64)) for side in sides])
    told = [side.finish(np.zeros((5, LANES), NARROW)) for side in sides]
    told = exchanged(sides, "tell", exchanged(sides, "multiply", told))
    with pytest.raises(BadMessage, match=r"5 rows of words take 80 bytes. Got 79"):
        sides[0].vectors(told[1][:-1])
