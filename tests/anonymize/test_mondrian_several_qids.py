"""Mondrian over several QIDs: each requirement is judged on the groups of its own QID."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import masquerade as mq
from anonymize.test_mondrian import cells_of
from examples import examples
from masquerade.anonymize.mondrian.axes import axes_of
from masquerade.anonymize.mondrian.choices import CHOICES
from masquerade.anonymize.mondrian.judge import Judge, Merge
from masquerade.anonymize.mondrian.linked_qids import cut_linked
from masquerade.anonymize.outcome import Outcome
from masquerade.errors import RequirementUnreachable
from strategies import CLASS, SENSITIVE, requirements, tables

PREFERENCES = st.sampled_from(["certainty", "widest", "information-gain"])


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
        groups = mq.Mondrian(CLASS, choose, strict, merge=merge).run(table, requirement)
    except RequirementUnreachable:
        assume(False)
    judge = Judge(
        requirement.parts, {SENSITIVE: table.coded(SENSITIVE)}, len(table), table.coded(CLASS), merge
    )
    axes = axes_of(table.columns(names))
    linked = cut_linked(axes, {frozenset(names): judge}, CHOICES[choose], len(table), strict)
    assert cells_of(Outcome(linked)) == cells_of(groups)


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), tables(min_rows=2, max_rows=50), PREFERENCES, st.booleans())
def test_every_requirement_holds_on_its_own_qid(
    data: st.DataObject, table: mq.Table, choose: str, strict: bool
) -> None:
    requirement = data.draw(requirements(table))
    try:
        outcome = mq.Mondrian(CLASS, choose, strict).run(table, requirement)
    except RequirementUnreachable:
        assume(False)
    column_of = {column.name: column for column in outcome.columns}
    originals = {column.name: column for column in table.columns(column_of)}
    for name, column in column_of.items():
        for code, rank in zip(column.codes, originals[name].ranks, strict=True):
            assert column.lo[code] <= rank < column.hi[code]
    diseases = table.arrow[SENSITIVE].to_pylist()
    for part in requirement.parts:
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for row, disease in enumerate(diseases):
            cells = tuple(column_of[name].labels[column_of[name].codes[row]] for name in part.qid)
            groups[cells].append(disease)
        for members in groups.values():
            if isinstance(part, mq.KAnonymity):
                assert len(members) >= part.k
            else:
                assert isinstance(part, mq.LDiversity)
                assert len(Counter(members)) >= part.l


@settings(max_examples=examples(50), deadline=None)
@given(tables(min_rows=4, max_rows=40, min_attributes=2), st.integers(1, 4), st.integers(1, 4), st.data())
def test_qids_without_a_common_attribute_do_not_disturb_each_other(
    table: mq.Table, k: int, other_k: int, data: st.DataObject
) -> None:
    names = table.schema.names
    at = data.draw(st.integers(1, len(names) - 1))
    first, second = mq.KAnonymity(names[:at], k), mq.KAnonymity(names[at:], other_k)
    alone = [column for each in (first, second) for column in mq.Mondrian().run(table, each).columns]
    assert cells_of(mq.Mondrian().run(table, first & second)) == cells_of(Outcome(tuple(alone)))
