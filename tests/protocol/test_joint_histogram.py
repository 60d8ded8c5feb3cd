"""The joint histogram of two parties, and what is tested on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from crypto.two_parties import looks_random
from examples import examples
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import SentMessage, Wire, run_together
from masquerade.progress import Stage, silent
from masquerade.protocol.pairs import Pair, prepare_pair
from masquerade.protocol.sensitive.back_ends import cheaper, expected_seconds, shared_tests
from masquerade.protocol.sensitive.costs import packing_for
from masquerade.protocol.sensitive.histogram import Bounds, joint_histogram, looked_up, reached_shares
from protocol.tampering import cut_short

NAMES = ("anna", "berta")
Labels = NDArray[np.uint64]
Part = Callable[[Pair], Script[Any]]


def together(
    parts: Callable[[int], Part], wire: Wire | None = None, around: Mapping[str, Callable[[Any], Any]] | None = None
) -> list[Any]:
    """What both parties end with, each its own part on a fresh setup."""

    def whole(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        return (yield from parts(me)(pair))

    changed = around or {}
    results = run_together({name: changed.get(name, lambda it: it)(whole(me)) for me, name in enumerate(NAMES)}, wire)
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


@settings(max_examples=examples(15), deadline=None)
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
    left, right = together(lambda me: lambda pair: shared_tests(pair, labels[me], 22, bounds), wire)
    own = counted(labels, bounds)[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left ^ right, own >= 22)
    assert 0 < np.count_nonzero(own >= 22) < 40_000
    assert sum(heard.kind == "histogram-trees" for heard in wire.heard) > 2
    assert bounds.receiver == 1  # trees with few leaves are cheaper


def heard_by(name: str, labels: tuple[Labels, Labels], bounds: Bounds, k: int) -> list[SentMessage]:
    wire = Wire()
    together(lambda me: lambda pair: shared_tests(pair, labels[me], k, bounds), wire)
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


KINDS = {
    "session-nonce": "anna",
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

    with pytest.raises(PeerBrokeProtocol, match=guilty):
        together(
            lambda me: lambda pair: shared_tests(pair, labels, 3, bounds),
            around={guilty: lambda script: cut_short(script, kind)},
        )


def test_misuse_is_told() -> None:
    with pytest.raises(ParameterError, match=r"exactly 2 parties. Got 3"):
        next(prepare_pair(0, ("a", "b", "c"), b""))
    with pytest.raises(ParameterError, match="at least one record"):
        Bounds(0, (1, 1))
    with pytest.raises(ParameterError, match=r"100,000 × 100,000 groups does not fit into memory"):
        Bounds(10**6, (10**5, 10**5))
    with pytest.raises(ParameterError, match=r"takes as many labels. Got 2"):
        together(lambda me: lambda pair: joint_histogram(pair, np.zeros(2, np.uint64), Bounds(3, (1, 1))))


@settings(max_examples=examples(5), deadline=None)
@given(labelled(), st.integers(0, 6))
def test_encryption_gives_the_same_bits(drawn: tuple[tuple[Labels, Labels], Bounds], k: int) -> None:
    labels, bounds = drawn
    k = min(k, bounds.records)
    left, right = together(lambda me: lambda pair: shared_tests(pair, labels[me], k, bounds, back_end="encryption"))
    own = counted(labels, bounds)[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left ^ right, own >= k)


@pytest.mark.parametrize("back_end", ["transfers", "encryption"])
@pytest.mark.parametrize("labelling", [(2, 3), (3, 2)])
def test_who_is_counted_nowhere_reaches_0_and_no_more(back_end: Any, labelling: tuple[int, int]) -> None:
    """Its count is 0, whether the label "never" is one party's, the other's or both's."""
    bounds = Bounds(6, labelling)
    p, q = labelling
    labels = np.array([0, p, 0, p, 1, 1], np.uint64), np.array([0, 0, q, q, 1, 1], np.uint64)
    for k, expected in ((0, [1, 1, 1, 1, 1, 1]), (1, [1, 0, 0, 0, 1, 1]), (2, [0, 0, 0, 0, 1, 1])):

        def part(me: int, k: int = k) -> Part:
            return lambda pair: shared_tests(pair, labels[me], k, bounds, back_end=back_end)

        left, right = together(part)
        assert (left ^ right).tolist() == expected


@pytest.mark.parametrize("back_end", ["transfers", "encryption"])
def test_either_way_refuses_the_same(back_end: Any) -> None:
    def attempt(n_labels: int, at_least: int) -> None:
        labels = np.zeros(n_labels, np.uint64)
        together(lambda me: lambda pair: shared_tests(pair, labels, at_least, Bounds(3, (1, 1)), back_end=back_end))

    with pytest.raises(ParameterError, match=r"between 0 and the number of records. Got 4"):
        attempt(3, 4)
    with pytest.raises(ParameterError, match=r"between 0 and the number of records. Got -1"):
        attempt(3, -1)
    with pytest.raises(ParameterError, match=r"takes as many labels. Got 2"):
        attempt(2, 1)


@pytest.mark.parametrize("encryptor", [0, 1])
def test_encryption_in_several_pieces_a_record(encryptor: int) -> None:
    """With few records what counts is how many sums come back: so who has more labels encrypts, whoever it is."""
    rng = np.random.default_rng(5)
    few, many = rng.integers(0, 6, 60).astype(np.uint64), rng.integers(0, 901, 60).astype(np.uint64)
    few[:9], many[:9] = 1, 890
    labels, sides = ((many, few), (900, 5)) if encryptor == 0 else ((few, many), (5, 900))
    bounds = Bounds(60, sides)
    packing = packing_for(bounds)
    assert packing.encryptor == encryptor
    assert packing.pieces == 3
    wire = Wire()
    left, right = together(
        lambda me: lambda pair: shared_tests(pair, labels[me], 5, bounds, back_end="encryption"), wire
    )
    own = counted(labels, bounds)[labels[0].astype(np.intp), labels[1].astype(np.intp)]
    assert np.array_equal(left ^ right, own >= 5)
    assert np.count_nonzero(own >= 5) >= 9
    # What the model counts is what travels: n·pieces ciphertexts out; every group up to the bound back, empty or not.
    sent = {kind: [each for each in wire.heard if each.kind == f"histogram-{kind}"] for kind in ("labels", "groups")}
    assert {each.sender for each in sent["labels"]} == {NAMES[encryptor]}
    assert {each.sender for each in sent["groups"]} == {NAMES[1 - encryptor]}
    bytes_sent = {
        kind: sum(len(msgspec.msgpack.decode(each.data)["ciphertexts"]) for each in messages)
        for kind, messages in sent.items()
    }
    assert bytes_sent == {"labels": 512 * 60 * 3, "groups": 512 * 5 * 3}


@pytest.mark.parametrize(
    ("kind", "guilty"), [("histogram-key", "anna"), ("histogram-labels", "anna"), ("histogram-groups", "berta")]
)
def test_a_short_message_of_encryption_is_its_senders_fault(kind: str, guilty: str) -> None:
    labels, bounds = np.zeros(4, np.uint64), Bounds(4, (1, 1))
    with pytest.raises(PeerBrokeProtocol, match=guilty):
        together(
            lambda me: lambda pair: shared_tests(pair, labels, 3, bounds, back_end="encryption"),
            around={guilty: lambda script: cut_short(script, kind)},
        )


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 5 * 10**6), st.integers(1, 20_000), st.integers(1, 20_000))
def test_the_choice_does_not_depend_on_who_is_first(n: int, p: int, q: int) -> None:
    one, other = Bounds(n, (p, q)), Bounds(n, (q, p))
    assert expected_seconds(one) == expected_seconds(other)


# Measured once on one core: processor seconds of the party with more to do, or of both where they take turns.
MEASURED = [
    (40_000, (30, 3000), "transfers", 14.8),
    (40_000, (3000, 30), "transfers", 14.9),
    (40_000, (60, 1000), "transfers", 7.1),
    (40_000, (2, 2000), "transfers", 6.2),
    (20_000, (3, 1000), "transfers", 1.1),
    (30_162, (603, 603), "transfers", 9.5),
    (2_000, (30, 300), "encryption", 22.5),
    (4_000, (30, 30), "encryption", 17.8),
    (600, (400, 100), "encryption", 28.0),
]


@pytest.mark.parametrize(("n", "labels", "way", "seconds"), MEASURED)
def test_the_model_is_near_what_was_measured(n: int, labels: tuple[int, int], way: Any, seconds: float) -> None:
    assert seconds / 1.5 <= expected_seconds(Bounds(n, labels))[way] <= seconds * 1.5


def test_the_cheaper_way_is_chosen_from_public_figures() -> None:
    def chosen(n: int, *labels: int) -> str:
        return cheaper(expected_seconds(Bounds(n, (labels[0], labels[1]))))

    assert chosen(30_162, 603, 603) == chosen(30_162, 1508, 1508) == "transfers"
    assert chosen(1_000_000, 30, 1000) == chosen(1_000_000, 1000, 30) == "transfers"
    assert chosen(1_000_000, 1000, 1000) == "transfers"
    assert chosen(40_000, 30, 3000) == "transfers"
    assert chosen(1_000_000, 30, 50_000) == "transfers"
    assert chosen(1_000_000, 100, 30_000) == chosen(1_000_000, 30_000, 100) == "encryption"
    # With many records who has fewer labels encrypts.
    assert packing_for(Bounds(1_000_000, (30, 30_000))).encryptor == 0
    assert packing_for(Bounds(1_000_000, (30_000, 30))).encryptor == 1


def test_the_chosen_way_is_told() -> None:
    phases: list[Stage] = []
    labels, bounds = np.zeros(3, np.uint64), Bounds(3, (1, 1))
    for back_end in ("encryption", "transfers"):
        together(
            lambda me, way=back_end: (
                lambda pair: shared_tests(pair, labels, 2, bounds, phases.append if me else silent, back_end=way)
            )
        )
    assert [stage.name for stage in phases] == ["counting by encryption", "counting", "looking up", "comparing"]
