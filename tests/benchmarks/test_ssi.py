"""SSI_t as the DkA paper writes it, against plain sets and against the joint histogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from examples import examples
from experiments import of_experiments
from masquerade.crypto import Bits, SecretKey
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.pairs import Pair, prepare_pair
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.histogram import Bounds
from protocol.tampering import cut_short

ssi = of_experiments("_ssi")

NAMES = ("anna", "berta")
sets = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def keys() -> dict[ssi.Scheme, SecretKey]:
    return {"okamoto-uchiyama": ssi.new_key(), "paillier": ssi.new_key("paillier")}


def first(own: Bits, threshold: int, key: SecretKey | None) -> Script[Any]:
    pair = yield from prepare_pair(0, NAMES, b"ssi")
    return (yield from _part(pair, own, threshold, key, None, "okamoto-uchiyama"))


def second(own: Bits, threshold: int, bit: int, scheme: ssi.Scheme | None) -> Script[Any]:
    pair = yield from prepare_pair(1, NAMES, b"ssi")
    return (yield from _part(pair, own, threshold, None, bit, scheme))


def _part(
    pair: Pair, own: Bits, threshold: int, key: SecretKey | None, bit: int | None, scheme: ssi.Scheme | None
) -> Script[Any]:
    if pair.me == 0 and key is not None:
        return (yield from ssi.ssi_first(pair, own, threshold, key))
    if bit is not None and scheme is not None:
        return (yield from ssi.ssi_second(pair, own, threshold, bit, scheme))
    return (yield from ssi.ssi_by_circuit(pair, own, threshold, bit))


@settings(max_examples=examples(6), deadline=None)
@given(sets, st.integers(0, 13), st.integers(0, 1), st.sampled_from(["okamoto-uchiyama", "paillier"]))
def test_algorithm_2(
    keys: dict[ssi.Scheme, SecretKey], places: list[tuple[bool, bool]], threshold: int, bit: int, scheme: ssi.Scheme
) -> None:
    left, right = np.array(places, np.uint8).T
    results = run_together(
        {"anna": first(left, threshold, keys[scheme]), "berta": second(right, threshold, bit, scheme)}
    )
    assert results["berta"] is None
    assert results["anna"] ^ bit == (int((left & right).sum()) < threshold)


@settings(max_examples=examples(10), deadline=None)
@given(sets, st.integers(0, 13), st.integers(0, 1))
def test_algorithm_8(places: list[tuple[bool, bool]], threshold: int, bit: int) -> None:
    left, right = np.array(places, np.uint8).T
    results = run_together({"anna": first(left, threshold, None), "berta": second(right, threshold, bit, None)})
    assert results["berta"] is None
    assert results["anna"] ^ bit == (int((left & right).sum()) < threshold)


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=14), st.integers(1, 5))
def test_the_joint_histogram_gives_the_same_bits(pairs: list[tuple[int, int]], k: int) -> None:
    """One SSI_t for each record, on the sets of the records in its groups; and all of them at once."""
    labels = np.array(pairs, np.uint64).T
    n, k = len(pairs), min(k, len(pairs))

    def theta(own: NDArray[np.uint64], record: int) -> Bits:
        return (own == own[record]).astype(np.uint8)

    def part(me: int) -> Script[tuple[list[int], Bits]]:
        pair = yield from prepare_pair(me, NAMES, b"ssi")
        by_record = []
        for record in range(n):
            bit = record % 2
            share = yield from ssi.ssi_by_circuit(pair, theta(labels[me], record), k, bit if me else None)
            by_record.append(bit if share is None else share)
        at_once = yield from shared_tests(pair, labels[me], k, Bounds(n, (4, 4)))
        return by_record, at_once

    (left, left_bits), (right, right_bits) = run_together({name: part(me) for me, name in enumerate(NAMES)}).values()
    fails = np.array(left) ^ np.array(right)
    assert np.array_equal(fails, 1 ^ left_bits ^ right_bits)


def test_views_have_the_same_shape_whatever_the_sets(keys: dict[ssi.Scheme, SecretKey]) -> None:
    shapes = set()
    for left, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        wire = Wire()
        run_together(
            {
                "anna": first(np.full(5, left, np.uint8), 3, keys["okamoto-uchiyama"]),
                "berta": second(np.full(5, right, np.uint8), 3, 1, "okamoto-uchiyama"),
            },
            wire,
        )
        shapes.add(tuple((heard.sender, heard.kind, len(heard.data)) for heard in wire.heard))
    assert len(shapes) == 1


@pytest.mark.parametrize(("kind", "guilty"), [("ssi-set", "anna"), ("ssi-share", "berta")])
def test_a_short_message_is_its_senders_fault(keys: dict[ssi.Scheme, SecretKey], kind: str, guilty: str) -> None:
    bits = np.ones(4, np.uint8)
    scripts = {"anna": first(bits, 2, keys["okamoto-uchiyama"]), "berta": second(bits, 2, 0, "okamoto-uchiyama")}
    scripts[guilty] = cut_short(scripts[guilty], kind)
    with pytest.raises(PeerBrokeProtocol, match=guilty):
        run_together(scripts)


def test_the_random_bit_is_the_second_partys() -> None:
    with pytest.raises(ParameterError, match="P2, and it alone"):
        run_together({"anna": first(np.ones(2, np.uint8), 1, None), "berta": _without_a_bit()})


def _without_a_bit() -> Script[Any]:
    pair = yield from prepare_pair(1, NAMES, b"ssi")
    return (yield from ssi.ssi_by_circuit(pair, np.ones(2, np.uint8), 1))
