"""Alignment by oblivious pseudo-random functions: the people that sets and the curve find, in nobody's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from homes import home
from masquerade.crypto import Buckets, PrfReceiver, PrfSender
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.align import align as aligning
from masquerade.protocol.align.align import align
from masquerade.protocol.align.oprf import (
    Items,
    PrfOutputs,
    find_by_query,
    find_by_values,
    lead,
    matched,
    set_up,
    share_keys,
    take_part,
    value_bytes,
)
from protocol.tampering import changing

people = st.lists(st.integers(0, 40), min_size=1, max_size=30, unique=True)
NAMES = ("p0", "p1", "p2")


def aligned(*lists: list[int], way: str = "oprf", wire: Wire | None = None) -> list[list[int]]:
    """The common people as each party has them."""
    names = [f"p{number}" for number in range(len(lists))]
    scripts = {
        name: align(me, names, [b"%d" % each for each in lists[me]], b"session", way=way)
        for me, name in enumerate(names)
    }
    rows = run_together(scripts, wire)
    return [[lists[me][row] for row in rows[name]] for me, name in enumerate(names)]


def items_of(numbers: list[int]) -> Items:
    return Items.of([b"%d" % each for each in numbers], b"text")


FAMILY = items_of([]).family


@pytest.fixture(scope="module")
def pair() -> dict[str, Any]:
    sides: dict[str, Any] = {"p0": PrfReceiver(b"pair"), "p1": PrfSender(b"pair", FAMILY)}
    run_together({"p0": set_up({"p1": sides["p0"]}), "p1": set_up({"p0": sides["p1"]})})
    return sides


@settings(max_examples=examples(40), deadline=None)
@given(people, people)
def test_two_find_the_common_people_in_one_order(pair: dict[str, Any], own: list[int], other: list[int]) -> None:
    rows = run_together(
        {
            "p0": find_by_query(pair["p0"], "p1", len(other), items_of(own)),
            "p1": find_by_values(pair["p1"], "p0", len(own), items_of(other)),
        }
    )
    found = [[each[row] for row in rows[name]] for name, each in zip(NAMES, (own, other), strict=False)]
    assert sorted(found[0]) == sorted({*own} & {*other})
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def star() -> dict[str, Any]:
    def member(number: int) -> Script[Any]:
        keys = yield from share_keys(number, NAMES[:2], b"text")
        side = PrfSender(b"pair %d" % number, FAMILY)
        yield from set_up({"p2": side})
        return side, keys

    def leader() -> Script[Any]:
        sides = {name: PrfReceiver(b"pair %d" % number) for number, name in enumerate(NAMES[:2])}
        yield from set_up(sides)
        return sides

    return run_together({"p0": member(0), "p1": member(1), "p2": leader()})


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(people, min_size=3, max_size=3))
def test_three_find_the_common_people_in_one_order(star: dict[str, Any], lists: list[list[int]]) -> None:
    sizes = [len(each) for each in lists]
    rows = run_together(
        {
            "p0": take_part(*star["p0"], "p2", sizes[2], items_of(lists[0])),
            "p1": take_part(*star["p1"], "p2", sizes[2], items_of(lists[1])),
            "p2": lead(star["p2"], sizes, items_of(lists[2])),
        }
    )
    found = [[lists[me][row] for row in rows[name]] for me, name in enumerate(NAMES)]
    assert sorted(found[0]) == sorted(set.intersection(*map(set, lists)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "lists",
    [([], []), ([], [1]), ([1], [1]), ([1], [2]), ([1, 2], [], [1]), ([3], [3], [3]), ([1], [2], [3], [1])],
    ids=str,
)
def test_hardly_anybody(lists: tuple[list[int], ...]) -> None:
    found = aligned(*lists)
    assert sorted(found[0]) == sorted(set.intersection(*map(set, lists)))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("n", [2, 3])
def test_many_buckets_are_one_list(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home(Buckets), "_BUCKET", 100)
    lists = [[*range(500), *range(10**6 * (me + 1), 10**6 * (me + 1) + 300 * me)] for me in range(n)]
    wire = Wire()
    found = aligned(*lists, wire=wire)
    assert sorted(found[0]) == list(range(500))
    assert all(each == found[0] for each in found)
    checks = [heard for heard in wire.heard if heard.kind == "column-check"]
    assert len(checks) == {2: 5, 3: 2 * 11}[n]  # a bucket for each hundred of the one who receives


def test_the_common_order_is_nobodys() -> None:
    """Nor does it follow from anything public: the same session and people again are in another order."""
    lists = [list(range(40)), list(range(39, -1, -1))]
    assert aligned(*lists)[0] != aligned(*lists)[0]


def kinds(wire: Wire) -> set[str]:
    return {heard.kind for heard in wire.heard}


def test_auto_is_the_curve_for_short_lists_and_the_other_way_for_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [list(range(30)), list(range(20, 60))]
    for few, used in ((41, "blinded"), (40, "masked-columns")):
        monkeypatch.setattr(aligning, "FEW", few)
        monkeypatch.setattr(aligning, "FEWEST", 10)
        wire = Wire()
        aligned(*lists, way="auto", wire=wire)
        assert len(kinds(wire) & {"blinded", "masked-columns"}) == 1
        assert used in kinds(wire)


def test_the_shorter_list_is_the_one_that_is_stored() -> None:
    for lists in (([1, 2], [1, 2, 3]), ([1, 2, 3], [1, 2])):
        wire = Wire()
        aligned(*lists, wire=wire)
        sender = next(heard.sender for heard in wire.heard if heard.kind == "masked-columns")
        assert sender == f"p{min((0, 1), key=lambda me: len(lists[me]))}"


def test_progress_counts_each_identifier_once_a_step() -> None:
    done: list[int] = []
    names, mine = ["p0", "p1"], [b"%d" % each for each in range(50)]
    run_together(
        {
            "p0": align(0, names, mine, b"session", on_done=done.append, way="oprf"),
            "p1": align(1, names, mine, b"session", way="oprf"),
        }
    )
    assert sum(done) == 3 * 50


def test_values_are_as_long_as_chance_demands() -> None:
    assert value_bytes(1, 1) == 8
    assert value_bytes(10**6, 10**6) == 10
    assert value_bytes(2 * 10**7, 2 * 10**7) == 12


def test_values_with_the_same_first_word_are_told_apart() -> None:
    first = np.array([7, 7, 9, 7], np.uint64)
    own, theirs = (
        PrfOutputs(first, np.array([1, 2, 3, 9], np.uint64)),
        PrfOutputs(first, np.arange(4, dtype=np.uint64)),
    )
    theirs = theirs.take(theirs.order())
    assert theirs.ascend()
    rows, places = matched(own, theirs)
    assert [(own.second[row], theirs.second[place]) for row, place in zip(rows, places, strict=True)] == [(1, 1)]
    packed = theirs.packed(11)
    again = PrfOutputs.unpacked(packed, 11)
    assert len(packed) == 44
    assert np.array_equal(again.first, theirs.first)
    assert np.array_equal(again.second, theirs.second)
    assert not PrfOutputs(first, first).ascend()


# A peer that breaks the protocol is named, whatever it changes.


def tampered(n: int, who: int, change: Callable[[Script[Any]], Script[Any]]) -> PeerBrokeProtocol:
    names = [f"p{number}" for number in range(n)]
    scripts: dict[str, Any] = {
        name: align(me, names, [b"%d" % each for each in range(5 + me)], b"session", most=50, way="oprf")
        for me, name in enumerate(names)
    }
    scripts[names[who]] = change(scripts[names[who]])
    with pytest.raises(PeerBrokeProtocol) as caught:
        run_together(scripts)
    assert caught.value.peer == names[who]
    return caught.value


def shorter(data: bytes) -> bytes:
    return data[:-1]


def flipped(data: bytes) -> bytes:
    return bytes(each ^ 255 for each in data)


@pytest.mark.parametrize(
    ("n", "who", "kind", "field", "change", "problem"),
    [
        (2, 0, "list-size", "records", lambda _: 51, "at most 50 are agreed"),
        (2, 0, "list-size", "records", lambda _: -1, "at most 50 are agreed"),
        (2, 0, "list-size", "nonce", shorter, "nonce of 31 bytes"),
        (2, 0, "prf-setup", "data", shorter, "half of the base transfers"),
        (2, 0, "masked-columns", "data", shorter, "masked columns"),
        (2, 1, "column-check", "seed", shorter, "the seed of a check"),
        (2, 0, "column-digests", "data", flipped, "not those of one store"),
        (2, 1, "prf-values", "values", lambda data: data + data[:8], "another number of values"),
        (2, 1, "prf-values", "values", lambda data: data[:8] + data[:-8], "on its list twice"),
        (2, 0, "common-places", "bits", lambda data: data + b"\1", "bytes of bits"),
        (2, 0, "common-places", "bits", lambda _: b"\xff", "outside the list"),
        (3, 2, "masked-columns", "data", flipped, "not those of one store"),
        (3, 0, "share-key", "public", shorter, "a key for shares"),
        (3, 0, "share-store", "slots", shorter, "a store of"),
        (3, 2, "common-values", "values", lambda data: data + data[:8], "common twice"),
        (3, 2, "common-values", "values", flipped, "that we do not have"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_peer_that_breaks_the_protocol_is_named(
    n: int, who: int, kind: str, field: str, change: Callable[[Any], Any], problem: str
) -> None:
    error = tampered(n, who, lambda script: changing(script, kind, **{field: change}))
    assert problem in str(error)


def test_a_party_that_tells_another_size_than_it_has_ends_the_session() -> None:
    """The sizes are part of what names the alignment: its own columns or values fit nobody's any more."""
    scripts = {name: align(me, NAMES[:2], [b"1", b"2"], b"session", way="oprf") for me, name in enumerate(NAMES[:2])}
    scripts["p0"] = changing(scripts["p0"], "list-size", records=lambda _: 9)
    with pytest.raises(PeerBrokeProtocol):
        run_together(scripts)
