"""Shares of how often each pair of row and column occurs, and of rows added up by what the other party knows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import NARROW, WIDE, Transfers, fresh, looks_random, set_up
from examples import examples
from masquerade.crypto import BlockReceiver, BlockSender, UnitReceiver, UnitSender, Words, WordType, word_for
from masquerade.crypto.punctured_trees import RowSums
from masquerade.errors import BadMessage, ParameterError


def both(
    rows: int, columns: int, word: WordType = NARROW, transfers: Transfers | None = None
) -> tuple[UnitSender, UnitReceiver]:
    sender, receiver = transfers or set_up()
    session = fresh(b"table")
    return (UnitSender(session, sender, rows, columns, word), UnitReceiver(session, receiver, rows, columns, word))


def shares(
    pairs: list[tuple[int, int]],
    rows: int,
    columns: int,
    word: WordType,
    batch: int,
    transfers: Transfers | None = None,
) -> tuple[Words, Words, list[bytes]]:
    """Both shares, and everything that travelled; two batches are under way at a time."""
    sending, receiving = both(rows, columns, word, transfers)
    labels = np.array(pairs, np.uint64).reshape(-1, 2)
    parts = [labels[at : at + batch] for at in range(0, len(labels), batch)]
    travelled = []
    waiting = []
    for part in parts:
        waiting.append((receiving.ask(part[:, 0]), part[:, 1]))
        if len(waiting) == 2:
            travelled.append(waiting[0][0])
            answer = sending.answer(*waiting.pop(0))
            travelled.extend(answer)
            receiving.receive(*answer)
    for each in waiting:
        receiving.receive(*sending.answer(*each))
    return sending.share(), receiving.share(), travelled


@st.composite
def many_pairs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int, int]:
    rows, columns = draw(st.integers(1, 20)), draw(st.integers(1, 30))
    pairs = draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, columns)), min_size=1, max_size=60))
    return pairs, rows, columns


@settings(max_examples=examples(40), deadline=None)
@given(drawn=many_pairs(), word=st.sampled_from([NARROW, WIDE]), batch=st.integers(1, 30))
def test_the_shares_sum_to_the_counts(
    transfers: Transfers, drawn: tuple[list[tuple[int, int]], int, int], word: WordType, batch: int
) -> None:
    pairs, rows, columns = drawn
    counts = np.zeros((rows, columns), np.int64)
    for row, column in pairs:
        if column < columns:  # the label past the last is counted nowhere
            counts[row, column] += 1
    sent, received, _ = shares(pairs, rows, columns, word, batch, transfers)
    assert sent.dtype == received.dtype == word
    assert np.array_equal(sent + received, counts)


def test_either_share_and_every_message_looks_random() -> None:
    pairs = [(3, 5)] * 400
    sent, received, travelled = shares(pairs, 64, 64, NARROW, 100)
    assert looks_random(sent.tobytes())
    assert looks_random(received.tobytes())
    assert all(looks_random(part[16:]) for part in travelled if len(part) > 5000)


def test_messages_are_as_long_whatever_the_labels() -> None:
    one = shares([(0, 0)] * 30, 9, 7, NARROW, 10)[2]
    other = shares([(at % 9, at % 8) for at in range(30)], 9, 7, NARROW, 10)[2]
    assert [len(part) for part in one] == [len(part) for part in other]


def test_what_does_not_fit_is_refused() -> None:
    sending, receiving = both(5, 4)
    first = receiving.ask(np.array([1, 2], np.uint64))
    receiving.ask(np.array([3], np.uint64))
    with pytest.raises(ParameterError, match="two batches of records are under way"):
        receiving.ask(np.array([3], np.uint64))
    with pytest.raises(ParameterError, match="missing"):
        receiving.share()
    trees, rows = sending.answer(first, np.array([0, 4], np.uint64))
    with pytest.raises(BadMessage, match=r"2 rows of sums take 16 bytes. Got 15"):
        receiving.receive(trees, rows[:-1])
    with pytest.raises(BadMessage):
        receiving.receive(trees[:-1], rows)
    with pytest.raises(ParameterError, match="between 0 and 4"):
        both(5, 4)[0].answer(b"", np.array([5], np.uint64))


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_seed_is_expanded_the_same_way_wherever_it_stands(workers: int) -> None:
    rng = np.random.default_rng(1)
    seeds = rng.integers(0, 1 << 63, (7, 3, 2), np.uint64)
    whole, alone = RowSums(b"s", 7, 21, NARROW, workers), RowSums(b"s", 1, 21, NARROW)
    by_tree = whole.add(seeds)
    rows = np.stack([[alone.add(seeds[leaf : leaf + 1, [tree]])[0] for tree in range(3)] for leaf in range(7)])
    assert np.array_equal(by_tree, rows.sum(axis=0, dtype=np.uint16))
    assert np.array_equal(whole.total(), rows.sum(axis=1, dtype=np.uint16))
    assert len({row.tobytes() for row in rows.reshape(21, -1)}) == 21
    other_session = RowSums(b"t", 7, 21, NARROW)
    assert not np.array_equal(other_session.add(seeds), by_tree)


def test_words_hold_every_count() -> None:
    assert word_for((1 << 15) - 1) == NARROW
    assert word_for(1 << 15) == WIDE
    with pytest.raises(ParameterError, match=r"below 2\^31"):
        word_for(1 << 31)


# Rows in the place of unit vectors, added up within blocks.


def blocks(
    leaves: int, columns: int, block: int, word: WordType, transfers: Transfers
) -> tuple[BlockSender, BlockReceiver]:
    session = fresh(b"blocks")
    return (
        BlockSender(session, transfers[0], leaves, columns, block, word),
        BlockReceiver(session, transfers[1], leaves, columns, block, word),
    )


@settings(max_examples=examples(25), deadline=None)
@given(
    n=st.integers(1, 40),
    leaves=st.integers(1, 6),
    columns=st.integers(1, 30),
    block=st.integers(1, 45),
    seed=st.integers(0, 2**32),
    word=st.sampled_from([NARROW, WIDE]),
)
def test_rows_are_added_up_by_leaf_and_block(
    n: int, leaves: int, columns: int, block: int, seed: int, word: WordType, transfers: Transfers
) -> None:
    random = np.random.default_rng(seed)
    chosen, rows = random.integers(0, leaves, n), random.integers(0, 1 << 16, (n, columns)).astype(word)
    sending, receiving = blocks(leaves, columns, block, word, transfers)
    trees = sending.answer(receiving.ask(chosen.astype(np.uint64)), n)
    total = receiving.expand(trees) + sending.expand()
    at = np.arange(n) // block, chosen
    np.add.at(total, at, receiving.complete(sending.mask(rows)))
    expected = np.zeros((-(-n // block), leaves, columns), word)
    np.add.at(expected, at, rows)
    assert np.array_equal(total, expected)


def test_all_that_travels_looks_random(transfers: Transfers) -> None:
    n = 300
    sending, receiving = blocks(3, 40, 50, NARROW, transfers)
    asked = receiving.ask(np.zeros(n, np.uint64))
    trees = sending.answer(asked, n)
    ours = sending.expand()
    receiving.expand(trees)
    masked = sending.mask(np.zeros((n, 40), np.uint16))
    for message in (trees, masked, ours.tobytes(), receiving.complete(masked).tobytes()):
        assert looks_random(message)


def test_messages_of_another_length_are_refused(transfers: Transfers) -> None:
    sending, receiving = blocks(3, 10, 5, NARROW, transfers)
    receiving.expand(sending.answer(receiving.ask(np.zeros(7, np.uint64)), 7))
    sending.expand()
    masked = sending.mask(np.zeros((7, 10), np.uint16))
    with pytest.raises(BadMessage, match=r"7 masked rows take 140 bytes. Got 139"):
        receiving.complete(masked[:-1])
    with pytest.raises(ParameterError, match="at least one record"):
        blocks(3, 10, 0, NARROW, transfers)


@settings(max_examples=examples(10), deadline=None)
@given(n=st.integers(1, 30), rows=st.integers(1, 12), columns=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_any_row_may_take_the_place_of_a_unit_vector(
    n: int, rows: int, columns: int, seed: int, transfers: Transfers
) -> None:
    random = np.random.default_rng(seed)
    chosen, own = random.integers(0, rows, n), random.integers(0, 1 << 16, (n, columns)).astype(np.uint16)
    session = fresh(b"rows")
    sending = UnitSender(session, transfers[0], rows, columns, NARROW)
    receiving = UnitReceiver(session, transfers[1], rows, columns, NARROW)
    receiving.receive(*sending.answer_rows(receiving.ask(chosen.astype(np.uint64)), own))
    expected = np.zeros((rows, columns), np.uint16)
    np.add.at(expected, chosen, own)
    assert np.array_equal(sending.share() + receiving.share(), expected)
