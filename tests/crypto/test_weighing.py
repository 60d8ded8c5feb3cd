"""Sums of a circuit's outputs by secret weights, which nobody has without their labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Bits, Builder, Circuit, Delta, Evaluation, Evaluator, Garbler, Garbling
from masquerade.errors import BadMessage


def identity(width: int) -> Circuit:
    """A word, and each of its bits inverted."""
    build = Builder()
    word = build.input("x", width)
    build.output("same", word)
    build.output("other", [bit ^ 1 for bit in word])
    return build.build()


def played(bits: Bits) -> tuple[Garbling, Evaluation]:
    """Both sides of a circuit whose inputs are the garbler's."""
    width, size = bits.shape
    circuit = identity(width)
    garbling = Garbler(b"k" * 16, Delta()).garble(circuit, size, own={"x": bits})
    return garbling, Evaluator(b"k" * 16).evaluate(circuit, size, garbling.tables, {}, garbling.seed)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 2**32))
def test_the_evaluator_has_the_weighted_sum_more_than_the_garbler(width: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (width, size)).astype(np.uint8)
    weights = rng.integers(0, 1 << 64, width, np.uint64)
    garbling, held = played(bits)
    for name, word in (("same", bits), ("other", bits ^ 1)):
        told, ours = garbling.weigh(name, weights)
        expected = (word.astype(np.uint64) * weights[:, None]).sum(axis=0, dtype=np.uint64)
        assert np.array_equal(held.weighed(name, told) - ours, expected)


def test_what_the_garbler_tells_does_not_fit_other_labels() -> None:
    """Of the same circuit, garbled again, the labels are others."""
    bits, weights = np.ones((4, 3), np.uint8), np.arange(4, dtype=np.uint64)
    told, ours = played(bits)[0].weigh("same", weights)
    assert not (played(bits)[1].weighed("same", told) - ours == weights.sum()).any()


def test_a_message_that_is_too_short_is_refused() -> None:
    garbling, held = played(np.ones((4, 3), np.uint8))
    told, _ = garbling.weigh("same", np.zeros(4, np.uint64))
    with pytest.raises(BadMessage, match="weights of 95 bytes; this output has 4 × 3 bits"):
        held.weighed("same", told[:-1])
