"""Masked fields of an alignment: nobody finds out where in another's table the common people are, or who else is there.

The party that looks has the same list and the same common people in both worlds; the others' tables are in another
order, and their other people are others.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from leakage.coins import Leak, Tapes, recorded
from leakage.distributions import compare, same_multiset
from masquerade.crypto import ItemStore, PrfReceiver, PrfSender, TweakedHash, decode, digest_items
from masquerade.crypto.bits import rank
from masquerade.crypto.oblivious_prf import CHOICE_BITS, PLACES_TWEAK, values_of
from masquerade.protocol.align import curve as curve_alignment, oprf as oprf_star
from masquerade.protocol.align.align import align

REPEAT = 32
OWN = ["c1", "x", "c2", "y", "z"]


def lists_of(n: int, me: int, world: int) -> list[list[str]]:
    """Everybody has c1 and c2; the first peer also somebody of ours: x, or y."""
    peers = ([["c1", "c2", "x", "q"], ["r", "y", "c2", "c1"]][world], [["c1", "c2", "s"], ["t", "c1", "c2"]][world])
    found: list[list[str]] = [list(each) for each in peers[: n - 1]]
    found.insert(me, OWN)
    return found


def aligned(n: int, me: int, world: int, tapes: Tapes) -> tuple[Any, list[Any]]:
    """One alignment, and the lists as the comparer compares them."""
    names = [f"p{number}" for number in range(n)]
    lists = lists_of(n, me, world)
    compared: list[Any] = []
    real = curve_alignment.common_positions

    def watched(finished: Any) -> Any:
        compared.append(finished)
        return real(finished)

    scripts = {
        name: align(number, names, [each.encode() for each in lists[number]], b"s") for number, name in enumerate(names)
    }
    with patch.object(curve_alignment, "common_positions", watched):
        return recorded(scripts, tapes), compared


def seen(n: int, me: int, world: int, run: int) -> dict[str, bytes]:
    """What a party hears, and what it says, which follows from that; the comparer also which points are equal."""
    name = f"p{me}"
    tapes = Tapes(f"world {world} run {run}", **{name: "own"})
    recording, (lists,) = aligned(n, me, world, tapes)
    found: dict[str, bytes] = {}
    for at, heard in enumerate(each for each in recording.wire.heard if name in (each.sender, each.receiver)):
        told = msgspec.msgpack.decode(heard.data)
        for field in ("points", "positions"):
            if field in told:
                found[f"{heard.kind} {at}, {heard.sender} to {heard.receiver}"] = told[field]
    if me == n - 1:
        points = [[row.tobytes() for row in each] for each in lists]
        for number, other in enumerate(points[:-1]):
            found[f"matches of p{number}"] = bytes(point in other for point in points[-1])
            found[f"matches in p{number}"] = bytes(point in points[-1] for point in other)
    return found


@pytest.mark.parametrize(("n", "me"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_two_worlds_look_alike(n: int, me: int) -> None:
    compare(*([seen(n, me, world, run) for run in range(REPEAT)] for world in (0, 1)))


@pytest.mark.parametrize("n", [2, 3])
def test_over_all_shuffles_of_a_list_its_common_people_are_anywhere(n: int) -> None:
    """Exactly: to the comparer they are in each of the places equally often, wherever they are in the table."""
    outcomes = []
    for table in (["c1", "c2", "u"], ["u", "c2", "c1"]):
        found = []
        for order in permutations(range(3)):
            tapes = Tapes("same")
            tapes.instead["p0", 24] = [np.array(order, np.uint64).tobytes()]
            names = [f"p{number}" for number in range(n)]
            lists = [table, *(["c2", "v", "c1"] for _ in names[1:])]
            scripts = {
                name: align(number, names, [each.encode() for each in lists[number]], b"s")
                for number, name in enumerate(names)
            }
            heard = [msgspec.msgpack.decode(each.data) for each in recorded(scripts, tapes).wire.heard]
            answer = next(each for each in heard if each["kind"] == "positions" and each["owner"] == 0)
            found.append(np.frombuffer(answer["positions"], "<u4").tolist())
        outcomes.append(found)
        assert len(set(map(tuple, found))) == 6  # two of three places, in either order
    same_multiset(*outcomes, "the places of common people")


def test_a_leader_cannot_tell_whom_one_member_has() -> None:
    """What it finds in a member's store is F masked by a share, also for its people whom that member has."""
    lists = [[b"c", b"x", b"y"], [b"c", b"z"], [b"c", b"x", b"z", b"w"]]
    names = [f"p{number}" for number in range(3)]
    stores: list[Any] = []
    functions: list[Any] = []
    decode, query = oprf_star.decode, oprf_star.query

    def found_in_store(*given: Any) -> Any:
        stores.append(decode(*given))
        return stores[-1]

    def asked(*given: Any) -> Any:
        functions.append((yield from query(*given)))
        return functions[-1]

    scripts = {name: align(me, names, lists[me], b"s", way="oprf") for me, name in enumerate(names)}
    with patch.object(oprf_star, "decode", found_in_store), patch.object(oprf_star, "query", asked):
        rows = recorded(scripts, Tapes("leader")).results["p2"]
    assert rows.tolist() == [0]
    masks = [store ^ functions[0][name][:, 0] for store, name in zip(stores, names, strict=False)]
    assert (masks[0] ^ masks[1] == 0).tolist() == [True, False, False, False]
    if not all(mask.all() for mask in masks):
        raise Leak("a store has F itself: the leader sees whom its member has")


def test_values_of_the_function_are_hashes_of_what_is_linear() -> None:
    """Whoever has some values, of guessed people too, does not compute others from them, with what it knows itself.

    Before the hash, what the sender has of an item differs from what the receiver has by a linear map of 64 bits, which
    the receiver knows: then 64 values would give it the map, and with it the function of everybody.
    """
    family, n = TweakedHash(bytes(16)), 4 * CHOICE_BITS
    receiver, sender = PrfReceiver(b"session"), PrfSender(b"session", family)
    to_sender, to_receiver = receiver.setup(), sender.setup()
    receiver.finish_setup(to_receiver)
    sender.finish_setup(to_sender)
    store = ItemStore(digest_items([b"own %d" % each for each in range(8)], b"key"), 8, family)
    query, held = receiver.query(store), sender.store(8)
    for message in query.messages():
        held.take(message)
    held.check(query.answer(held.challenge()))

    guessed = digest_items([b"guessed %d" % each for each in range(n)], b"key")
    shape = store.layout.shape
    places = shape.positions(guessed, family, PLACES_TWEAK)
    known = decode(shape, store.words, places) ^ values_of(guessed, family)  # the 64 bits of each
    told = held.evaluate(guessed) ^ decode(shape, query._rows, places)
    bits = [np.unpackbits(np.ascontiguousarray(each).view(np.uint8).reshape(n, -1), axis=1) for each in (known, told)]
    assert rank(bits[0]) == CHOICE_BITS
    if rank(np.hstack(bits)) < CHOICE_BITS + 128:
        raise Leak("values follow from others by a linear map: F is not the hash")
