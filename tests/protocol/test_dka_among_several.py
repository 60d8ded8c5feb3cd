"""DkA among three and more parties: the tests by sorting under sharing, against plain counting."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.crypto import layers
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.progress import silent
from masquerade.protocol import ASSEMBLER, Assembly, Contract, Participant
from masquerade.protocol.assembling import assemble
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.protocol.dka.checks import SortedTests, counts_in_runs, value_bits
from masquerade.protocol.dka.method import LOCAL_ALGORITHMS, Dka
from masquerade.protocol.dka.plain import plain_dka
from masquerade.protocol.providers.shared_counts import prepare
from protocol.party_scripts import contract_for, session_scripts
from protocol.test_dka import NAMES, SCHEMA, bag, breaking, people

PARTIES = ("anna", "berta", "carla")
HOLDERS = dict(zip(NAMES, PARTIES, strict=True))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 9), max_size=70))
def test_the_network_sorts_any_number_of_keys_and_goes_backwards(keys: list[int]) -> None:
    found, exchanged = np.array(keys, int), []
    for low, high in layers(len(keys)):
        assert len({*low.tolist(), *high.tolist()}) == 2 * low.size  # nobody is in two pairs of a layer
        swap = found[high] < found[low]
        exchanged.append(swap)
        found[low], found[high] = np.where(swap, (found[high], found[low]), (found[low], found[high]))
    assert found.tolist() == sorted(keys)
    for (low, high), swap in zip([*layers(len(keys))][::-1], exchanged[::-1], strict=True):
        found[low], found[high] = np.where(swap, (found[high], found[low]), (found[low], found[high]))
    assert found.tolist() == keys


class Labelled:
    """A side that is nothing but labels."""

    def __init__(self, labels: list[int], k: int, bound: int) -> None:
        self.k, self.bound, self.left = k, bound, np.arange(len(labels))
        self._labels = np.array(labels, np.uint64)

    def labels(self) -> Any:
        return self._labels


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(3, 4), st.integers(2, 25), st.integers(0, 10**6), st.data())
def test_good_are_the_records_whose_labels_occur_k_times(parties: int, n: int, seed: int, data: Any) -> None:
    k = data.draw(st.integers(2, n))
    bound = max(1, n // k)
    labels = np.random.default_rng(seed).integers(0, bound + 1, (parties, n)).tolist()
    names = tuple("abcd"[:parties])

    def part(me: int) -> Script[Any]:
        tests = SortedTests((yield from prepare(me, names, b"test")))
        side: Any = Labelled(labels[me], k, bound)
        good = yield from tests.good_groups(side, silent)
        return good, (yield from tests.all_set(good[:, None])), (yield from tests.unanimous(seed % parties != me))

    results = run_together({name: part(me) for me, name in enumerate(names)})
    keys = list(zip(*labels, strict=True))
    expected = [bound not in key and keys.count(key) >= k for key in keys]
    assert np.bitwise_xor.reduce([each[0] for each in results.values()]).tolist() == expected
    assert np.bitwise_xor.reduce([each[1] for each in results.values()]).tolist() == [all(expected)]
    assert not any(each[2] for each in results.values())


def contract_of(k: int, local: str, diverse: mq.Requirement | None = None) -> Contract:
    """With a requirement on the disease: anna has that column."""
    sensitive = {} if diverse is None else {"disease": "anna"}
    return contract_for(diverse or mq.KAnonymity(NAMES, k), HOLDERS, Dka(local=local), sensitive=sensitive)


def scripts(table: mq.Table, k: int, local: str, books: dict[str, Notebook] | None = None) -> dict[str, Any]:
    contract, ids = contract_of(k, local), [str(row).encode() for row in range(len(table))]
    made: dict[str, Any] = {ASSEMBLER: assemble(Assembly(contract))}
    for name in PARTIES:
        made[name] = Dka.of(contract).party(Participant(name, contract, table, ids), books[name] if books else None)
    return made


def plainly(table: mq.Table, k: int, local: str) -> Counter[tuple[object, ...]]:
    sides = plain_dka([table.columns([name]) for name in NAMES], len(table), k, local)
    return bag(pa.table({column.name: column.to_arrow() for side in sides for column in side.released()}))


@pytest.mark.parametrize("local", LOCAL_ALGORITHMS)
def test_the_release_is_that_of_plain_rounds(local: str) -> None:
    table, k = people(24, 5), 3
    expected = plainly(table, k, local)
    release = run_together(scripts(table, k, local))[ASSEMBLER]
    assert bag(release.table) == expected
    assert all(count >= k for count in expected.values())
    assert release.suppressed == len(table) - expected.total() < k


def test_a_broken_session_goes_on_after_its_last_whole_round() -> None:
    table, k, books = people(24, 7), 3, {name: Notebook() for name in PARTIES}
    first = scripts(table, k, "datafly", books)
    first["berta"] = breaking(first["berta"], 3)  # it has heard of the first round, and half of the second
    with pytest.raises(ConnectionError):
        run_together(first)
    wire = Wire()
    release = run_together(scripts(table, k, "datafly", books), wire)[ASSEMBLER]
    assert bag(release.table) == plainly(table, k, "datafly")
    assert not any(each.kind == "blinded" for each in wire.heard)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 10**6))
def test_counts_are_those_of_the_run(n: int, n_values: int, seed: int) -> None:
    """Shares of which two parties have a part each, random, and of which the third has what is left."""
    draw = np.random.default_rng(seed)
    groups, values = np.sort(draw.integers(0, 4, n)), draw.integers(0, n_values, n)
    linked = np.concatenate(([False], groups[1:] == groups[:-1])).astype(np.uint8)[None]
    codes = (values >> np.arange(value_bits(n_values))[:, None] & 1).astype(np.uint8)
    width = n.bit_length() + 1

    def part(me: int) -> Script[Any]:
        shared = yield from prepare(me, PARTIES, b"test")
        own = [_shares(whole, seed)[me] for whole in (linked, codes)]
        return (yield from counts_in_runs(shared, own[0], own[1], n_values, width))

    results = run_together({name: part(me) for me, name in enumerate(PARTIES)})
    bits = np.bitwise_xor.reduce([*results.values()]).reshape(n_values, width, n)
    counts = (bits.astype(int) << np.arange(width)[:, None]).sum(axis=1)
    expected = [[((groups == group) & (values == value)).sum() for group in groups] for value in range(n_values)]
    assert counts.tolist() == np.array(expected).tolist()


def _shares(whole: Any, seed: int) -> list[Any]:
    random = np.random.default_rng(seed).integers(0, 2, (2, *whole.shape)).astype(np.uint8)
    return [random[0], random[1], whole ^ random[0] ^ random[1]]


@pytest.mark.parametrize(
    "requirement",
    [
        mq.LDiversity(NAMES, l=2, sensitive="disease"),
        mq.ConfidenceBounding(NAMES, 0.6, sensitive="disease", values=["gout"]),
    ],
    ids=lambda each: each.model,
)
def test_sensitive_values_are_judged_as_by_plain_counting(requirement: mq.Requirement) -> None:
    arrow = people(24, 5).arrow
    jobs = [job.endswith("0") for job in arrow["job"].to_pylist()]
    diseases = ["gout" if job else ("flu", "cold")[at % 2] for at, job in enumerate(jobs)]
    table = mq.Table(arrow.append_column("disease", pa.array(diseases)), mq.Schema([*SCHEMA, mq.Attribute("disease")]))
    both = mq.KAnonymity(NAMES, 3) & requirement
    release = run_together(session_scripts(contract_of(3, "datafly", both), table))[ASSEMBLER]
    sensitive = [(part, table.coded("disease")) for part in both.parts if part.sensitive]
    sides = plain_dka([table.columns([name]) for name in NAMES], 24, 3, "datafly", sensitive)
    expected = {column.name: column.to_arrow() for side in sides for column in side.released()}
    assert bag(release.table) == bag(pa.table(expected))
    assert sides[0].round > 1
    assert all(verdict.holds for verdict in release.verdicts)
