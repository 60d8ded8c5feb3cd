"""Shares of how often each pair of row and column occurs."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import looks_random, set_up
from examples import examples
from masquerade.crypto import TransferReceiver, TransferSender, UnitReceiver, UnitSender, Words, WordType, word_for
from masquerade.crypto.punctured_trees import RowSums
from masquerade.errors import BadMessage, ParameterError

NARROW, WIDE = np.dtype(np.uint16), np.dtype(np.uint32)


Transfers = tuple[TransferSender, TransferReceiver]
tables = count()


@pytest.fixture(scope="module")
def transfers() -> Transfers:
    """One setup for many tables, as in a session."""
    return set_up()


def both(
    rows: int, columns: int, word: WordType = NARROW, transfers: Transfers | None = None
) -> tuple[UnitSender, UnitReceiver]:
    sender, receiver = transfers or set_up()
    session = b"table %d" % next(tables)
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
