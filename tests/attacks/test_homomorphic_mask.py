"""Attack: who encrypts in the joint histogram marks its people, and reads from the sums who was added to whom.

Packed counts use the low digits of a message. A mask that covers these and forty more leaves all higher digits open: an
encryptor that adds a mark of its own to each person's ciphertext, up there, decrypts the marks of each of the other
party's groups. So does one that marks the noise, and chooses a key whose own noise does not cover it. Now what comes
back is a uniform element of the group, whatever was encrypted and however.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from homes import home
from masquerade.crypto import PaillierPublic, homomorphic as paillier
from masquerade.crypto.homomorphic import PaillierSecret
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.pairs import prepare_pair
from masquerade.protocol.sensitive.costs import Packing
from masquerade.protocol.sensitive.histogram import Bounds
from masquerade.protocol.sensitive.homomorphic import homomorphic_group_bits

NAMES = ("clinic", "bank")
PEOPLE, GROUPS, VALUES = 12, 4, 3


@pytest.fixture(scope="module")
def key() -> PaillierSecret:
    return paillier.generate_paillier(2048)


class MarkingKey(PaillierSecret):
    """The clinic's key: encrypts, with each label, a mark that tells the person, and keeps what it decrypts."""

    def __init__(self, key: PaillierSecret, marks: Iterator[int]) -> None:
        self.__dict__.update(key.__dict__)
        self._marks = marks
        self.decrypted: list[int] = []
        self.returned: list[int] = []

    def encrypt(self, message: int) -> int:
        marked = self.public.message_part((message + next(self._marks)) % self.public.modulus)
        return self.public.rerandomise(marked)

    def decrypt(self, ciphertext: int) -> int:
        self.returned.append(ciphertext)
        self.decrypted.append(super().decrypt(ciphertext))
        return self.decrypted[-1]


class MarkedNoise(MarkingKey):
    """Marks the noise instead; the base of all other noise is −1, of which there are two powers."""

    def __init__(self, key: PaillierSecret, marks: Iterator[int]) -> None:
        super().__init__(key, marks)
        self.public = PaillierPublic(key.public.modulus, key.public.group - 1)

    def encrypt(self, message: int) -> int:
        noise = pow(next(self._marks), self.public.modulus, self.public.group)
        return self.public.add(self.public.message_part(message), noise)


def play(monkeypatch: pytest.MonkeyPatch, clinic: PaillierSecret, groups: list[int]) -> None:
    """The clinic with this key, against the real bank, which adds up its groups."""
    monkeypatch.setattr(home(homomorphic_group_bits), "generate_paillier", lambda _: clinic)
    monkeypatch.setattr(home(homomorphic_group_bits), "packing_for", lambda bounds: Packing.of(bounds, 0))
    labels = [np.arange(PEOPLE, dtype=np.uint64) % VALUES, np.array(groups, np.uint64)]

    def part(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        bounds = Bounds(PEOPLE, (VALUES, max(groups) + 1))
        return (yield from homomorphic_group_bits(pair, labels[me], 1, bounds))

    run_together({name: part(me) for me, name in enumerate(NAMES)})


def seen_by_clinic(
    monkeypatch: pytest.MonkeyPatch, key: PaillierSecret, marks: list[int], groups: list[int]
) -> list[int]:
    """All that the clinic decrypts of the bank's groups."""
    marking = MarkingKey(key, iter(marks))
    play(monkeypatch, marking, groups)
    return marking.decrypted


def test_marks_above_the_slots_do_not_come_back(key: PaillierSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    """One digit for each person, far above slots and forty more; and as far up as messages go."""
    modulus = key.public.modulus
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    first = 1000
    marks = [1 << (first + 4 * person) for person in range(PEOPLE)]
    expected = [sum(mark for mark, at in zip(marks, groups, strict=True) if at == group) for group in range(GROUPS)]
    found = seen_by_clinic(monkeypatch, key, marks, groups)
    for number, sum_of_marks in zip(found, expected, strict=True):
        assert number >> first != sum_of_marks >> first
        assert number.bit_length() > modulus.bit_length() - 40  # it is masked up to the top
    assert len({number >> 1900 for number in found}) == GROUPS


def test_where_in_the_range_a_sum_lies_tells_nothing(key: PaillierSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark of half the modulus: with any shorter mask, a marked group would lie in the other half."""
    modulus = key.public.modulus
    marks = [modulus // 2, 0] * (PEOPLE // 2)
    lower: dict[bool, set[bool]] = {True: set(), False: set()}  # by marked
    for _ in range(6):
        found = seen_by_clinic(monkeypatch, key, marks, list(range(PEOPLE)))
        for mark, number in zip(marks, found, strict=True):
            lower[mark > 0].add(number < modulus // 2)
    assert lower == {True: {True, False}, False: {True, False}}  # 36 fair coins each


def test_marks_in_the_noise_do_not_come_back(key: PaillierSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modulo n the message is gone, and the product of the marks would be left, but for its sign."""
    modulus = key.public.modulus
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    marks = [1009 + 2 * person for person in range(PEOPLE)]
    clinic = MarkedNoise(key, iter(marks))
    play(monkeypatch, clinic, groups)
    for group, returned in enumerate(clinic.returned):
        product = prod(mark for mark, at in zip(marks, groups, strict=True) if at == group)
        expected = pow(product, modulus, modulus)
        assert returned % modulus not in (expected, modulus - expected)


def test_a_key_that_lets_no_mask_be_uniform_is_refused(key: PaillierSecret, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a modulus that has a factor in common with its totient, most numbers have no root to show."""
    prime = 2**1024 - 105
    square = PaillierPublic(prime * prime, 2)
    clinic = MarkingKey(key, iter([0] * PEOPLE))
    clinic.public = square
    monkeypatch.setattr(clinic, "proof", key.proof)
    with pytest.raises(PeerBrokeProtocol, match="a key's proof must have the roots") as caught:
        play(monkeypatch, clinic, [0] * PEOPLE)
    assert caught.value.peer == "clinic"


def test_what_is_decrypted_is_uniform_whatever_was_encrypted(key: PaillierSecret) -> None:
    """The exact reason: for every message there is one mask, equally likely, that gives each number."""
    public = PaillierPublic.from_bytes(key.public.to_bytes())
    for message in (0, 1, public.modulus // 2, public.modulus - 1):
        ciphertext, mask = public.mask(public.message_part(message))
        assert 0 <= mask < public.modulus
        assert key.decrypt(ciphertext) == (message + mask) % public.modulus
