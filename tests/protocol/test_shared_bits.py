"""Circuits on shares of bits: what a party keeps between evaluations depends on nothing but the circuits."""

from __future__ import annotations

import numpy as np

from masquerade.crypto import Bits, Builder, Circuit, words
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.providers.shared_counts import prepare

NAMES = ("anna", "berta", "carla")


def adder(width: int = 8, n: int = 3, name: str = "sum") -> Circuit:
    build = Builder()
    build.output(name, words.total(build, [build.input(f"provider {each}", width) for each in range(n)]))
    return build.build()


def test_a_circuit_that_is_built_anew_is_still_the_same() -> None:
    """Caches forget circuits, in each process others, and two threads may build one at the same time."""

    def site(me: int) -> Script[list[Bits]]:
        shared = yield from prepare(me, NAMES, b"test")
        kept, found = adder(), []
        for at in range(12):
            circuit = adder() if at % 3 == me else kept
            own = np.full((8, 40), me == 0, np.uint8)
            found.append((yield from shared.evaluate(circuit, own, "sum")))
        return found

    for found in run_together({name: site(me) for me, name in enumerate(NAMES)}).values():
        assert all((each == found[0]).all() for each in found)


def test_circuits_that_differ_have_other_digests() -> None:
    assert adder().digest == adder().digest
    assert len({adder().digest, adder(7).digest, adder(8, 2).digest, adder(8, 3, "total").digest}) == 4
