"""Shares of rows of counts become bits: which blocks of groups satisfy, and nothing of counts that did not come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from examples import examples
from masquerade.crypto import Circuit, row_bounded, row_distinct, sized
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script
from masquerade.protocol import pairs
from masquerade.protocol.pairs import Pair
from masquerade.protocol.sensitive.verdict import SharedRows, blocks_satisfy
from protocol.tampering import cut_short
from protocol.test_joint_histogram import together

WIDTH, LEAST = 6, 3
HOLDER, ASKER = "anna", "berta"


def shared(rows: list[list[int]], seed: int) -> tuple[SharedRows, SharedRows]:
    """The shares that come out of honest counting, of the holder and of the asker."""
    counts, rng = np.array(rows, np.uint16), np.random.default_rng(seed)
    weights = rng.integers(0, 1 << 64, counts.shape[1] + 1, np.uint64)
    tags = (counts * (weights[:-1] + weights[-1])).sum(axis=1, dtype=np.uint64)
    other, other_tags = (
        rng.integers(0, 1 << 16, counts.shape, np.uint16),
        rng.integers(0, 1 << 64, len(tags), np.uint64),
    )
    return SharedRows(counts - other, tags - other_tags, weights), SharedRows(other, other_tags)


def judged(rows: tuple[SharedRows, SharedRows], judge: Circuit, blocks: list[int], **around: Any) -> list[Any]:
    circuit = sized(judge, WIDTH, LEAST, tells=True)

    def part(me: int) -> Callable[[Pair], Script[Any]]:
        return lambda pair: blocks_satisfy(pair, rows[me], circuit, blocks)

    return together(part, around=around)


@settings(max_examples=examples(15), deadline=None)
@given(st.data())
def test_of_which_blocks_all_rows_satisfy(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(0, 5), min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    cut = data.draw(st.integers(0, len(rows) - 1))
    blocks = [cut, len(rows) - cut] if cut else [len(rows)]
    allowed = [not sum(each) or (sum(each) >= LEAST and np.count_nonzero(each) >= 2) for each in rows]
    bounded = [not sum(each) or (sum(each) >= LEAST and 2 * max(each) <= sum(each)) for each in rows]
    shares = shared(rows, data.draw(st.integers(0, 99)))
    for judge, expected in ((row_distinct(columns, WIDTH, 2), allowed), (row_bounded(columns, WIDTH, (1, 2)), bounded)):
        wanted = [all(expected[:cut]), all(expected[cut:])] if cut else [all(expected)]
        for found in judged(shares, judge, blocks):
            assert found.tolist() == wanted


def test_many_rows_go_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_PART_BYTES", 1 << 14)
    rows = [[2, 1], [3, 0], [0, 0]] * 5
    for found in judged(shared(rows, 1), row_distinct(2, WIDTH, 2), [1] * len(rows)):
        assert found.tolist() == [True, False, True] * 5


def add(to: str, row: int, more: list[int] | int) -> Callable[[SharedRows], None]:
    def change(rows: SharedRows) -> None:
        share: NDArray[Any] = getattr(rows, to)[row]
        getattr(rows, to)[row] = share + np.array(more).astype(share.dtype)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(add("counts", 0, [0, 3]), id="people more"),
        pytest.param(add("counts", 1, [0, -1]), id="a person less"),
        pytest.param(add("counts", 1, [1, -1]), id="another value"),
        pytest.param(add("counts", 0, [1 << (WIDTH - 1), 0]), id="the highest digit"),
        pytest.param(add("tags", 1, 1), id="a tag alone"),
    ],
)
def test_an_asker_that_changes_its_shares_is_named_and_has_no_verdict(change: Callable[[SharedRows], None]) -> None:
    holder, asker = shared([[1, 0], [2, 2]], 3)
    change(asker)
    with pytest.raises(PeerBrokeProtocol, match="had other counts judged than those that came out") as caught:
        judged((holder, asker), row_distinct(2, WIDTH, 2), [2])
    assert caught.value.peer == ASKER


def test_what_is_above_a_counts_digits_is_of_no_account() -> None:
    """Shares are longer than counts: their higher digits reach no circuit, and so tell nothing."""
    holder, asker = shared([[1, 2], [2, 2]], 3)
    add("counts", 0, [1 << WIDTH, 0])(asker)
    for found in judged((holder, asker), row_distinct(2, WIDTH, 2), [2]):
        assert found.tolist() == [True]


@pytest.mark.parametrize(
    ("kind", "guilty"),
    [
        *(("circuit-input", ASKER), ("circuit-garbled", HOLDER), ("row-weights", HOLDER)),
        *(("counts-proof", ASKER), ("circuit-output", ASKER)),
    ],
)
def test_a_short_message_is_its_senders_fault(kind: str, guilty: str) -> None:
    with pytest.raises(PeerBrokeProtocol) as caught:
        judged(
            shared([[1, 2], [2, 2]], 5),
            row_distinct(2, WIDTH, 2),
            [2],
            **{guilty: lambda script: cut_short(script, kind)},
        )
    assert caught.value.peer == guilty
