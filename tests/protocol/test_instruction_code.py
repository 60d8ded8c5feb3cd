"""Instructions as bytes: they come back as they were, in little more than their entropy."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.protocol.tds.instruction_code import pack, unpack


@st.composite
def instructions(draw: st.DrawFn) -> tuple[list[int], int]:
    n_children = draw(st.integers(2, 300))
    return draw(st.lists(st.integers(0, n_children - 1), max_size=200)), n_children


@settings(max_examples=examples(150), deadline=None)
@given(instructions())
def test_round_trip(instruction: tuple[list[int], int]) -> None:
    children, n_children = instruction
    packed = pack(np.array(children, np.uint16), n_children)
    assert unpack(packed, n_children, len(children)).tolist() == children


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.95, 0.05), (0.999, 0.001), (0.4, 0.3, 0.3), (0.98, 0.01, 0.01)])
def test_size_is_near_the_entropy(shares: tuple[float, ...]) -> None:
    """At most 1.5 times the information and a kilobyte, the bound that the mashup keeps for every step."""
    children = np.random.default_rng(1).choice(len(shares), 45_222, p=shares).astype(np.uint8)
    counts = Counter(children.tolist())
    bits = -sum(n * math.log2(n / children.size) for n in counts.values())
    assert len(pack(children, len(shares))) <= 1.5 * bits / 8 + 1000


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "unknown form"),
        (b"\7\0", "unknown form"),
        (b"\0\0\0\0", "bytes where"),
        (b"\1garbage", "broken compression"),
        (b"\0\xff", "goes to child 3 of 3"),
    ],
    ids=["empty", "form", "length", "compression", "child"],
)
def test_broken_bytes_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unpack(data, 3, 4)


def test_a_small_message_does_not_become_a_large_one() -> None:
    bomb = pack(np.zeros(10_000_000, np.uint8), 2)
    assert len(bomb) < 20_000
    with pytest.raises(ValueError, match="bytes where"):
        unpack(bomb, 2, 8)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=60), st.integers(2, 9), st.integers(0, 40))
def test_any_bytes_are_understood_or_refused(data: bytes, n_children: int, carriers: int) -> None:
    try:
        children = unpack(data, n_children, carriers)
    except ValueError:
        return
    assert children.size == carriers
    assert not carriers or int(children.max()) < n_children
