"""Mondrian as a local anonymizer of DkA: levels of groups, each of unions of those below."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import Column
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.protocol.dka.anonymizers import ByMondrian
from masquerade.protocol.dka.plain import play_openly
from masquerade.protocol.dka.side import BottomUpSide
from protocol.test_dka import TREES, people, released_sizes

SCHEMA = mq.Schema(
    [
        mq.Attribute("age", taxonomy=mq.Taxonomy(TREES["age"])),
        mq.Attribute("income", "continuous"),
        mq.Attribute("job", taxonomy=mq.Taxonomy(TREES["job"])),
    ]
)


def earners(n: int, seed: int) -> mq.Table:
    """People with a number that has no taxonomy."""
    incomes = np.random.default_rng(seed).integers(0, 40, n).tolist()
    arrow = people(n, seed).arrow
    cells = {"age": arrow.column("age"), "income": pa.array(incomes), "job": arrow.column("job")}
    return mq.Table(pa.table(cells), SCHEMA)


def sides(table: mq.Table) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    return table.columns(["age", "income"]), table.columns(["job"])


def groups(own: Any, n: int) -> set[frozenset[int]]:
    numbers, n_groups = own.groups(np.arange(n))
    found: dict[int, set[int]] = {}
    for row, number in enumerate(numbers.tolist()):
        found.setdefault(number, set()).add(row)
    assert set(found) == set(range(n_groups))
    return {frozenset(each) for each in found.values()}


def cells(own: Any, n: int) -> list[tuple[str, ...]]:
    columns = [column.to_arrow().to_pylist() for column in own.released(np.arange(n))]
    return list(zip(*columns, strict=True))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 90), st.integers(0, 10**6), st.integers(1, 9))
def test_a_step_unites_groups_and_changes_the_table(n: int, seed: int, k: int) -> None:
    columns = sides(earners(max(n, k), seed))[0]
    n = max(n, k)
    own = ByMondrian(columns, n, k)
    own.start()
    now, written, steps, least = groups(own, n), cells(own, n), 0, k
    assert min(map(len, now)) >= k
    while own.further():
        before, earlier = now, written
        now, written, steps, least = groups(own, n), cells(own, n), steps + 1, least * 2
        assert now != before
        assert written != earlier
        assert all(any(each <= union for union in now) for each in before)  # a partition: so unions of them
        assert min(map(len, now)) >= min(least, n)
        assert min(Counter(written).values()) >= min(least, n)
        for column, original in zip(own.released(np.arange(n)), columns, strict=True):
            lo, hi = column.lo[column.codes], column.hi[column.codes]
            assert ((lo <= original.ranks) & (original.ranks < hi)).all()
    assert now == {frozenset(range(n))}
    assert 2 ** max(steps - 1, 0) * k <= n  # at most log₂(n / k) + 2 levels


def test_the_lowest_level_is_mondrian() -> None:
    table = earners(80, 3)
    own = ByMondrian(table.columns(["age", "income"]), 80, 5)
    own.start()
    requirement = mq.KAnonymity(["age", "income"], 5)
    alone = mq.anonymize(table, requirement, mq.Mondrian(), order="input")
    rows = [(row["age"], row["income"]) for row in alone.table.to_pylist()]
    assert cells(own, 80) == rows
    assert len(set(rows)) > 5


def test_the_small_join_whom_they_lose_least_with() -> None:
    """Groups of two: the youngest join their neighbours, though others come first in the table."""
    ages = [90, 90, 10, 10, 91, 91, 12, 12]
    table = mq.Table(pa.table({"age": ages}), mq.Schema([mq.Attribute("age", "continuous")]))
    own = ByMondrian(table.columns(["age"]), 8, 2)
    own.start()
    assert groups(own, 8) == {frozenset(each) for each in ((0, 1), (2, 3), (4, 5), (6, 7))}
    assert own.further()
    assert groups(own, 8) == {frozenset((0, 1, 4, 5)), frozenset((2, 3, 6, 7))}
    assert own.further()
    assert not own.further()


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(8, 90), st.integers(0, 10**6), st.integers(1, 8))
def test_the_join_is_k_anonymous_and_no_round_earlier_would_be(n: int, seed: int, k: int) -> None:
    both = sides(earners(n, seed))
    own = [ByMondrian(columns, n, k) for columns in both]
    plainly = [BottomUpSide(each, n, k) for each in own]
    play_openly(plainly)
    rounds = plainly[0].round
    assert min(released_sizes(own, n)) >= k
    again = [ByMondrian(columns, n, k) for columns in both]
    for each in again:
        each.start()
    for _ in range(rounds - 1):
        pairs = zip(*(each.groups(np.arange(n))[0].tolist() for each in again), strict=True)
        assert min(Counter(pairs).values()) < k
        for each in again:
            each.further()


def test_what_mondrian_refuses() -> None:
    table = earners(8, 1)
    with pytest.raises(RequirementUnreachable, match="k = 9 needs at least 9 common records; there are 8"):
        ByMondrian(table.columns(["age"]), 8, 9)
    with pytest.raises(ParameterError, match="at least one attribute"):
        ByMondrian((), 8, 2)
