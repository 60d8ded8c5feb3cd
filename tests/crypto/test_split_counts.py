"""Shares of how often each value occurs in each part of public groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import Transfers, fresh, looks_random
from examples import examples
from masquerade.crypto import ValueReceiver, ValueSender, tree_batches
from masquerade.crypto.split_counts import word_of_counts
from masquerade.errors import BadMessage, ParameterError


def both_sides(transfers: Transfers, values: list[int], n_values: int, batch: int) -> tuple[ValueSender, ValueReceiver]:
    sender, receiver = transfers
    session = fresh(b"column")
    sending = ValueSender(session, sender, n_values, len(values))
    receiving = ValueReceiver(session, receiver, n_values, len(values))
    for at in range(0, len(values), batch):
        part = np.array(values[at : at + batch], np.uint64)
        receiving.receive(sending.answer(receiving.ask(part), part.size))
    return sending, receiving


@st.composite
def splits(draw: st.DrawFn) -> dict[str, Any]:
    n_values, n = draw(st.integers(2, 9)), draw(st.integers(1, 40))
    values = draw(st.lists(st.integers(0, n_values - 1), min_size=n, max_size=n))
    asked = []
    for _ in range(draw(st.integers(1, 3))):
        n_parts = draw(st.integers(1, 20))
        rows = draw(st.permutations(range(n)))[: draw(st.integers(1, n))]
        ends = sorted(draw(st.sets(st.integers(1, len(rows)), max_size=5)) | {len(rows)})
        parts = draw(st.lists(st.integers(0, n_parts), min_size=len(rows), max_size=len(rows)))
        asked.append((rows, [0, *ends[:-1]], parts, n_parts))
    return {"values": values, "n_values": n_values, "asked": asked, "batch": draw(st.integers(1, n))}


@settings(max_examples=examples(40), deadline=None)
@given(drawn=splits())
def test_the_shares_of_every_split_sum_to_the_counts(transfers: Transfers, drawn: dict[str, Any]) -> None:
    values, n_values = drawn["values"], drawn["n_values"]
    sending, receiving = both_sides(transfers, values, n_values, drawn["batch"])
    for rows, starts, parts, n_parts in drawn["asked"]:
        counts = np.zeros((len(starts), n_parts, n_values), np.int64)
        for at, (row, part) in enumerate(zip(rows, parts, strict=True)):
            if part < n_parts:  # the part past the last is counted nowhere
                counts[np.searchsorted(starts, at, "right") - 1, part, values[row]] += 1
        message, mine = sending.split(np.array(rows), np.array(starts), np.array(parts), n_parts)
        theirs = receiving.split(message, np.array(rows), np.array(starts), n_parts)
        assert np.array_equal(mine + theirs, counts)


def test_splits_look_random_and_no_mask_serves_twice(transfers: Transfers) -> None:
    sending, _ = both_sides(transfers, [3] * 600, 14, 600)
    rows, starts, parts = np.arange(600), np.arange(0, 600, 3), np.zeros(600, np.int64)
    (first, share), (second, _) = (sending.split(rows, starts, parts, 8) for _ in range(2))
    assert looks_random(first)
    assert looks_random(second)
    assert looks_random(share.tobytes())
    difference = np.frombuffer(first, np.uint16) - np.frombuffer(second, np.uint16)
    assert looks_random(difference.tobytes())  # the same parts, asked again, are told by nothing


def test_messages_are_as_long_whatever_the_parts(transfers: Transfers) -> None:
    sending, _ = both_sides(transfers, [0, 1, 2, 1], 3, 4)
    asked = [sending.split(np.arange(4), np.array([0, 2]), np.array(parts), 4) for parts in ([0] * 4, [4, 1, 3, 0])]
    assert len({len(message) for message, _ in asked}) == 1


def test_what_does_not_fit_is_refused(transfers: Transfers) -> None:
    sending, receiving = both_sides(transfers, [0, 1], 2, 2)
    rows, starts = np.arange(2), np.array([0])
    message, _ = sending.split(rows, starts, np.array([0, 1]), 4)
    with pytest.raises(BadMessage, match=r"the parts of 2 records take 16 bytes. Got 15"):
        receiving.split(message[:-1], rows, starts, 4)
    with pytest.raises(ParameterError, match="between 0 and 4"):
        sending.split(rows, starts, np.array([0, 5]), 4)
    early = ValueSender(b"early", transfers[0], 2, 2)
    with pytest.raises(ParameterError, match="trees of some records are missing"):
        early.split(rows, starts, np.array([0, 1]), 4)


def test_words_hold_every_count_and_batches_every_record() -> None:
    assert word_of_counts((1 << 16) - 1) == np.uint16
    assert word_of_counts(1 << 16) == np.uint32
    with pytest.raises(ParameterError, match=r"below 2\^32"):
        word_of_counts(1 << 32)
    assert [(part.start, part.stop) for part in tree_batches(40_000)] == [(0, 32_768), (32_768, 40_000)]
