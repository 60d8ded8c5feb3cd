"""The joint histogram of two parties, and what is tested on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crypto.two_parties import looks_random
from masquerade.crypto.circuit import Circuit
from masquerade.crypto.count_circuits import row_bounded, row_distinct
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net.memory import Heard, Wire, run_together
from masquerade.net.script import Message, Script, Send, kind_of
from masquerade.protocol.joint_histogram import (
    Bounds,
    group_bits,
    joint_histogram,
    looked_up,
    reached_shares,
)
from masquerade.protocol.joint_histogram_back_ends import cheaper, shared_tests
from masquerade.protocol.joint_histogram_homomorphic import slots_for
from masquerade.protocol.joint_histogram_pair import Pair, prepare_pair
from masquerade.protocol.joint_histogram_verdict import every_group_satisfies

NAMES = ("anna", "berta")
Labels = NDArray[np.uint64]
Part = Callable[[Pair], Script[Any]]


def together(parts: Callable[[int], Part], wire: Wire | None = None) -> list[Any]:
    """What both parties end with, each its own part on a fresh setup."""

    def whole(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        return (yield from parts(me)(pair))

    results = run_together({name: whole(me) for me, name in enumerate(NAMES)}, wire)
    return [results[name] for name in NAMES]


def counted(labels: tuple[Labels, Labels], bounds: Bounds) -> NDArray[np.int64]:
    """The plain table, with the labels that are counted nowhere left out."""
    table = np.zeros((bounds.labels[0] + 1, bounds.labels[1] + 1), np.int64)
    np.add.at(table, tuple(each.astype(np.intp) for each in labels), 1)
    table[-1], table[:, -1] = 0, 0
    return table


@st.composite
def labelled(draw: st.DrawFn) -> tuple[tuple[Labels, Labels], Bounds]:
    bounds = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(*(st.integers(0, bound) for bound in bounds)), min_size=1, max_size=50))
    left, right = np.array(pairs, np.uint64).T
    return (left, right), Bounds(len(pairs), bounds)


@settings(max_examples=15, deadline=None)
@given(labelled(), st.integers(0, 8))
def test_shares_are_those_of_plain_counting(drawn: tuple[tuple[Labels, Labels], Bounds], k: int) -> None:
    labels, bounds = drawn
    k = min(k, bounds.records)

    def part(me: int) -> Part:
        def run(pair: Pair) -> Script[Any]:
            table = yield from joint_histogram(pair, labels[me], bounds)
            counts = yield from looked_up(pair, table, labels[me], bounds)
            return table, counts, (yield from reached_shares(pair, counts, k, bounds))

        return run

    (left, left_counts, left_bits), (right, right_counts, right_bits) = together(part)
    expected = counted(labels, bounds)
    own = expected[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left + right, expected)
    assert np.array_equal(left_counts + right_counts, own)
    assert np.array_equal(left_bits ^ right_bits, own >= k)


def test_many_records_and_labels_go_in_batches() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 200, 40_000).astype(np.uint64), rng.integers(0, 9, 40_000).astype(np.uint64)
    bounds = Bounds(40_000, (199, 8))
    wire = Wire()
    left, right = together(lambda me: lambda pair: group_bits(pair, labels[me], 22, bounds), wire)
    own = counted(labels, bounds)[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left ^ right, own >= 22)
    assert 0 < np.count_nonzero(own >= 22) < 40_000
    assert sum(heard.kind == "histogram-trees" for heard in wire.heard) > 2
    assert bounds.picker == 1  # trees with few leaves are cheaper


@settings(max_examples=15, deadline=None)
@given(labelled(), st.integers(1, 4), st.sampled_from([0, 1]))
def test_one_bit_for_all_groups(
    drawn: tuple[tuple[Labels, Labels], Bounds], least: int, grouped_by: int
) -> None:
    labels, bounds = drawn
    columns = bounds.labels[1 - grouped_by]
    table = counted(labels, bounds)[:-1, :-1]
    rows = table if grouped_by == 0 else table.T
    cases: list[tuple[Circuit, bool]] = [
        (
            row_distinct(columns, bounds.width, least),
            all(np.count_nonzero(row) in range(least, 99) or not row.any() for row in rows),
        ),
        (
            row_bounded(columns, bounds.width, (1, 2)),
            all(2 * row.max() <= row.sum() for row in rows),
        ),
    ]

    def part(me: int) -> Part:
        def run(pair: Pair) -> Script[list[bool]]:
            share = yield from joint_histogram(pair, labels[me], bounds)
            answers = []
            for circuit, _ in cases:
                answers.append(
                    (yield from every_group_satisfies(pair, share, circuit, bounds, grouped_by=grouped_by))
                )
            return answers

        return run

    left, right = together(part)
    assert left == right == [expected for _, expected in cases]


def heard_by(name: str, labels: tuple[Labels, Labels], bounds: Bounds, k: int) -> list[Heard]:
    wire = Wire()
    together(lambda me: lambda pair: group_bits(pair, labels[me], k, bounds), wire)
    return wire.seen_by(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_view_does_not_depend_on_the_others_labels(name: str) -> None:
    """Same kinds and sizes in the same order, and nothing in them that is not random."""
    me = NAMES.index(name)
    own = np.arange(600, dtype=np.uint64) % 30
    bounds = Bounds(600, (30, 30))
    views = []
    for other in (np.zeros(600, np.uint64), np.arange(600, dtype=np.uint64) % 31):
        labels = (own, other) if me == 0 else (other, own)
        views.append(heard_by(name, labels, bounds, 20))
    one, another = views
    assert [(each.kind, len(each.data)) for each in one] == [(each.kind, len(each.data)) for each in another]
    for each in (*one, *another):
        message = msgspec.msgpack.decode(each.data)
        for field, value in message.items():
            if field == "kind" or not isinstance(value, bytes) or len(value) < 4000:
                continue
            # Headers that count transfers and tweaks are public; base transfers are points, tested where they live.
            assert looks_random(value[16:]), (each.kind, field)


def cut_short(script: Script[Any], kind: str) -> Script[Any]:
    """A party whose messages of one kind lack their last byte."""
    heard: Any = None
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        if isinstance(move, Send) and kind_of(move.message) == kind:
            move = Send(move.peers, _shorter(move.message))
        heard = yield move


def _shorter(message: Message) -> Message:
    for field in reversed(message.__struct_fields__):
        value = getattr(message, field)
        if isinstance(value, bytes) and value:
            return msgspec.structs.replace(message, **{field: value[:-1]})
    raise AssertionError("nothing to cut")


KINDS = {
    "pair-nonce": "anna",
    "pair-base": "anna",
    "histogram-ask": "anna",
    "histogram-trees": "berta",
    "look-up-ask": "anna",
    "look-up-tables": "berta",
    "circuit-input": "berta",
    "circuit-garbled": "anna",
}


@pytest.mark.parametrize(("kind", "guilty"), KINDS.items())
def test_a_short_message_is_its_senders_fault(kind: str, guilty: str) -> None:
    labels = np.arange(40, dtype=np.uint64) % 3
    bounds = Bounds(40, (3, 3))

    def whole(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        return (yield from group_bits(pair, labels, 3, bounds))

    scripts = {name: whole(me) for me, name in enumerate(NAMES)}
    scripts[guilty] = cut_short(scripts[guilty], kind)
    with pytest.raises(PeerBrokeProtocol, match=guilty):
        run_together(scripts)


def test_misuse_is_told() -> None:
    with pytest.raises(ParameterError, match=r"exactly 2 parties. Got 3"):
        next(prepare_pair(0, ("a", "b", "c"), b""))
    with pytest.raises(ParameterError, match="at least one record"):
        Bounds(0, (1, 1))
    with pytest.raises(ParameterError, match=r"100,000 × 100,000 groups does not fit into memory"):
        Bounds(10**6, (10**5, 10**5))
    with pytest.raises(ParameterError, match=r"takes as many labels. Got 2"):
        together(lambda me: lambda pair: joint_histogram(pair, np.zeros(2, np.uint64), Bounds(3, (1, 1))))


@settings(max_examples=5, deadline=None)
@given(labelled(), st.integers(1, 6))
def test_encryption_gives_the_same_bits(drawn: tuple[tuple[Labels, Labels], Bounds], k: int) -> None:
    labels, bounds = drawn
    left, right = together(
        lambda me: lambda pair: shared_tests(pair, labels[me], k, bounds, back_end="encryption")
    )
    own = counted(labels, bounds)[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left ^ right, own >= k)


def test_encryption_in_several_pieces_a_record() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 301, 60).astype(np.uint64), rng.integers(0, 3, 60).astype(np.uint64)
    labels[0][:9], labels[1][:9] = 250, 1
    bounds = Bounds(60, (300, 2))
    assert slots_for(bounds)[1] > 2
    wire = Wire()
    left, right = together(
        lambda me: lambda pair: shared_tests(pair, labels[me], 5, bounds, back_end="encryption"), wire
    )
    own = counted(labels, bounds)[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left ^ right, own >= 5)
    assert np.count_nonzero(own >= 5) >= 9
    for heard in wire.heard:
        if heard.kind == "histogram-groups":
            sent = msgspec.msgpack.decode(heard.data)["ciphertexts"]
            assert len(sent) == 256 * 2 * slots_for(bounds)[1]  # every group up to the bound, empty or not


@pytest.mark.parametrize(
    ("kind", "guilty"),
    [("histogram-key", "anna"), ("histogram-labels", "anna"), ("histogram-groups", "berta")],
)
def test_a_short_message_of_encryption_is_its_senders_fault(kind: str, guilty: str) -> None:
    def whole(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        labels = np.zeros(4, np.uint64)
        return (yield from shared_tests(pair, labels, 3, Bounds(4, (1, 1)), back_end="encryption"))

    scripts = {name: whole(me) for me, name in enumerate(NAMES)}
    scripts[guilty] = cut_short(scripts[guilty], kind)
    with pytest.raises(PeerBrokeProtocol, match=guilty):
        run_together(scripts)


def test_the_cheaper_way_is_chosen_from_public_figures() -> None:
    assert cheaper(Bounds(30_162, (603, 603))) == "transfers"
    assert cheaper(Bounds(30_162, (1508, 1508))) == "transfers"
    assert cheaper(Bounds(1_000_000, (10, 500_000))) == "encryption"


def test_the_chosen_way_is_told() -> None:
    phases: list[str] = []
    labels, bounds = np.zeros(3, np.uint64), Bounds(3, (1, 1))
    for back_end in ("encryption", "transfers"):
        together(
            lambda me, way=back_end: (
                lambda pair: shared_tests(
                    pair, labels, 2, bounds, phases.append if me else None, back_end=way
                )
            )
        )
    assert phases == ["counting by encryption", "counting", "looking up", "comparing"]
