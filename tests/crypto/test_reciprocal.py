"""The circuit of 1/x, over all sizes of x."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import MANTISSA, reciprocal_circuit, to_bits
from masquerade.crypto.circuit import evaluate


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(20, 44), st.lists(st.floats(0.3, 1.0), min_size=1, max_size=9), st.integers(0, 4))
def test_the_relative_error_is_small_whatever_the_size(width: int, sizes: list[float], dropped: int) -> None:
    x = np.array([int(2 ** (width * size)) - 1 for size in sizes])
    thirds = x // 3
    circuit = reciprocal_circuit(2, width, dropped, 54)
    inputs = {"provider 0": to_bits(thirds, width), "provider 1": to_bits(x - thirds, width)}
    found = evaluate(circuit, inputs)["reciprocal"]
    numbers = (found.astype(object) * (1 << np.arange(54, dtype=object))[:, None]).sum(axis=0)
    for got, each in zip(numbers, x.tolist(), strict=True):
        exact = 2.0 ** (width + MANTISSA - 2 - dropped) / each
        assert abs(got - exact) <= exact * 2.0 ** (2 - MANTISSA) + 1


def test_the_circuit_is_small_and_shallow() -> None:
    circuit = reciprocal_circuit(3, 36, 4, 40)
    assert circuit.n_and < 2800
    assert circuit.depth < 160
