"""Values in an order that only the other party knows, and the network by which they get there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import NARROW, Transfers, looks_random
from examples import examples
from homes import home
from masquerade.crypto import Orderer, Owner, Words, batches, depth_for, stages_of
from masquerade.crypto.oblivious_permutation import Order, rearranged, switches
from masquerade.errors import BadMessage, ParameterError


def passed_through(order: Order) -> Order:
    depth, wires = depth_for(len(order)), np.arange(len(order))
    set_to = switches(order)
    assert set_to.shape == (stages_of(depth), len(order) // 2)
    for stage, crossed in enumerate(set_to):
        pairs = rearranged(wires, stage, depth).reshape(-1, 2)
        wires = np.where(crossed.astype(bool)[:, None], pairs[:, ::-1], pairs).reshape(-1)
    return wires


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32))
def test_a_network_takes_every_permutation(depth: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(1 << depth)
    assert np.array_equal(passed_through(order), order)


def test_a_network_has_a_power_of_two_of_places() -> None:
    for size in (1, 3, 6):
        with pytest.raises(ParameterError, match=f"a power of two of places. Got {size}"):
            switches(np.arange(size))


def shares(values: Words, order: Order, transfers: Transfers) -> tuple[Words, Words, list[bytes]]:
    """Both shares, and everything that travelled."""
    owner, orderer = Owner(transfers[0], values), Orderer(transfers[1], order, values.dtype)
    travelled = [owner.start]
    orderer.start(owner.start)
    for stages in batches(len(values)):
        asked = orderer.ask(stages)
        answer = owner.answer(asked, stages)
        orderer.receive(answer)
        travelled += [asked, answer]
    return owner.share(), orderer.share(), travelled


@settings(max_examples=examples(20), deadline=None)
@given(n=st.integers(1, 70), seed=st.integers(0, 2**32), word=st.sampled_from([np.uint16, np.uint32]))
def test_shares_are_of_the_values_in_order(n: int, seed: int, word: type, transfers: Transfers) -> None:
    random = np.random.default_rng(seed)
    values, order = random.integers(0, 1 << 16, n).astype(word), random.permutation(n)
    one, other, _ = shares(values, order, transfers)
    assert np.array_equal(one ^ other, values[order])


def test_many_places_go_in_several_messages(transfers: Transfers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home(batches), "_MOST_SWITCHES", 32)
    values, order = np.arange(60, dtype=np.uint16), np.random.default_rng(1).permutation(60)
    assert [len(each) for each in batches(60)] == [1] * 11
    one, other, _ = shares(values, order, transfers)
    assert np.array_equal(one ^ other, values[order])


def test_all_that_travels_looks_random(transfers: Transfers) -> None:
    values, order = np.zeros(1 << 10, np.uint16), np.arange(1 << 10)
    one, other, travelled = shares(values, order, transfers)
    for message in (one.tobytes(), other.tobytes(), travelled[1][16:], travelled[2]):
        assert looks_random(message)


def test_messages_of_another_length_are_refused(transfers: Transfers) -> None:
    values = np.arange(8, dtype=np.uint16)
    owner, orderer = Owner(transfers[0], values), Orderer(transfers[1], np.arange(8), NARROW)
    with pytest.raises(BadMessage, match=r"8 masked values take 16 bytes. Got 15"):
        orderer.start(owner.start[:-1])
    (stages,) = batches(8)
    with pytest.raises(ParameterError, match="come first"):
        orderer.receive(b"")
    orderer.start(owner.start)
    asked = orderer.ask(stages)
    with pytest.raises(ParameterError, match="not received yet"):
        orderer.ask(stages)
    with pytest.raises(ParameterError, match="some switches are missing"):
        orderer.share()
    answer = owner.answer(asked, stages)
    with pytest.raises(BadMessage):
        orderer.receive(answer[:-1])
