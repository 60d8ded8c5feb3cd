"""One of N and all but one of N: against plain indexing, what stays hidden, and misuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import balanced, looks_random, set_up
from examples import examples
from masquerade.crypto import TableReceiver, TableSender
from masquerade.crypto.one_of_n import digits_of
from masquerade.crypto.punctured_trees import TreeReceiver, TreeSender
from masquerade.errors import BadMessage, ParameterError


@pytest.fixture(scope="module")
def tables() -> tuple[TableSender, TableReceiver]:
    sender, receiver = set_up(b"tables")
    return TableSender(b"tables", sender), TableReceiver(b"tables", receiver)


@pytest.fixture(scope="module")
def trees() -> tuple[TreeSender, TreeReceiver]:
    sender, receiver = set_up(b"trees")
    return TreeSender(b"trees", sender), TreeReceiver(b"trees", receiver)


def some_indices(count: int, entries: int) -> np.ndarray:
    return np.random.default_rng(entries).integers(0, entries, count)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 12), st.integers(1, 70), st.integers(1, 20))
def test_the_receiver_gets_the_entries_it_asks_for(
    tables: tuple[TableSender, TableReceiver], count: int, entries: int, size: int
) -> None:
    sender, receiver = tables
    values = np.random.default_rng(size).integers(0, 256, (count, entries, size), dtype=np.uint8)
    wanted = some_indices(count, entries)
    answer = sender.offer(receiver.ask(wanted, entries), values)
    assert len(answer) == values.size
    assert np.array_equal(receiver.receive(answer, size), values[np.arange(count), wanted])


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 12), st.integers(1, 300))
def test_bits_of_tables(tables: tuple[TableSender, TableReceiver], count: int, entries: int) -> None:
    sender, receiver = tables
    values = np.random.default_rng(count).integers(0, 2, (count, entries), dtype=np.uint8)
    wanted = some_indices(count, entries)
    answer = sender.offer_bits(receiver.ask(wanted, entries), values)
    assert len(answer) == -(-values.size // 8)
    assert np.array_equal(receiver.receive_bits(answer), values[np.arange(count), wanted])


def test_entries_that_were_not_asked_for_stay_masked(tables: tuple[TableSender, TableReceiver]) -> None:
    """All tables hold zeros, so the answer is the masks: each looks random, and no two are related."""
    sender, receiver = tables
    for wanted in (0, 6):
        masks = np.frombuffer(
            sender.offer(receiver.ask(np.full(2000, wanted), 7), np.zeros((2000, 7, 8), np.uint8)), np.uint8
        ).reshape(2000, 7, 8)
        receiver.receive(masks.tobytes(), 8)
        for entry in range(7):
            assert looks_random(masks[:, entry].tobytes())
            for other in range(entry):
                assert looks_random((masks[:, entry] ^ masks[:, other]).tobytes())
        # Rows and columns of masks do not cancel either: (0,0) ⊕ (0,1) ⊕ (1,0) ⊕ (1,1) of the rectangle.
        assert looks_random((masks[:, 0] ^ masks[:, 1] ^ masks[:, 2] ^ masks[:, 3]).tobytes())


@pytest.mark.parametrize("wanted", [0, 12])
def test_asking_does_not_show_the_index(wanted: int) -> None:
    message = TableReceiver(b"session", set_up()[1]).ask(np.full(20_000, wanted), 13)
    assert looks_random(message[16:])
    message = TreeReceiver(b"session", set_up()[1]).ask(np.full(20_000, wanted), 13)
    assert looks_random(message[16:])


def test_tables_misused() -> None:
    transfers = set_up()
    sender, receiver = TableSender(b"s", transfers[0]), TableReceiver(b"s", transfers[1])
    with pytest.raises(ParameterError, match="no tables were asked for"):
        receiver.receive(b"", 1)
    with pytest.raises(ParameterError, match="between 0 and 4"):
        receiver.ask(np.array([5]), 5)
    with pytest.raises(ParameterError, match="between 0 and 4"):
        receiver.ask(np.array([-1]), 5)
    with pytest.raises(ParameterError, match="between 1 and 2"):
        receiver.ask(np.array([0]), 0)
    message = receiver.ask(np.array([4, 1]), 5)
    with pytest.raises(ParameterError, match="not received yet"):
        receiver.ask(np.array([0]), 5)
    with pytest.raises(ParameterError, match=r"uint8\[n, N, size\]"):
        sender.offer(message, np.zeros((2, 5), np.uint8))
    with pytest.raises(ParameterError, match="zeros and ones"):
        sender.offer_bits(message, np.full((2, 5), 2, np.uint8))
    with pytest.raises(BadMessage, match="take a message of"):
        sender.offer(message[:-1], np.zeros((2, 5, 1), np.uint8))
    answer = sender.offer(message, np.arange(10, dtype=np.uint8).reshape(2, 5, 1))
    with pytest.raises(BadMessage, match=r"2 tables of 5 entries of 1 bytes take 10 bytes\. Got 9"):
        receiver.receive(answer[:-1], 1)
    with pytest.raises(BadMessage, match=r"2 tables of 5 bits take 2 bytes\. Got 10"):
        receiver.receive_bits(answer)
    assert receiver.receive(answer, 1).ravel().tolist() == [4, 6]
    with pytest.raises(ParameterError, match="no tables were asked for"):
        receiver.receive(answer, 1)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10), st.integers(1, 70))
def test_trees_give_all_leaves_but_one(trees: tuple[TreeSender, TreeReceiver], count: int, leaves: int) -> None:
    sender, receiver = trees
    holes = some_indices(count, leaves)
    seeds, answer = sender.answer(receiver.ask(holes, leaves), count, leaves)
    assert len(answer) == 32 * count * max(digits_of(leaves) - 1, 0)
    got = receiver.receive(answer)
    assert seeds.shape == got.shape == (leaves, count, 2)
    same = (seeds == got).all(axis=2)
    expected = np.ones((leaves, count), bool)
    expected[holes, np.arange(count)] = False
    assert np.array_equal(same, expected)
    assert not got[holes, np.arange(count)].any()
    assert len(np.unique(seeds)) == seeds.size


def test_the_missing_leaf_is_unrelated_to_what_the_receiver_has(trees: tuple[TreeSender, TreeReceiver]) -> None:
    sender, receiver = trees
    count, leaves = 3000, 8
    holes = np.full(count, 5)
    seeds, answer = sender.answer(receiver.ask(holes, leaves), count, leaves)
    known = receiver.receive(answer)
    missing = seeds[5]
    assert looks_random(missing.tobytes())
    assert looks_random((missing ^ np.bitwise_xor.reduce(known)).tobytes())
    for leaf in (0, 4, 7):
        assert looks_random((missing ^ known[leaf]).tobytes())
    sums = np.frombuffer(answer, np.uint64).reshape(2, 2, count, 2)
    for half in sums.reshape(4, count, 2):
        assert balanced(np.unpackbits((half ^ missing).view(np.uint8)))


def test_trees_misused() -> None:
    transfers = set_up()
    sender, receiver = TreeSender(b"s", transfers[0]), TreeReceiver(b"s", transfers[1])
    with pytest.raises(ParameterError, match="no trees were asked for"):
        receiver.receive(b"")
    with pytest.raises(ParameterError, match="between 0 and 4"):
        receiver.ask(np.array([5]), 5)
    message = receiver.ask(np.array([2]), 5)
    with pytest.raises(ParameterError, match="not received yet"):
        receiver.ask(np.array([2]), 5)
    with pytest.raises(BadMessage, match="take a message of"):
        sender.answer(message, 1000, 5)
    _, answer = sender.answer(message, 1, 5)
    with pytest.raises(BadMessage, match="2 pairs of 16 bytes take 64 bytes"):
        receiver.receive(answer[1:])
    with pytest.raises(BadMessage, match="come next"):
        sender.answer(message, 1, 5)
    assert receiver.receive(answer).shape == (5, 1, 2)
