"""The tables of a Bayes net from shares of counts: what K2 estimates from the pooled records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from masquerade.crypto import Precision
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn.bayes_net import plain_chances, shared_chances, written_tables
from masquerade.protocol.learn.counting import Calculator, ManySites, SharedCounts, TwoParties
from masquerade.protocol.learn.shared_numbers import prepare_shared_numbers
from masquerade.protocol.pairs import prepare_pair

NAMES = ("anna", "berta", "carla")
SIZES = {"a": 2, "b": 3, "c": 1}
PARENTS = {"a": (), "b": ("a",), "c": ("a", "b")}


@pytest.mark.parametrize("n_sites", [2, 3])
def test_chances_are_those_of_the_pooled_records(n_sites: int) -> None:
    random = np.random.default_rng(n_sites)
    codes = {name: random.integers(0, size, 40) for name, size in SIZES.items()}
    names = NAMES[:n_sites]

    def site(me: int) -> Script[Any]:
        own = {name: column[me::n_sites] for name, column in codes.items()}
        calculator: Calculator
        if n_sites == 2:
            calculator = TwoParties((yield from prepare_pair(me, names, b"test")))
        else:
            calculator = ManySites((yield from prepare_shared_numbers(me, names, b"test")))
        return (yield from shared_chances(calculator, SharedCounts(own, SIZES, 8), PARENTS, Precision(10)))

    found = run_together({name: site(me) for me, name in enumerate(names)})
    expected = plain_chances(codes, SIZES, PARENTS)
    for each in found.values():
        assert {name: table.tolist() for name, table in each.items()} == {
            name: table.tolist() for name, table in expected.items()
        }


def test_k2s_estimate_of_a_small_table() -> None:
    codes = {"a": np.array([0, 0, 0, 1]), "b": np.array([1, 1, 0, 0])}
    sizes, parents = {"a": 2, "b": 2}, {"a": (), "b": ("a",)}
    chances = plain_chances(codes, sizes, parents)
    assert chances["a"].tolist() == [[1024 * 4 // 6, 1024 * 2 // 6]]
    assert chances["b"].tolist() == [[1024 * 2 // 5, 1024 * 3 // 5], [1024 * 2 // 3, 1024 // 3]]
    tables = written_tables(chances, parents, {"a": ("no", "yes"), "b": ("x", "y")})
    assert tables["b"][1]["given"] == {"a": "yes"}
    assert sum(tables["b"][0]["chances"].values()) == pytest.approx(1.0, abs=1e-5)
