"""Attacks on an alignment by pseudo-random functions: claiming strangers, and testing guesses at identifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from masquerade.crypto import Buckets, StoreLayout, TweakedHash, digest_items
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script, Send, kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.align import align as alignment
from masquerade.protocol.align.align import FEWEST, align
from masquerade.protocol.align.oprf import Announced, Items
from protocol.tampering import changing

KNOWN = [b"person %d" % number for number in range(34)]


def aligning(*lists: list[bytes]) -> dict[str, Script[Any]]:
    names = [f"p{number}" for number in range(len(lists))]
    return {name: align(me, names, lists[me], b"session", way="oprf") for me, name in enumerate(names)}


def forging(script: Script[Any], kind: str, **changes: Callable[[Any], Any]) -> Script[Any]:
    """A party that sends something else, and takes no offence at what comes of it."""
    try:
        return (yield from changing(script, kind, **changes))
    except PeerBrokeProtocol:
        return None


def refused(scripts: dict[str, Script[Any]], wire: Wire | None = None) -> PeerBrokeProtocol:
    with pytest.raises(PeerBrokeProtocol) as caught:
        run_together(scripts, wire)
    return caught.value


def bits(*places: int) -> bytes:
    found = np.zeros(40, np.uint8)
    found[list(places)] = 1
    return np.packbits(found, bitorder="little").tobytes()


@pytest.mark.parametrize(
    "claimed",
    [lambda told: bits(*range(34)), lambda told: bytes(each ^ 1 for each in told[:1]) + told[1:]],
    ids=["everybody", "one more or one less"],
)
def test_a_receiver_cannot_claim_people_whom_it_does_not_have(claimed: Callable[[bytes], bytes]) -> None:
    """The forged-positions attack: it says that all of the holder's people are common, to bring their records in."""
    scripts = aligning(KNOWN[:3], KNOWN)
    scripts["p0"] = forging(scripts["p0"], "common-places", bits=claimed)
    wire = Wire()
    error = refused(scripts, wire)
    assert error.peer == "p0"
    assert "cannot account for the people" in str(error)
    assert {heard.kind for heard in wire.heard} == {
        "list-size",
        "prf-setup",
        "masked-columns",
        "column-check",
        "column-digests",
        "prf-values",
        "common-places",
        "equality-share",
        "equality-proof",
    }


def test_a_holder_of_values_of_nothing_gets_nothing() -> None:
    """It does not have to have anybody: it sends random values, and none is answered."""
    scripts = aligning(KNOWN[:3], KNOWN)
    rng = np.random.default_rng(1)
    values = np.sort(rng.integers(0, 1 << 64, 34, np.uint64)).tobytes()
    scripts["p1"] = forging(scripts["p1"], "prf-values", values=lambda _: values)
    wire = Wire()
    found = run_together(scripts, wire)
    assert found["p0"].size == 0


def room(announced: int) -> int:
    """How many identifiers a receiver's stores can hold, by the buckets of a list of this length.

    A store is a linear system of as many unknowns as it has slots: it takes about one item for each, and none more.
    """
    buckets = Buckets(announced)
    return buckets.count * StoreLayout(buckets.capacity).size


def test_from_the_shortest_list_on_that_auto_stores_nobody_tests_twice_as_many_as_it_announces() -> None:
    assert room(1) == 112  # which is why shorter ones go by the curve
    lengths = [*range(FEWEST, 5_000), *range(5_000, 20_000_000, 199_999)]
    assert max(room(length) / length for length in lengths) < 2


@pytest.mark.parametrize("n_parties", [2, 3])
@pytest.mark.parametrize("short", range(2))
def test_who_announces_a_short_list_tests_no_more_than_it_announced(
    n_parties: int, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the others' are: no store, but a list that is counted."""
    honest = alignment._announce

    def announcing(me: int, parties: Sequence[str], size: int, session: bytes, most: int) -> Script[Announced]:
        return honest(me, parties, 1 if me == short else size, session, most)

    monkeypatch.setattr(alignment, "FEW", 30)
    monkeypatch.setattr(alignment, "_announce", announcing)
    names, wire = [f"p{number}" for number in range(n_parties)], Wire()
    error = refused({name: align(me, names, KNOWN, b"session") for me, name in enumerate(names)}, wire)
    assert "at most 1 are agreed" in str(error)
    assert "prf-setup" not in {heard.kind for heard in wire.heard}


def test_a_leader_cannot_name_people_who_are_not_common() -> None:
    """It may know that a member has somebody; another one does not, and the check finds out."""
    scripts = aligning(KNOWN, KNOWN, KNOWN[:20])
    told: list[bytes] = []

    def remember(values: bytes) -> bytes:
        told.append(values)
        return values if len(told) == 1 else values[8:]  # one person less for the second member

    scripts["p2"] = forging(scripts["p2"], "common-values", values=remember)
    assert "cannot account for the people" in str(refused(scripts))


def test_a_leader_cannot_swap_people_at_one_member() -> None:
    scripts = aligning(KNOWN, KNOWN, KNOWN)
    turn = iter([True, False])
    scripts["p2"] = forging(
        scripts["p2"],
        "common-values",
        values=lambda values: values[8:16] + values[:8] + values[16:] if next(turn) else values,
    )
    assert "cannot account for the people" in str(refused(scripts))


@pytest.mark.parametrize("liar", range(3))
@pytest.mark.parametrize("untrue", [{"nonce": b"n" * 32}, {"records": 3000}], ids=["nonce", "size"])
def test_who_tells_each_another_thing_does_not_have_honest_parties_blamed(liar: int, untrue: dict[str, Any]) -> None:
    """By another size, one would even begin another way of aligning than the other."""

    def two_tongued(script: Script[Any]) -> Script[Any]:
        heard: Any = None
        while True:
            move = script.send(heard)
            if isinstance(move, Send) and kind_of(move.message) == "list-size":
                yield Send(move.peers[:1], move.message)
                move = Send(move.peers[1:], msgspec.structs.replace(move.message, **untrue))
            heard = yield move

    names = ["p0", "p1", "p2"]
    scripts: dict[str, Any] = {name: align(me, names, KNOWN, b"session") for me, name in enumerate(names)}
    scripts[names[liar]] = two_tongued(scripts[names[liar]])
    error = refused(scripts)
    assert error.peer == ""
    assert "one of the parties: told its peers different sizes or nonces" in str(error)


def test_an_assembler_cannot_test_guesses_by_the_order_of_records() -> None:
    """Even if it knew all that is public, nonces included: no hash of the identifiers gives the common order."""
    wire = Wire()
    names = ["p0", "p1"]
    rows = run_together({name: align(me, names, KNOWN, b"session", way="oprf") for me, name in enumerate(names)}, wire)[
        "p0"
    ]
    told = [heard.data for heard in wire.heard if heard.kind == "list-size"]
    text = b"align\0session" + b"".join((34).to_bytes(8, "big") + each[-32:] for each in told)
    announced = Announced((34, 34), text)
    items = Items.of(KNOWN, announced.text)
    for family in (items.family, TweakedHash(bytes(16))):
        for tweak in range(6):
            hashed = family.hash(items.digests, np.full(34, tweak, np.uint64))
            for word in (0, 1):
                guessed = np.argsort(hashed[:, word])
                assert not np.array_equal(guessed, rows)
                assert np.count_nonzero(guessed == rows) < 12
    assert not np.array_equal(np.argsort(digest_items(KNOWN, b"")[:, 0]), rows)
