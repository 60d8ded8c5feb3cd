"""The joint histogram of records that are sorted first: the same table, and the same rounds of DkA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from crypto.two_parties import looks_random
from examples import examples
from masquerade.errors import MasqueradeError, PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import SentMessage, Wire, run_together
from masquerade.protocol import ASSEMBLER
from masquerade.protocol.sensitive import back_ends, sorted_histogram
from masquerade.protocol.sensitive.back_ends import shared_tests, transferred_histogram
from masquerade.protocol.sensitive.costs import sorted_count_seconds, sorting_for, transferred_count_seconds
from masquerade.protocol.sensitive.histogram import Bounds, Counted, joint_histogram
from masquerade.protocol.sensitive.sorted_histogram import Sorting
from protocol import test_dka_sensitive as sensitive
from protocol.party_scripts import session_scripts
from protocol.tampering import changing, cut_short
from protocol.test_dka import PARTIES, bag, people, plainly, real_view, scripts
from protocol.test_joint_histogram import NAMES, Labels, counted, together


@pytest.fixture(params=[0, 1], ids=["the first sorts", "the second sorts"])
def always_sorted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Sort also where it does not pay."""
    sorter: int = request.param
    sort_by(sorter, monkeypatch)
    return sorter


def sort_by(sorter: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this party sort, or the only one that may."""

    def sorting(bounds: Bounds, sorters: Sequence[int] = (0, 1)) -> Sorting:
        return Sorting.of(bounds, sorter if sorter in sorters else sorters[0])

    monkeypatch.setattr(back_ends, "sorting_for", sorting)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[tuple[Labels, Labels], Bounds]:
    sizes = draw(st.integers(1, 8)), draw(st.integers(1, 40))
    pairs = draw(st.lists(st.tuples(*(st.integers(0, size) for size in sizes)), min_size=1, max_size=60))
    least = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        sizes, least, pairs = sizes[::-1], least[::-1], [each[::-1] for each in pairs]
    left, right = np.array(pairs, np.uint64).T
    return (left, right), Bounds(len(pairs), sizes, least)


def large_alone(labels: tuple[Labels, Labels], bounds: Bounds) -> tuple[Labels, Labels]:
    """The labels, "never" for those that too few records have."""
    found = []
    for own, bound, least in zip(labels, bounds.labels, bounds.least, strict=True):
        sizes = np.bincount(own.astype(int), minlength=bound + 1)
        found.append(np.where(sizes[own.astype(int)] < least, np.uint64(bound), own))
    return found[0], found[1]


@settings(max_examples=examples(25), deadline=None)
@given(labelled(), st.sampled_from([0, 1]))
def test_shares_are_those_of_plain_counting(drawn: tuple[tuple[Labels, Labels], Bounds], sorter: int) -> None:
    labels, bounds = drawn
    sorting = Sorting.of(bounds, sorter)
    shares = together(lambda me: lambda pair: sorted_histogram.sorted_histogram(pair, labels[me], bounds, sorting))
    check(shares, labels, bounds)
    assert shares[0].bounds.labels[1 - sorter] == bounds.labels[1 - sorter]
    assert shares[0].bounds.labels[sorter] == sorting.rows(bounds.records)


def check(shares: Sequence[Counted], labels: tuple[Labels, Labels], bounds: Bounds) -> None:
    """The table is that of the labels by which records are now found, and has each record's count where it is found."""
    left, right = shares
    assert left.bounds == right.bounds
    found_by = left.labels.astype(int), right.labels.astype(int)
    table = left.table + right.table
    assert np.array_equal(table, counted((left.labels, right.labels), left.bounds))
    one, other = large_alone(labels, bounds)
    expected = counted((one, other), bounds)[one.astype(int), other.astype(int)]
    assert np.array_equal(table[found_by], expected)


@settings(max_examples=examples(8), deadline=None)
@given(labelled())
def test_unsorted_too_rare_labels_are_counted_nowhere(drawn: tuple[tuple[Labels, Labels], Bounds]) -> None:
    labels, bounds = drawn
    left, right = together(lambda me: lambda pair: joint_histogram(pair, labels[me], bounds))
    assert np.array_equal(left + right, counted(large_alone(labels, bounds), bounds))


def test_many_records_are_sorted_and_go_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_histogram, "BATCH", 1 << 11)
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 200, 9_000).astype(np.uint64), rng.integers(0, 150, 9_000).astype(np.uint64)
    bounds = Bounds(9_000, (200, 150), (20, 20))
    assert sorting_for(bounds) is not None
    wire = Wire()
    check(together(lambda me: lambda pair: transferred_histogram(pair, labels[me], bounds), wire), labels, bounds)
    assert sum(heard.kind == "block-rows" for heard in wire.heard) > 3


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(0, 60), st.integers(1, 30))
def test_a_block_has_no_more_whole_labels_than_leaves(sizes: list[int], never: int, least: int) -> None:
    """Whatever the sizes of the groups are, each of them at least `least`; the last label has any number."""
    ordered = np.repeat(np.arange(len(sizes) + 1), [*(least + each for each in sizes), never])
    n = ordered.size
    sorting = Sorting.of(Bounds(n, (n // least, 5), (least, 1)), 0)
    blocks = [set(ordered[at : at + sorting.block].tolist()) for at in range(0, n, sorting.block)]
    for own, others in ((each, blocks[:at] + blocks[at + 1 :]) for at, each in enumerate(blocks)):
        assert len(own - {len(sizes)}.union(*others)) <= sorting.whole
    assert len(blocks) == sorting.blocks(n)


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 10**6), st.integers(2, 500))
def test_the_table_has_hardly_more_rows_than_there_may_be_groups(n: int, k: int) -> None:
    k = min(n, k)
    sorting = Sorting.of(Bounds(n, (max(1, min(n // k, 1000)), 5), (k, k)), 0)
    assert sorting.rows(n) <= n / k * (1 + 1 / (sorting.block)) + sorting.whole + 1


def heard_by(name: str, labels: tuple[Labels, Labels], bounds: Bounds) -> list[SentMessage]:
    wire = Wire()
    together(lambda me: lambda pair: shared_tests(pair, labels[me], 20, bounds), wire)
    return wire.seen_by(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("always_sorted")
def test_a_view_does_not_depend_on_the_others_labels(name: str) -> None:
    """Same kinds and sizes in the same order, and nothing in them that is not random."""
    me = NAMES.index(name)
    own = np.arange(900, dtype=np.uint64) % 30
    bounds = Bounds(900, (30, 30), (20, 20))
    views = []
    for other in (np.zeros(900, np.uint64), np.arange(900, dtype=np.uint64) % 31, np.full(900, 30, np.uint64)):
        views.append(heard_by(name, (own, other) if me == 0 else (other, own), bounds))
    shapes = [[(each.kind, len(each.data)) for each in view] for view in views]
    assert shapes[0] == shapes[1] == shapes[2]
    for each in (message for view in views for message in view):
        for field, value in msgspec.msgpack.decode(each.data).items():
            if isinstance(value, bytes) and len(value) > 4000:
                assert looks_random(value[16:]), (each.kind, field)  # headers count transfers


KINDS = {
    "sort-ask": "anna",
    "sort-switches": "berta",
    "block-ask": "anna",
    "block-trees": "berta",
    "block-rows": "berta",
    "histogram-ask": "anna",
    "histogram-trees": "berta",
    "vector-ask": "anna",
    "vector-products": "berta",
    "vector-corrections": "anna",
}


@pytest.mark.parametrize(("kind", "guilty"), KINDS.items())
def test_a_short_message_is_its_senders_fault(kind: str, guilty: str) -> None:
    labels, bounds = np.arange(40, dtype=np.uint64) % 20, Bounds(40, (20, 20), (2, 2))
    sorting = Sorting.of(bounds, 0)

    with pytest.raises(PeerBrokeProtocol, match=guilty):
        together(
            lambda me: lambda pair: sorted_histogram.sorted_histogram(pair, labels, bounds, sorting),
            around={guilty: lambda script: cut_short(script, kind)},
        )


# The choice.


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 99), st.integers(1, 9))
def test_the_choice_does_not_depend_on_who_is_first(n: int, p: int, q: int, k: int, least: int) -> None:
    one, other = Bounds(n, (p, q), (k, least)), Bounds(n, (q, p), (least, k))
    mirrored = [each and (each.block, each.whole) for each in (sorting_for(one), sorting_for(other))]
    assert mirrored[0] == mirrored[1]


def test_sorting_is_chosen_where_groups_are_large_and_records_many() -> None:
    def chosen(n: int, k: int) -> bool:
        return sorting_for(Bounds(n, (n // k, n // k), (k, k))) is not None

    assert chosen(30_162, 50)
    assert chosen(30_162, 20)
    assert chosen(5_000, 10)
    assert not chosen(1_000, 50)
    assert not chosen(60, 3)
    assert sorting_for(Bounds(30_162, (603, 603))) is None  # nobody says that groups are large


# Measured once on one core: processor seconds of one party.
MEASURED = [(30_162, 50, 0.73), (30_162, 100, 0.39), (15_000, 50, 0.22), (40_000, 100, 1.1), (30_162, 20, 1.8)]


@pytest.mark.parametrize(("n", "k", "seconds"), MEASURED)
def test_the_model_is_near_what_was_measured(n: int, k: int, seconds: float) -> None:
    bounds = Bounds(n, (n // k, n // k), (k, k))
    expected = sorted_count_seconds(bounds, Sorting.of(bounds, 0))
    assert seconds / 1.5 <= expected <= seconds * 1.5
    assert expected < transferred_count_seconds(bounds) / 4


# DkA.


@pytest.mark.usefixtures("always_sorted")
@pytest.mark.parametrize(("n", "seed", "k"), [(60, 7, 4), (41, 2, 2), (30, 5, 9)])
def test_every_round_opens_what_plain_counting_does(n: int, seed: int, k: int) -> None:
    table = people(n, seed)
    passed: list[list[bool]] = []
    plainly(table, k, on_round=lambda opened: passed.append(opened.tolist()))
    view, chis, _ = real_view(table, k, 0)
    assert [chi.tolist() for chi in chis] == passed
    assert any(each.kind == "block-rows" or each.kind == "block-ask" for each in view)
    expected, _ = plainly(table, k)
    release = run_together(scripts(table, k))[ASSEMBLER]
    assert bag(release.table) == expected


@pytest.mark.parametrize("holder", PARTIES)
@pytest.mark.usefixtures("always_sorted")
def test_sensitive_values_are_counted_the_same(holder: str) -> None:
    requirement = mq.KAnonymity(sensitive.NAMES, 3) & mq.LDiversity(sensitive.NAMES, l=2, sensitive="disease")
    table = sensitive.patients(30, 8)
    contract = sensitive.contract_of(requirement, holder, "datafly")
    release = run_together(session_scripts(contract, table))[ASSEMBLER]
    assert sensitive.bag(release.table) == sensitive.plainly(table, requirement, "datafly")


# Attacks.


def changing_once(script: Script[Any], kind: str, field: str, change: Callable[[bytes], bytes]) -> Script[Any]:
    """A party that changes its first message of one kind."""
    changes = chain([change], repeat(lambda data: data))
    return changing(script, kind, **{field: lambda data: next(changes)(data)})


def with_more(rows: bytes, more: int) -> bytes:
    return (np.frombuffer(rows, np.uint16) + np.uint16(more)).tobytes()


def test_who_adds_to_its_rows_gets_no_small_group_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second party makes every record count as k in the first round; the assembler counts again."""
    sort_by(0, monkeypatch)
    parts = scripts(people(40, 3), 4)
    parts["berta"] = changing_once(parts["berta"], "block-rows", "rows", lambda rows: with_more(rows, 3))
    with pytest.raises(MasqueradeError, match="k-anonymity"):
        run_together(parts)


@pytest.mark.parametrize(("kind", "field"), [("vector-corrections", "shares"), ("vector-products", "masked")])
def test_nonsense_gets_no_small_group_released(kind: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a wrong tree makes of the counts: nothing is released, or groups of k."""
    sort_by(0, monkeypatch)
    parts = scripts(people(30, 3), 3)
    parts["anna"] = changing_once(parts["anna"], kind, field, lambda data: bytes(len(data)))
    try:
        release = run_together(parts)[ASSEMBLER]
    except MasqueradeError:
        return
    assert min(bag(release.table).values()) >= 3
