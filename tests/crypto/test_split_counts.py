"""Shares of how often each value occurs in each part of public groups, and of their tags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from crypto.two_parties import Transfers, fresh, looks_random
from examples import examples
from masquerade.crypto import PartReceiver, ValueSender, tree_batches
from masquerade.crypto.split_counts import word_of_counts
from masquerade.errors import BadMessage, ParameterError

Numbers = list[int]


def both_sides(transfers: Transfers, n_values: int, sizes: Numbers, leaves: int) -> tuple[ValueSender, PartReceiver]:
    session, groups = fresh(b"groups"), np.array(sizes)
    sender, receiver = transfers
    return (
        ValueSender(session, sender, n_values, groups, leaves),
        PartReceiver(session, receiver, n_values, groups, leaves),
    )


def numbered(numbers: Numbers) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


@st.composite
def splits(draw: st.DrawFn) -> dict[str, Any]:
    n_values, leaves = draw(st.integers(1, 20)), 2 ** draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    n = sum(sizes)
    values = draw(st.lists(st.integers(0, n_values - 1), min_size=n, max_size=n))
    parts = draw(st.lists(st.integers(0, leaves - 1), min_size=n, max_size=n))
    return {
        "n_values": n_values,
        "sizes": sizes,
        "leaves": leaves,
        "values": values,
        "parts": parts,
        "batch": draw(st.integers(1, n)),
    }


@settings(max_examples=examples(40), deadline=None)
@given(drawn=splits())
def test_the_shares_sum_to_the_counts_and_to_what_they_weigh(transfers: Transfers, drawn: dict[str, Any]) -> None:
    sizes, leaves, n_values = drawn["sizes"], drawn["leaves"], drawn["n_values"]
    sending, receiving = both_sides(transfers, n_values, sizes, leaves)
    for at in range(0, sum(sizes), drawn["batch"]):
        part = slice(at, at + drawn["batch"])
        receiving.receive(
            *sending.answer(receiving.ask(numbered(drawn["parts"][part])), numbered(drawn["values"][part]))
        )
    counts = np.zeros((len(sizes), leaves, n_values), np.uint64)
    np.add.at(counts, (np.repeat(np.arange(len(sizes)), sizes), drawn["parts"], drawn["values"]), 1)
    (mine, my_tags), (theirs, their_tags) = sending.share(), receiving.share()
    assert np.array_equal(mine + theirs, counts)
    weighed = (counts * (sending.weights[:-1] + sending.weights[-1])).sum(axis=2)
    assert np.array_equal(my_tags + their_tags, weighed)


def test_rows_and_shares_look_random(transfers: Transfers) -> None:
    sending, receiving = both_sides(transfers, 14, [300, 300], 4)
    _, rows = sending.answer(receiving.ask(np.zeros(600, np.uint64)), np.full(600, 3, np.uint64))
    assert looks_random(rows)
    assert looks_random(b"".join(each.tobytes() for each in sending.share()))
    assert looks_random(both_sides(transfers, 600, [2], 4)[0].weights.tobytes())


def test_messages_are_as_long_whatever_parts_and_values(transfers: Transfers) -> None:
    lengths = set()
    for parts, values in (([0] * 4, [2, 2, 2, 2]), ([3, 1, 2, 0], [0, 1, 2, 0])):
        sending, receiving = both_sides(transfers, 3, [2, 2], 4)
        asked = receiving.ask(numbered(parts))
        lengths.add((len(asked), *map(len, sending.answer(asked, numbered(values)))))
    assert {each[1:] for each in lengths} == {(2 * 4 * 16, 4 * (3 * 2 + 8))}


def test_a_tree_that_is_not_whole_is_refused(transfers: Transfers) -> None:
    """Its receiver could choose a hole at no leaf; it would then have all masks, and so each record's value."""
    for leaves in (1, 3, 5, 12):
        for side in (0, 1):
            with pytest.raises(ParameterError, match="a tree must be whole"):
                (ValueSender, PartReceiver)[side](b"session", transfers[side], 3, np.array([2]), leaves)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused(transfers: Transfers) -> None:
    sending, receiving = both_sides(transfers, 3, [2], 4)
    trees, rows = sending.answer(receiving.ask(numbered([0, 1])), numbered([2, 0]))
    with pytest.raises(BadMessage, match=r"2 masked rows take 28 bytes. Got 27"):
        receiving.receive(trees, rows[:-1])
    with pytest.raises(ParameterError, match="between 0 and 3"):
        receiving.ask(numbered([0, 4]))
    sending, receiving = both_sides(transfers, 3, [2], 4)
    asked = receiving.ask(numbered([0, 1, 2]))
    with pytest.raises(ParameterError, match="the groups have 2 records, and no more"):
        sending.answer(asked, numbered([0, 0, 0]))


def test_counts_of_large_groups_take_wider_words() -> None:
    assert word_of_counts((1 << 16) - 1) == np.uint16
    assert word_of_counts(1 << 16) == np.uint32
    with pytest.raises(ParameterError, match="below"):
        word_of_counts(1 << 32)


def test_batches_cover_all_records() -> None:
    covered = [at for part in tree_batches(70_000, 8) for at in (part.start, part.stop)]
    assert covered == [0, 1 << 15, 1 << 15, 1 << 16, 1 << 16, 70_000]
    assert [(part.start, part.stop) for part in tree_batches(300, 1 << 13)] == [(0, 256), (256, 300)]
