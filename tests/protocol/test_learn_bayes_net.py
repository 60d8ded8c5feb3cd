"""The net that parties find, and its tables, are those that their pooled records give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Precision
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn.bayes_net import (
    net_structure,
    penalty,
    plain_chances,
    shared_chances,
    step_digits,
    written_tables,
)
from masquerade.protocol.learn.counting import Calculator, ManySites, SharedCounts, TwoParties
from masquerade.protocol.learn.shared_numbers import plain_weighted_logarithms, prepare_shared_numbers
from masquerade.protocol.pairs import prepare_pair
from protocol.test_learn_id3 import NAMES, Record, codes

PRECISION = Precision(8, 3)
Net = dict[str, tuple[str, ...]]


def pooled(records: Sequence[Record], sizes: Mapping[str, int], order: Sequence[str], most: int) -> Net:
    net = {}
    for at, name in enumerate(order):
        parents: list[str] = []
        best = score(records, sizes, name, parents)
        while len(parents) < most:
            found = [
                (score(records, sizes, name, [*parents, each]), each) for each in order[:at] if each not in parents
            ]
            if not found or min(each for each, _ in found) >= best:
                break
            best, _ = min(found, key=lambda each: each[0])
            parents.append(next(each for value, each in found if value == best))
        net[name] = tuple(parents)
    return net


def score(records: Sequence[Record], sizes: Mapping[str, int], name: str, parents: list[str]) -> int:
    above = Counter(tuple(record[each] for each in parents) for record in records)
    cells = Counter((tuple(record[each] for each in parents), record[name]) for record in records)

    def total(counts: Counter[Any]) -> int:
        return int(plain_weighted_logarithms(np.array(list(counts.values())), PRECISION).sum())

    return total(above) - total(cells) + penalty(sizes, name, parents, len(records), PRECISION)


def between(sides: Sequence[SharedCounts], order: Sequence[str], n: int, most: int) -> list[Net]:
    def whole(me: int) -> Script[Net]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        return (yield from net_structure(TwoParties(pair), sides[me], order, n, most, PRECISION))

    found = run_together({name: whole(me) for me, name in enumerate(NAMES)})
    return [found[name] for name in NAMES]


def dependent(n: int, seed: int) -> tuple[list[Record], dict[str, int]]:
    """Records of a ← (nothing), b ← a, c ← b and d ← b, c, with some noise."""
    random = np.random.default_rng(seed)
    records = []
    for _ in range(n):
        a = int(random.integers(3))
        b = a if random.random() < 0.9 else int(random.integers(3))
        c = int(b > 0) ^ int(random.random() < 0.1)
        d = (b + c) % 2 if random.random() < 0.9 else int(random.integers(2))
        records.append({"a": a, "b": b, "c": c, "d": d})
    return records, {"a": 3, "b": 3, "c": 2, "d": 2}


def test_what_depends_on_what_is_found() -> None:
    records, sizes = dependent(250, seed=3)
    assert pooled(records, sizes, "abcd", 2) == {"a": (), "b": ("a",), "c": ("b",), "d": ("b", "c")}


@settings(max_examples=examples(6), deadline=None)
@given(st.integers(10, 250), st.integers(0, 99), st.data())
def test_both_ways_to_split_a_table_give_the_pooled_net(n: int, seed: int, data: st.DataObject) -> None:
    records, sizes = dependent(n, seed)
    expected = pooled(records, sizes, "abcd", 2)
    at = data.draw(st.integers(0, n))
    whole: list[SharedCounts] = [
        SharedCounts(codes(part, list(sizes)), sizes, PRECISION.bits) for part in (records[:at], records[at:])
    ]
    assert between(whole, "abcd", n, 2) == [expected] * 2
    holder = {name: data.draw(st.integers(0, 1)) for name in sizes} | {"b": 0, "d": 1}
    split: list[SharedCounts] = [
        SharedCounts(codes(records, [name for name in sizes if holder[name] == me]), sizes, PRECISION.bits, holder)
        for me in (0, 1)
    ]
    assert between(split, "abcd", n, 2) == [expected] * 2


# The tables: what K2 estimates from the pooled records.

SITES = ("anna", "berta", "carla")
SIZES = {"a": 2, "b": 3, "c": 1}
PARENTS = {"a": (), "b": ("a",), "c": ("a", "b")}


@pytest.mark.parametrize(("n_sites", "least"), [(2, 1), (2, 10), (3, 3), (3, 10)])
def test_chances_are_those_of_the_pooled_records(n_sites: int, least: int) -> None:
    random = np.random.default_rng(n_sites)
    known = {name: random.integers(0, size, 40) for name, size in SIZES.items()}
    names = SITES[:n_sites]

    def site(me: int) -> Script[Any]:
        own = {name: column[me::n_sites] for name, column in known.items()}
        calculator: Calculator
        if n_sites == 2:
            calculator = TwoParties((yield from prepare_pair(me, names, b"test")))
        else:
            calculator = ManySites((yield from prepare_shared_numbers(me, names, b"test")))
        return (yield from shared_chances(calculator, SharedCounts(own, SIZES, 8), PARENTS, least))

    found = run_together({name: site(me) for me, name in enumerate(names)})
    expected = plain_chances(known, SIZES, PARENTS, least)
    for each in found.values():
        assert {name: table.tolist() for name, table in each.items()} == {
            name: table.tolist() for name, table in expected.items()
        }


def test_k2s_estimate_of_a_small_table() -> None:
    known = {"a": np.array([0, 0, 0, 1]), "b": np.array([1, 1, 0, 0])}
    sizes, parents = {"a": 2, "b": 2}, {"a": (), "b": ("a",)}
    chances = plain_chances(known, sizes, parents, 1)
    assert chances["a"].tolist() == [[1024 * 4 // 6, 1024 * 2 // 6]]
    assert chances["b"].tolist() == [[1024 * 2 // 5, 1024 * 3 // 5], [1024 * 2 // 3, 1024 // 3]]
    tables = written_tables(chances, parents, {"a": ("no", "yes"), "b": ("x", "y")})
    assert tables["b"][1]["given"] == {"a": "yes"}
    assert sum(tables["b"][0]["chances"].values()) == pytest.approx(1.0, abs=1e-5)


def test_a_row_of_few_people_is_even_and_counts_are_rounded() -> None:
    known = {"a": np.repeat([0, 1], [9, 12]), "b": np.array([0] * 9 + [0] * 3 + [1] * 9)}
    chances = plain_chances(known, {"a": 2, "b": 2}, {"b": ("a",)}, 10)
    assert chances["b"].tolist() == [[512, 512], [1024 * 1 // 18, 1024 * 9 // 18]]  # 0 and 8 of 16


@given(st.lists(st.integers(0, 60), min_size=2, max_size=5), st.integers(2, 40))
def test_whatever_a_row_tells_follows_from_counts_rounded_to_a_step(counts: list[int], least: int) -> None:
    """Two tables whose counts round alike have the same chances, so that one person changes them rarely."""
    step = 1 << step_digits(least)
    assert step <= least < 2 * step
    rounded = [(each + step // 2) // step * step for each in counts]
    size = len(counts)

    def row(values: list[int]) -> list[int]:
        codes = {"b": np.repeat(np.arange(size), values)}
        (found,) = plain_chances(codes, {"b": size}, {"b": ()}, least)["b"].tolist()
        return [int(each) for each in found]

    total = (sum(counts) + step // 2) // step * step
    few = sum(counts) < least
    assert row(counts) == [(1024 // size) if few else 1024 * (each + 1) // (total + size) for each in rounded]
