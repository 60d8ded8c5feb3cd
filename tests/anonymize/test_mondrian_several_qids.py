"""Mondrian over several QIDs: each requirement is judged on the groups of its own QID."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from adult import adult
from anonymize.outcomes import assert_holds_and_covers, cells_of
from anonymize.reference_mondrian import UnionFirst
from examples import examples
from masquerade.anonymize import CHOICES, Dimensions, Merge, judge_of_records, linked
from masquerade.anonymize.method import records_of
from masquerade.anonymize.mondrian.linked import certainty_lost, cut_linked
from masquerade.data import Outcome
from masquerade.errors import RequirementUnreachable
from masquerade.privacy import Conjunction, without_redundant
from strategies import CLASS, SENSITIVE, requirements, tables

PREFERENCES = st.sampled_from(["certainty", "widest", "class-first", "information-gain"])


@settings(max_examples=examples(100), deadline=None)
@given(
    tables(min_rows=2, max_rows=40),
    st.integers(1, 6),
    st.integers(1, 3),
    PREFERENCES,
    st.booleans(),
    st.sampled_from(["violating", "small"]),
)
def test_linked_records_of_one_qid_are_its_groups(
    table: mq.Table,
    k: int,
    l: int,  # noqa: E741 # the papers' name
    choose: str,
    strict: bool,
    merge: Merge,
) -> None:
    names = table.schema.names
    requirement = mq.KAnonymity(names, k) & mq.LDiversity(names, l, SENSITIVE)
    try:
        groups = mq.Mondrian(CLASS, choose, strict, merge=merge).run_on_table(table, requirement)
    except RequirementUnreachable:
        assume(False)
    records = records_of(table, requirement, CLASS)
    judge = judge_of_records(records, requirement.parts, CLASS, merge)
    dimensions = Dimensions(tuple(records.columns.values()))
    made = cut_linked(records, dimensions, {frozenset(names): judge}, CHOICES[choose], strict)
    columns, codes = zip(*made.values(), strict=True)
    linked = Outcome(columns, codes=dict(zip(made, codes, strict=True))).in_table(records)
    assert cells_of(linked) == cells_of(groups)


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), tables(min_rows=2, max_rows=50), PREFERENCES, st.booleans())
def test_every_requirement_holds_on_its_own_qid(
    data: st.DataObject, table: mq.Table, choose: str, strict: bool
) -> None:
    requirement = data.draw(requirements(table))
    try:
        outcome = mq.Mondrian(CLASS, choose, strict).run_on_table(table, requirement)
    except RequirementUnreachable:
        assume(False)
    assert_holds_and_covers(outcome, table, requirement)


@settings(max_examples=examples(50), deadline=None)
@given(tables(min_rows=4, max_rows=40, min_attributes=2), st.integers(1, 4), st.integers(1, 4), st.data())
def test_qids_without_a_common_attribute_do_not_disturb_each_other(
    table: mq.Table, k: int, other_k: int, data: st.DataObject
) -> None:
    names = table.schema.names
    at = data.draw(st.integers(1, len(names) - 1))
    first, second = mq.KAnonymity(names[:at], k), mq.KAnonymity(names[at:], other_k)
    alone = [column for each in (first, second) for column in mq.Mondrian().run_on_table(table, each).columns]
    assert cells_of(mq.Mondrian().run_on_table(table, first & second)) == cells_of(Outcome(tuple(alone)))


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), tables(min_rows=2, max_rows=50), PREFERENCES, st.booleans())
def test_no_cell_gets_wider_than_in_a_release_for_the_union_of_linked_qids(
    data: st.DataObject, table: mq.Table, choose: str, strict: bool
) -> None:
    requirement = data.draw(requirements(table))
    union = Conjunction(
        tuple(
            replace(part, qid=tuple(dict.fromkeys(name for each in parts for name in each.qid)))
            for parts in linked(without_redundant(requirement.parts))
            for part in parts
        )
    )
    settings = (CLASS, choose, strict)
    try:
        wide = mq.Mondrian(*settings).run_on_table(table, union)
    except RequirementUnreachable:
        assume(False)
    narrow = UnionFirst(*settings).run_on_table(table, requirement)
    for one, other in zip(narrow.columns, wide.columns, strict=True):
        assert (one.lo[one.codes] >= other.lo[other.codes]).all()
        assert (one.hi[one.codes] <= other.hi[other.codes]).all()
    assert lost(mq.Mondrian(*settings).run_on_table(table, requirement)) <= lost(narrow) <= lost(wide)


def lost(outcome: Outcome) -> float:
    """The certainty penalty of all cells."""
    return certainty_lost((each, np.bincount(each.codes, minlength=len(each.labels))) for each in outcome.columns)


def people_of_adult() -> mq.Table:
    complete = adult().arrow
    for name in ("occupation", "native-country"):
        complete = complete.filter(pc.not_equal(complete[name], "?"))
    return mq.Table(complete.slice(0, 8000), adult().schema)


def test_qids_of_adult_that_share_attributes_keep_more_than_their_union() -> None:
    """Cut together from the start, all of occupation is lost, and 0.32 of everything."""
    apart = [["age", "occupation"], ["occupation", "native-country"], ["education", "age"]]
    together = Conjunction(tuple(mq.KAnonymity(qid, 10) for qid in apart))
    union = mq.KAnonymity(["age", "education", "occupation", "native-country"], 10)
    ours, theirs = (lost(mq.Mondrian().run_on_table(people_of_adult(), each)) for each in (together, union))
    assert ours < theirs < 0.1 * 4 * 8000


def test_qids_that_share_little_are_cut_together_from_the_start() -> None:
    """Along the many attributes of their union little is left to cut."""
    requirement = mq.KAnonymity(["hours-per-week", "education", "occupation"], 10)
    requirement &= mq.KAnonymity(["age", "education", "race"], 10)
    table = people_of_adult()
    assert lost(mq.Mondrian().run_on_table(table, requirement)) < lost(UnionFirst().run_on_table(table, requirement))


def test_cells_that_may_violate_as_a_union_are_cut_together_from_the_start() -> None:
    """Boundaries of one QID, put together with those of another, leave groups that satisfy none."""
    flat = mq.Taxonomy.flat
    table = mq.Table(
        pa.table({"a": ["x", "y"] * 4, "b": ["s"] * 4 + ["t"] * 4, "c": ["u"] * 8}),
        mq.Schema(
            [
                mq.Attribute("a", taxonomy=flat(["x", "y"]), max_generalization=("x", "y")),
                mq.Attribute("b", taxonomy=flat(["s", "t"]), max_generalization=("s", "t")),
                mq.Attribute("c", taxonomy="flat"),
            ]
        ),
    )
    requirement = mq.KAnonymity(["a", "c"], 4) & mq.KAnonymity(["b", "c"], 4)
    release = mq.anonymize(table, requirement, mq.Mondrian())
    assert release.suppressed == 0
    assert Counter(release.table["a"].to_pylist()) == {"x": 4, "y": 4}
