"""Cheapest box first: its order against brute force, what its groups are, and its ways for what is large."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from anonymize.outcomes import assert_holds_and_covers, cells_of
from contract.people import QID, SCHEMA, STEPWISE, people
from examples import examples
from masquerade.anonymize import Judge
from masquerade.anonymize.cheapest_box import method, space
from masquerade.anonymize.cheapest_box.method import NONE, GrowingGroups, cheapest_boxes, vectors_of
from masquerade.anonymize.cheapest_box.space import (
    BoxIndex,
    DistinctRecords,
    LargeBoxes,
    Levels,
    Remaining,
    distinct_records,
    levels_of,
)
from masquerade.data import Branch
from privacy.definitions import SENSITIVE as SICK
from strategies import CLASS, requirements, tables

PAIRS = mq.Taxonomy(Branch("*", (Branch("ab", (Branch("a"), Branch("b"))), Branch("cd", (Branch("c"), Branch("d"))))))


def letters(text: str, classes: str | None = None) -> mq.Table:
    columns = {"letter": list(text)} | ({} if classes is None else {CLASS: list(classes)})
    return mq.Table(pa.table(columns), mq.Schema([mq.Attribute("letter", taxonomy=PAIRS)]))


def released(table: mq.Table, k: int, boxes: mq.CheapestBox | None = None) -> list[str]:
    outcome = (boxes or mq.CheapestBox()).run_on_table(table, mq.KAnonymity(["letter"], k))
    return outcome.columns[0].to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("aabccd", "a a * c c *", id="raw values that are frequent stay, and the rest is one group"),
        pytest.param("aaabcc", "ab ab ab ab c c", id="a left over joins the group that it makes dearer least"),
        pytest.param("aabbbbccd", "a a b b b b cd cd cd", id="groups that nest have cells of different levels"),
    ],
)
def test_small_tables_by_hand(text: str, expected: str) -> None:
    assert released(letters(text), 2) == expected.split()


def test_classes_keep_boxes_pure() -> None:
    table = letters("abcd", "YNYN")
    assert released(table, 2) == ["ab", "ab", "cd", "cd"]
    # Pairs of two classes cost 0.5 + 3 · 0.5, all letters together 1 + 3 · 0.5: still the pairs.
    assert released(table, 2, mq.CheapestBox(target=CLASS, purity=3.0)) == ["ab", "ab", "cd", "cd"]
    mixed = letters("aabbbb" + "ccdd", "YYNNNN" + "YNYN")
    assert released(mixed, 2, mq.CheapestBox(target=CLASS))[:6] == ["a", "a", "b", "b", "b", "b"]


def brute_force(levels: list[Levels], records: DistinctRecords, k: int) -> int | None:
    """The cost of the cheapest box of all vectors with at least k rows."""
    cheapest = None
    for vector in product(*(range(each.n_levels) for each in levels)):
        sizes: Counter[tuple[int, ...]] = Counter()
        costs: dict[tuple[int, ...], int] = {}
        for at in range(records.n):
            ranks = records.ranks[:, at]
            box = tuple(int(each.nodes[level, rank]) for each, level, rank in zip(levels, vector, ranks, strict=True))
            sizes[box] += int(records.sizes[at])
            costs[box] = sum(
                int(each.costs[level, rank]) for each, level, rank in zip(levels, vector, ranks, strict=True)
            )
        for box, size in sizes.items():
            if size >= k and (cheapest is None or costs[box] < cheapest):
                cheapest = costs[box]
    return cheapest


@settings(max_examples=examples(60), deadline=None)
@given(tables(min_rows=2, max_rows=15, max_attributes=2), st.integers(1, 6))
def test_each_group_is_the_cheapest_box_of_what_was_left(table: mq.Table, k: int) -> None:
    assume(len(table) >= k)
    levels = [levels_of(column) for column in table.columns(table.schema.names)]
    judge = Judge([mq.KAnonymity(table.schema.names, k)], {}, len(table))
    records = distinct_records(levels, np.arange(len(table)), judge, None)
    searched = vectors_of(levels, records, k)
    groups, n_groups = cheapest_boxes(records, BoxIndex(levels, records, searched), judge, 0.0)
    spans = GrowingGroups(levels, records, groups, n_groups)
    left = np.ones(records.n, bool)
    for group in range(n_groups):
        some = np.flatnonzero(left)
        rest = DistinctRecords(records.ranks[:, some], records.sizes[some], records.counts, None, np.arange(some.size))
        cheapest = brute_force(levels, rest, k)
        assert cheapest is not None
        assert spans.costs[group] <= cheapest  # its cells shrink to what it holds
        assert records.sizes[groups == group].sum() >= k
        left &= groups != group
    assert records.sizes[groups == NONE].sum() < k


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_every_release_satisfies_and_covers_what_it_was(data: st.DataObject) -> None:
    table = data.draw(tables(min_rows=2, max_rows=30))
    requirement = data.draw(requirements(table))
    assert_holds_and_covers(mq.CheapestBox().run_on_table(table, requirement), table, requirement)


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_large_tables_and_lattices_satisfy_as_well(data: st.DataObject) -> None:
    table = data.draw(tables(min_rows=8, max_rows=40))
    requirement = data.draw(requirements(table))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(method, "_BLOCK", 4)
        patch.setattr(method, "MOST_VECTORS", 2)
        assert_holds_and_covers(mq.CheapestBox().run_on_table(table, requirement), table, requirement)


@settings(max_examples=examples(30), deadline=None)
@given(tables(min_rows=2, max_rows=30), st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table: mq.Table, k: int, random: object) -> None:
    assume(len(table) >= k)
    requirement = mq.KAnonymity(table.schema.names, k)
    order = list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    mixed = mq.Table(table.arrow.take(order), table.schema)
    first, second = (cells_of(mq.CheapestBox().run_on_table(rows, requirement)) for rows in (table, mixed))
    assert [first[row] for row in order] == second


def test_purity_is_bounded() -> None:
    with pytest.raises(mq.ParameterError, match=r"The purity parameter of CheapestBox must be"):
        mq.CheapestBox(purity=-1)


def test_groups_that_the_rest_took_in_leave_no_number_behind() -> None:
    table = mq.Table(pa.Table.from_pylist(people(60, seed=2)), STEPWISE)
    requirement = mq.AlphaKAnonymity(QID, 0.3, 2, SICK, values=["a", "c"])
    assert mq.anonymize(table, requirement, mq.CheapestBox()).verdicts[0].holds


@pytest.mark.parametrize(
    ("records", "requirement", "module", "name", "values", "share"),
    [
        (people(36, seed=36), mq.TCloseness(QID, 0.3, SICK), method, "_FEW", (method._FEW, 0), 1 / 2),
        (people(12, seed=5), mq.KAnonymity(QID, 5), space, "_CELLS_A_LOOK", (1 << 40, 0), 1 / 3),
    ],
    ids=["boxes known to violate are not judged again", "vectors without a large box are found together"],
)
def test_few_boxes_are_looked_at(
    records: Any,
    requirement: mq.Requirement,
    module: Any,
    name: str,
    values: tuple[int, int],
    share: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The release is the same as when every box is looked at alone and anew; there are far fewer such looks."""
    table = mq.Table(pa.Table.from_pylist(records), SCHEMA)
    looks: list[int] = []
    look = Remaining.large_boxes

    def counted(remaining: Remaining, vector: int) -> LargeBoxes | None:
        looks.append(vector)
        return look(remaining, vector)

    monkeypatch.setattr(Remaining, "large_boxes", counted)
    found = []
    for value in values:
        monkeypatch.setattr(module, name, value)
        looks.clear()
        found.append((cells_of(mq.CheapestBox().run_on_table(table, requirement)), len(looks)))
    (quick, few_looks), (slow, many_looks) = found
    assert quick == slow
    assert few_looks < many_looks * share
