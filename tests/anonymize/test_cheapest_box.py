"""Cheapest box first: its order against brute force, what its groups are, and its ways for what is large."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from contract.people import QID, SCHEMA, STEPWISE, people
from examples import examples
from masquerade.anonymize import Judge
from masquerade.anonymize.cheapest_box import (
    method as algorithm,
    method as search,
    method as vectors,
    space as hopeless,
)
from masquerade.anonymize.cheapest_box.method import NONE, GrowingGroups, cheapest_boxes
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
from strategies import CLASS, SENSITIVE, requirements, tables

PAIRS = mq.Taxonomy(Branch("*", (Branch("ab", (Branch("a"), Branch("b"))), Branch("cd", (Branch("c"), Branch("d"))))))


def letters(text: str, classes: str | None = None) -> mq.Table:
    columns = {"letter": list(text)} | ({} if classes is None else {CLASS: list(classes)})
    return mq.Table(pa.table(columns), mq.Schema([mq.Attribute("letter", taxonomy=PAIRS)]))


def released(table: mq.Table, k: int, method: mq.CheapestBox | None = None) -> list[str]:
    outcome = (method or mq.CheapestBox()).run_on_table(table, mq.KAnonymity(["letter"], k))
    return outcome.columns[0].to_arrow().to_pylist()


def test_raw_values_that_are_frequent_stay_and_the_rest_is_one_group() -> None:
    assert released(letters("aabccd"), 2) == ["a", "a", "*", "c", "c", "*"]


def test_a_left_over_joins_the_group_that_it_makes_dearer_least() -> None:
    assert released(letters("aaabcc"), 2) == ["ab", "ab", "ab", "ab", "c", "c"]


def test_groups_that_nest_have_cells_of_different_levels() -> None:
    assert released(letters("aabbbbccd"), 2) == ["a", "a", "b", "b", "b", "b", "cd", "cd", "cd"]


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
    searched = vectors.vectors_of(levels, records, k)
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
    outcome = mq.CheapestBox().run_on_table(table, requirement)
    for column in outcome.columns:
        (raw,) = table.columns([column.name])
        assert (column.lo[column.codes] <= raw.ranks).all()
        assert (raw.ranks < column.hi[column.codes]).all()
    cells = {column.name: column.to_arrow() for column in outcome.columns}
    cells[SENSITIVE] = table.arrow[SENSITIVE]
    assert mq.verify(pa.table(cells), requirement).holds


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_large_tables_and_lattices_satisfy_as_well(data: st.DataObject) -> None:
    table = data.draw(tables(min_rows=8, max_rows=40))
    requirement = data.draw(requirements(table))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, "_BLOCK", 4)
        patch.setattr(vectors, "MOST_VECTORS", 2)
        outcome = mq.CheapestBox().run_on_table(table, requirement)
    cells = {column.name: column.to_arrow() for column in outcome.columns}
    cells[SENSITIVE] = table.arrow[SENSITIVE]
    assert mq.verify(pa.table(cells), requirement).holds


@settings(max_examples=examples(30), deadline=None)
@given(tables(min_rows=2, max_rows=30), st.integers(1, 5), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table: mq.Table, k: int, random: object) -> None:
    assume(len(table) >= k)
    requirement = mq.KAnonymity(table.schema.names, k)
    order = list(range(len(table)))
    random.shuffle(order)  # type: ignore[attr-defined] # hypothesis gives a random.Random
    first, second = (
        list(
            zip(
                *(each.to_arrow().to_pylist() for each in mq.CheapestBox().run_on_table(rows, requirement).columns),
                strict=True,
            )
        )
        for rows in (table, mq.Table(table.arrow.take(order), table.schema))
    )
    assert [first[row] for row in order] == second


def test_purity_is_bounded() -> None:
    with pytest.raises(mq.ParameterError, match=r"The purity parameter of CheapestBox must be"):
        mq.CheapestBox(purity=-1)


def test_groups_that_the_rest_took_in_leave_no_number_behind() -> None:
    table = mq.Table(pa.Table.from_pylist(people(60, seed=2)), STEPWISE)
    requirement = mq.AlphaKAnonymity(QID, 0.3, 2, SICK, values=["a", "c"])
    assert mq.anonymize(table, requirement, mq.CheapestBox()).verdicts[0].holds


def counted_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that has one entry more after each look at a vector's boxes."""
    looks: list[int] = []
    look = Remaining.large_boxes

    def counted(remaining: Remaining, vector: int) -> LargeBoxes | None:
        looks.append(vector)
        return look(remaining, vector)

    monkeypatch.setattr(Remaining, "large_boxes", counted)
    return looks


def test_boxes_that_are_known_to_violate_are_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is the same as when every look counts and judges them anew; there are far fewer such looks."""
    table = mq.Table(pa.Table.from_pylist(people(36, seed=36)), SCHEMA)
    requirement = mq.TCloseness(QID, 0.3, SICK)
    looks = counted_looks(monkeypatch)
    found = []
    for few in (search._FEW, 0):
        monkeypatch.setattr(search, "_FEW", few)
        looks.clear()
        columns = mq.CheapestBox().run_on_table(table, requirement).columns
        found.append(([column.to_arrow().to_pylist() for column in columns], len(looks)))
    (quick, few_looks), (slow, many_looks) = found
    assert quick == slow
    assert few_looks < many_looks / 2


def test_vectors_without_a_large_box_are_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is the same as when each of them is looked at alone; hardly one still is."""
    table = mq.Table(pa.Table.from_pylist(people(12, seed=5)), SCHEMA)
    looks = counted_looks(monkeypatch)
    found = []
    for cells in (1 << 40, 0):
        monkeypatch.setattr(hopeless, "_CELLS_A_LOOK", cells)
        looks.clear()
        columns = mq.CheapestBox().run_on_table(table, mq.KAnonymity(QID, 5)).columns
        found.append(([column.to_arrow().to_pylist() for column in columns], len(looks)))
    (together, few_looks), (alone, many_looks) = found
    assert together == alone
    assert few_looks < many_looks / 3
