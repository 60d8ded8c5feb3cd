"""Shares of rows that are added up by what only the other party knows."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import looks_random, set_up
from examples import examples
from masquerade.crypto import (
    BlockReceiver,
    BlockSender,
    TransferReceiver,
    TransferSender,
    UnitReceiver,
    UnitSender,
    WordType,
)
from masquerade.errors import BadMessage, ParameterError

NARROW, WIDE = np.dtype(np.uint16), np.dtype(np.uint32)
Transfers = tuple[TransferSender, TransferReceiver]
tables = count()


@pytest.fixture(scope="module")
def transfers() -> Transfers:
    return set_up()


def both(
    leaves: int, columns: int, block: int, word: WordType, transfers: Transfers
) -> tuple[BlockSender, BlockReceiver]:
    session = b"blocks %d" % next(tables)
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
    sending, receiving = both(leaves, columns, block, word, transfers)
    trees = sending.answer(receiving.ask(chosen.astype(np.uint64)), n)
    total = receiving.expand(trees) + sending.expand()
    at = np.arange(n) // block, chosen
    np.add.at(total, at, receiving.complete(sending.mask(rows)))
    expected = np.zeros((-(-n // block), leaves, columns), word)
    np.add.at(expected, at, rows)
    assert np.array_equal(total, expected)


def test_all_that_travels_looks_random(transfers: Transfers) -> None:
    n = 300
    sending, receiving = both(3, 40, 50, NARROW, transfers)
    asked = receiving.ask(np.zeros(n, np.uint64))
    trees = sending.answer(asked, n)
    ours = sending.expand()
    receiving.expand(trees)
    masked = sending.mask(np.zeros((n, 40), np.uint16))
    for message in (trees, masked, ours.tobytes(), receiving.complete(masked).tobytes()):
        assert looks_random(message)


def test_messages_of_another_length_are_refused(transfers: Transfers) -> None:
    sending, receiving = both(3, 10, 5, NARROW, transfers)
    receiving.expand(sending.answer(receiving.ask(np.zeros(7, np.uint64)), 7))
    sending.expand()
    masked = sending.mask(np.zeros((7, 10), np.uint16))
    with pytest.raises(BadMessage, match=r"7 masked rows take 140 bytes. Got 139"):
        receiving.complete(masked[:-1])
    with pytest.raises(ParameterError, match="at least one record"):
        both(3, 10, 0, NARROW, transfers)


@settings(max_examples=examples(10), deadline=None)
@given(n=st.integers(1, 30), rows=st.integers(1, 12), columns=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_any_row_may_take_the_place_of_a_unit_vector(
    n: int, rows: int, columns: int, seed: int, transfers: Transfers
) -> None:
    random = np.random.default_rng(seed)
    chosen, own = random.integers(0, rows, n), random.integers(0, 1 << 16, (n, columns)).astype(np.uint16)
    session = b"rows %d" % next(tables)
    sending = UnitSender(session, transfers[0], rows, columns, NARROW)
    receiving = UnitReceiver(session, transfers[1], rows, columns, NARROW)
    receiving.receive(*sending.answer_rows(receiving.ask(chosen.astype(np.uint64)), own))
    expected = np.zeros((rows, columns), np.uint16)
    np.add.at(expected, chosen, own)
    assert np.array_equal(sending.share() + receiving.share(), expected)
