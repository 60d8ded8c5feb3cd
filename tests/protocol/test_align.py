"""Alignment: everybody gets the common records in one order, and nothing else."""

from __future__ import annotations

import os
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import POINT_BYTES
from masquerade.engine import Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script, Send
from masquerade.net.memory import Wire, run_together
from masquerade.net.script import decode
from masquerade.protocol.align.align import align
from masquerade.protocol.align.curve import Blinded, Positions, common_positions, routes

CHECK = ("equality-share", "equality-proof")
people = st.lists(st.integers(0, 30), max_size=20, unique=True)


def aligned(lists: list[list[int]], wire: Wire | None = None) -> list[list[int]]:
    """What each party's common rows hold, in its own order."""
    names = [f"p{number}" for number in range(len(lists))]
    scripts = {
        name: align(me, names, [str(each).encode() for each in lists[me]], b"session") for me, name in enumerate(names)
    }
    rows: dict[str, Rows] = run_together(scripts, wire)
    return [[lists[me][row] for row in rows[name]] for me, name in enumerate(names)]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(people, min_size=2, max_size=5))
def test_everybody_gets_the_common_people_in_one_order(lists: list[list[int]]) -> None:
    found = aligned(lists)
    assert sorted(found[0]) == sorted(set.intersection(*map(set, lists)))
    assert all(each == found[0] for each in found)


def test_the_common_order_is_nobodys() -> None:
    """It depends on the secrets of the session: two runs give two orders."""
    lists = [list(range(40)), list(range(39, -1, -1))]
    assert aligned(lists)[0] != aligned(lists)[0]


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_every_list_is_blinded_once_by_everybody_and_ends_at_the_comparer(n: int) -> None:
    for owner, stops in enumerate(routes(n)):
        assert (stops[0], stops[-1]) == (owner, n - 1)
        blinders = stops if owner != n - 1 else stops[:-1]
        assert sorted(blinders) == list(range(n))


def seen(wire: Wire, party: str) -> list[tuple[str, int, int]]:
    """A party's view: kind, owner and length of each message of the alignment proper that it received."""
    view = []
    for heard in wire.seen_by(party):
        if heard.kind == "blinded":
            blinded: Any = decode(heard.data, [Blinded])
            view.append(("blinded", blinded.owner, len(blinded.points) // POINT_BYTES))
        elif heard.kind == "positions":
            answer: Any = decode(heard.data, [Positions])
            view.append(("positions", answer.owner, len(answer.positions) // 4))
    return view


def test_a_view_has_only_sizes() -> None:
    """A simulator that knows the sizes and the number of common people makes each party's view.

    The points themselves are uniform to whoever lacks a secret: they repeat in no two sessions, and equal
    identifiers of two parties are different points until both have blinded them.
    """
    lists = [list(range(20)), list(range(5, 30)), list(range(10, 40))]
    wire = Wire()
    common = len(aligned(lists, wire)[0])
    simulated = {
        "p0": [("blinded", 2, 30), ("blinded", 1, 25), *(("positions", owner, common) for owner in (0, 1, 2))],
        "p1": [("blinded", 0, 20), ("blinded", 2, 30), *(("positions", owner, common) for owner in (0, 1, 2))],
        "p2": [("blinded", 0, 20), ("blinded", 1, 25), ("blinded", 2, 30), ("positions", 2, common)],
    }
    for party, view in simulated.items():
        assert sorted(seen(wire, party)) == sorted(view)


def test_the_check_shows_no_more_than_that_it_passed() -> None:
    """One share to and from each peer, and one proof: nothing is ever the same, not even for the same people."""
    wires = [Wire(), Wire()]
    for wire in wires:
        aligned([list(range(9)), list(range(9)), list(range(9))], wire)
    check = [heard for wire in wires for heard in wire.heard if heard.kind.startswith("equality-")]
    pairs = [(each.sender, each.receiver, each.kind) for each in check]
    assert sorted(pairs) == sorted(
        2 * [(f"p{one}", f"p{other}", kind) for one, other in permutations(range(3), 2) for kind in CHECK]
    )
    assert {len(heard.data) for heard in check if heard.kind == CHECK[0]} == {len(check[0].data)}
    assert len({heard.data for heard in check}) == len(check)


def test_points_repeat_nowhere_but_at_the_comparer() -> None:
    wires = [Wire(), Wire()]
    lists = [list(range(15)), list(range(15)), list(range(15))]
    for wire in wires:
        aligned(lists, wire)
    points = [
        (number, heard.receiver, bytes(row))
        for number, wire in enumerate(wires)
        for heard in wire.heard
        if heard.kind == "blinded"
        for row in np.frombuffer(decode(heard.data, [Blinded]).points, np.uint8).reshape(-1, POINT_BYTES)  # type: ignore[attr-defined] # a Blinded
    ]
    elsewhere = [point for _, receiver, point in points if receiver != "p2"]
    assert len(set(elsewhere)) == len(elsewhere)
    by_session = [{point for number, _, point in points if number == session} for session in (0, 1)]
    assert not by_session[0] & by_session[1]


def test_common_positions_of_points_that_end_in_zero() -> None:
    one = np.zeros((2, POINT_BYTES), np.uint8)
    one[0, 0] = 1
    assert [found.tolist() for found in common_positions([one, one[::-1].copy()])] == [[1, 0], [0, 1]]


def misbehaving(answer: bytes | None = None, *, owner: int = 0, size: int = 3) -> Script[None]:
    """A first party that follows the protocol badly."""
    yield Send(("p1",), Blinded(owner, answer if answer is not None else os.urandom(POINT_BYTES) * size))


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (lambda: misbehaving(b"short"), "broken list"),
        (lambda: misbehaving(owner=1), "in place of party 0's"),
        (lambda: misbehaving(size=11), "at most 10 are agreed"),
        (lambda: misbehaving(bytes(POINT_BYTES)), "small order"),
    ],
    ids=["length", "owner", "too many", "small order"],
)
def test_a_peer_that_breaks_the_protocol_is_named(script: object, problem: str) -> None:
    scripts = {"p0": script(), "p1": align(1, ["p0", "p1"], [b"a"], b"session", most=10, way="curve")}  # type: ignore[operator] # a function
    with pytest.raises(PeerBrokeProtocol, match=problem) as caught:
        run_together(scripts)
    assert caught.value.peer == "p0"
