"""The oblivious pseudo-random function: both sides agree on the receiver's items, and who cheats is caught."""

from __future__ import annotations

from math import comb, log2

import numpy as np
import pytest

from crypto.two_parties import balanced
from masquerade.crypto import (
    HeldStore,
    ItemStore,
    PrfReceiver,
    PrfSender,
    TweakedHash,
    decode,
    digest_items,
    zero_shares,
)
from masquerade.crypto.bits import BitMatrix, bit_columns, digests, rank
from masquerade.crypto.hashing import random_blocks
from masquerade.crypto.oblivious_prf import ANSWER_BYTES, CHOICE_BITS, COLUMNS, Query, _Public, values_of
from masquerade.errors import BadMessage, ParameterError

FAMILY = TweakedHash(bytes(16))
Sides = tuple[PrfReceiver, PrfSender]


@pytest.fixture(scope="module")
def sides() -> Sides:
    receiver, sender = PrfReceiver(b"session"), PrfSender(b"session", FAMILY)
    to_sender, to_receiver = receiver.setup(), sender.setup()
    receiver.finish_setup(to_receiver)
    sender.finish_setup(to_sender)
    return receiver, sender


def items_of(*numbers: int) -> np.ndarray:
    return digest_items([b"%d" % each for each in numbers], b"key")


def extended(sides: Sides, numbers: range, change: dict[int, int] | None = None) -> tuple[Query, HeldStore]:
    """A store whose columns have been sent; `change` flips a slot's choice in some columns."""
    receiver, sender = sides
    query = receiver.query(ItemStore(items_of(*numbers), len(numbers), FAMILY))
    held = sender.store(len(numbers))
    for message in query.messages():
        columns = np.frombuffer(message, np.uint8).reshape(COLUMNS, -1).copy()
        for column, slot in (change or {}).items():
            columns[column, slot // 8] ^= 1 << slot % 8
        held.take(columns.tobytes())
    return query, held


def checked(query: Query, held: HeldStore) -> None:
    held.check(query.answer(held.challenge()))


@pytest.mark.parametrize("count", [1, 2, 100, 40_000])  # the last takes two messages
def test_both_sides_agree_on_the_receivers_items_and_nowhere_else(sides: Sides, count: int) -> None:
    query, held = extended(sides, range(count))
    checked(query, held)
    own = query.evaluate()
    assert np.array_equal(held.evaluate(items_of(*range(count))), own)
    others = held.evaluate(items_of(*range(count, 2 * count)))
    assert len({row.tobytes() for row in (*own, *others)}) == 2 * count


def test_values_look_random(sides: Sides) -> None:
    query, held = extended(sides, range(500))
    checked(query, held)
    assert balanced(np.unpackbits(query.evaluate().view(np.uint8)))
    assert balanced(np.unpackbits(held.evaluate(items_of(*range(500, 1000))).view(np.uint8)))


def test_masked_columns_look_random_whatever_the_items(sides: Sides) -> None:
    receiver, sender = sides
    seen = []
    for numbers in (range(50), range(50)):
        (message,) = receiver.query(ItemStore(items_of(*numbers), 50, FAMILY)).messages()
        sender.store(50).take(message)  # both read on in their streams
        seen.append(message)
    assert all(balanced(np.unpackbits(np.frombuffer(each, np.uint8))) for each in seen)
    assert balanced(np.unpackbits(np.frombuffer(seen[0], np.uint8) ^ np.frombuffer(seen[1], np.uint8)))


def test_digests_of_a_check_show_nothing_of_the_store(sides: Sides) -> None:
    """The same store twice: the random slots beside it make its digests differ in half of their bits."""
    answers = []
    for _ in range(2):
        query, _ = extended(sides, range(50))
        answers.append(np.frombuffer(query.answer(bytes(32)), np.uint8)[:-32])
    assert balanced(np.unpackbits(answers[0]))
    assert balanced(np.unpackbits(answers[0] ^ answers[1]))


# A receiver that cheats: each column in which it does is a guess at a digit of the sender's secret.


@pytest.mark.parametrize("digit", [0, 1])
def test_one_inconsistent_column_is_noticed_where_the_secret_has_a_one(sides: Sides, digit: int) -> None:
    column = int(np.flatnonzero(sides[1]._digits == digit)[0])
    query, held = extended(sides, range(20), {column: 7})
    if digit:
        with pytest.raises(BadMessage, match="not those of one store"):
            checked(query, held)
        with pytest.raises(ParameterError, match="nothing is evaluated"):
            held.evaluate(items_of(1))
    else:  # it guessed right, and has learnt what it guessed
        checked(query, held)


def test_many_inconsistent_columns_are_always_noticed(sides: Sides) -> None:
    for slot in range(3):
        query, held = extended(sides, range(20), dict.fromkeys(range(0, COLUMNS, 5), slot))
        with pytest.raises(BadMessage, match="not those of one store"):
            checked(query, held)


def test_unchecked_inconsistent_columns_would_show_digits_of_the_secret(sides: Sides) -> None:
    """Why there is a check: whether F is what the receiver computes tells the digit, one item for each column."""
    store = ItemStore(items_of(*range(20)), 20, FAMILY)
    slots = [int(store.at.sparse[0][item]) for item in range(20)]
    alone = [item for item, slot in enumerate(slots) if slots.count(slot) == 1][:5]
    query, held = extended(sides, range(20), {column: slots[item] for column, item in enumerate(alone)})
    held._passed = True
    same = (held.evaluate(items_of(*range(20))) == query.evaluate()).all(axis=1)
    learnt = [int(not same[item]) for item in alone]
    assert learnt == sides[1]._digits[: len(alone)].tolist()


def test_a_column_of_another_store_is_noticed(sides: Sides) -> None:
    """Not only single bits: what is sent fits another store, and the answer is of the first."""
    query, held = extended(sides, range(20))
    other, other_held = extended(sides, range(20, 40))
    with pytest.raises(BadMessage, match="not those of one store"):
        held.check(other.answer(held.challenge()))
    with pytest.raises(BadMessage, match="not those of one store"):
        other_held.check(query.answer(other_held.challenge()))


def test_messages_that_do_not_fit_are_refused(sides: Sides) -> None:
    receiver, sender = sides
    query = receiver.query(ItemStore(items_of(1, 2), 2, FAMILY))
    (message,) = query.messages()
    held = sender.store(2)
    with pytest.raises(ParameterError, match="when all columns have come"):
        held.challenge()
    with pytest.raises(BadMessage, match="columns of"):
        held.take(message[:-8])
    held.take(message)
    with pytest.raises(ParameterError, match="have come"):
        held.take(message)
    with pytest.raises(BadMessage, match=f"has {ANSWER_BYTES} bytes"):
        held.check(bytes(ANSWER_BYTES))  # before the challenge
    held.challenge()
    with pytest.raises(BadMessage, match=f"has {ANSWER_BYTES} bytes"):
        held.check(bytes(7))
    with pytest.raises(BadMessage, match="seed"):
        query.answer(bytes(3))
    with pytest.raises(ParameterError, match="not set up"):
        PrfReceiver(b"s").query(ItemStore(items_of(1), 1, FAMILY))
    with pytest.raises(ParameterError, match="not set up"):
        PrfSender(b"s", FAMILY).store(1)


# What the argument in docs/crypto.md rests on.


def test_the_shortened_offset_is_uniform() -> None:
    """M restricted to the columns in which a difference shows has full rank, for stores that do not know C and M."""
    public = _Public(b"any session")
    rng = np.random.default_rng(3)
    for _ in range(20):
        difference = rng.integers(0, 2, CHOICE_BITS, np.uint8)
        support = (public.code.bits @ difference) & 1
        assert rank(public.shorten.bits[:, support == 1]) == 128


@pytest.mark.parametrize(("least", "tries"), [(109, 0), (88, 40)])
def test_no_difference_is_light_whoever_chooses_it(least: int, tries: int) -> None:
    """With the best of 2^tries C and M: that one of the differences leaves fewer unknown bits has a chance of 2^-40."""

    def at_most(width: int) -> float:
        """Log2 of a bound on the probability that a random 128 × width matrix has a rank below `least`."""
        short = least - 1
        return 0.0 if width <= short else min(0.0, 3 - (128 - short) * (width - short))

    chance = sum(
        2.0 ** (log2(comb(COLUMNS, width)) - COLUMNS + CHOICE_BITS + at_most(width)) for width in range(COLUMNS + 1)
    )
    assert tries + log2(chance) < -40


def test_a_store_that_does_not_know_the_code_is_left_with_all_bits() -> None:
    """2^-128 for each try, and hardly more."""
    assert COLUMNS * log2(3 / 4) < -128 - 40


def test_cheating_in_forty_columns_cannot_be_hidden_in_the_digests() -> None:
    """All sets of up to 40 columns, times the chance that digests of different columns are equal under three keys."""
    sets = log2(sum(comb(COLUMNS, size) for size in range(41)))
    blocks = log2((1 << 18) * 1.4 / 128)
    assert sets + 3 * (blocks - 128) < -40


def test_digests_are_linear_and_tell_columns_apart() -> None:
    one, other = (np.random.default_rng(seed).integers(0, 256, (5, 4096), np.uint8) for seed in (1, 2))
    seed = b"seed"
    assert np.array_equal(digests(one ^ other, seed), digests(one, seed) ^ digests(other, seed))
    assert not digests(np.zeros((1, 64), np.uint8), seed).any()
    assert len({row.tobytes() for row in digests(one, seed)}) == 5
    assert not np.array_equal(digests(one, seed), digests(one, b"another"))


def test_matrices_times_columns() -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2, (30, 64), np.uint8)
    slots = rng.integers(0, 1 << 64, 128, np.uint64)
    columns = bit_columns(slots)
    plain = np.unpackbits(columns.view(np.uint8), axis=1, bitorder="little")
    assert [int(f"{int(slot):064b}"[63 - 3]) for slot in slots] == plain[3].tolist()
    for group in (5, 8):
        product = np.unpackbits(BitMatrix(bits, group).times(columns).view(np.uint8), axis=1, bitorder="little")
        assert np.array_equal(product, (bits.astype(int) @ plain) % 2)
    assert rank(np.eye(7, dtype=np.uint8)) == 7
    assert rank(np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]], np.uint8)) == 2
    assert rank(np.zeros((3, 3), np.uint8)) == 0


def test_the_receivers_store_has_the_value_of_each_item() -> None:
    items = items_of(*range(30))
    store = ItemStore(items, 40, FAMILY)
    assert np.array_equal(decode(store.layout.shape, store.words, store.at), values_of(items, FAMILY))


def test_shares_of_zero_cancel_for_who_has_an_item() -> None:
    keys = {frozenset(pair): bytes([number]) * 16 for number, pair in enumerate([(0, 1), (0, 2), (1, 2)])}
    items = random_blocks(20)
    shares = [zero_shares(items, [key for pair, key in keys.items() if member in pair]) for member in range(3)]
    assert not (shares[0] ^ shares[1] ^ shares[2]).any()
    assert all(balanced(np.unpackbits(share.view(np.uint8))) for share in (shares[0], shares[0] ^ shares[1]))
