"""Mondrian for a purpose: the overall score against a plain one, what it refuses, and where it is tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from anonymize.outcomes import cells_of
from anonymize.reference_mondrian import Plain
from anonymize.test_mondrian import diverse
from examples import examples
from job.job_files import JOB, changed, write_job
from masquerade.anonymize.auto import candidates
from masquerade.jobs.plan import Plan
from strategies import CLASS, SENSITIVE, tables

PRIORITIES = st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 3) for name in ("spread", "weight", "gain")}
).filter(lambda wanted: any(wanted.values()))


def weighted(table: mq.Table, weights: list[int]) -> mq.Table:
    heavier = [replace(each, weight=weight) for each, weight in zip(table.schema.attributes, weights, strict=False)]
    return mq.Table(table.arrow, mq.Schema(heavier))


@settings(max_examples=examples(100), deadline=None)
@given(
    tables(min_rows=2, max_rows=40),
    st.integers(1, 6),
    st.integers(1, 3),
    PRIORITIES,
    st.lists(st.integers(0, 3), min_size=8, max_size=8).filter(lambda weights: weights[0] > 0),
)
def test_the_release_of_a_plain_prioritised_mondrian(
    table: mq.Table,
    k: int,
    l: int,  # noqa: E741 # the papers' name
    priority: dict[str, int],
    weights: list[int],
) -> None:
    assume(diverse(table, list(range(len(table))), k, l))
    heavy = weighted(table, weights)
    names = heavy.schema.names
    requirement = mq.KAnonymity(names, k) & mq.LDiversity(names, l, SENSITIVE)
    found = mq.Mondrian(CLASS, priority=priority).run_on_table(heavy, requirement)
    plain = Plain(heavy.columns(names), lambda group: diverse(heavy, group, k, l), priority=priority)
    plain.weights = [attribute.weight for attribute in heavy.schema]
    plain.classes = heavy.arrow[CLASS].to_pylist()
    assert cells_of(found) == plain.release()


def ages_and_heights(age: float, height: float) -> mq.Table:
    frame = pa.table({"age": [20, 30, 40, 50] * 4, "height": [150] * 4 + [160] * 4 + [170] * 4 + [185] * 4})
    return mq.Table(
        frame,
        mq.Schema([mq.Attribute("age", "continuous", weight=age), mq.Attribute("height", "continuous", weight=height)]),
    )


@pytest.mark.parametrize(
    ("weights", "kept", "lost"), [((1, 0), "age", "height"), ((0, 1), "height", "age")], ids=["age", "height"]
)
def test_the_heavier_attribute_is_kept(weights: tuple[int, int], kept: str, lost: str) -> None:
    table = ages_and_heights(*weights)
    release = mq.anonymize(table, mq.KAnonymity(["age", "height"], 4), mq.Mondrian(priority={"spread": 1, "weight": 1}))
    assert release.summary["purpose"] == {"weighted_overlap": 4 * 4 * 4}
    assert len(set(release.table[kept].to_pylist())) == 4
    assert len(set(release.table[lost].to_pylist())) == 1


def test_weights_count_by_their_proportions_alone() -> None:
    priority = {"spread": 2, "weight": 1}
    requirement = mq.KAnonymity(["age", "height"], 2)
    small, large = (
        mq.Mondrian(priority=priority).run_on_table(ages_and_heights(*weights), requirement)
        for weights in ((0.1, 0.3), (1, 3))
    )
    assert cells_of(small) == cells_of(large)


def test_a_priority_of_the_spread_alone_is_the_widest() -> None:
    table, requirement = ages_and_heights(1, 5), mq.KAnonymity(["age", "height"], 2)
    one, other = mq.Mondrian(priority={"spread": 3}), mq.Mondrian(choose="widest")
    assert cells_of(one.run_on_table(table, requirement)) == cells_of(other.run_on_table(table, requirement))


@pytest.mark.parametrize(
    ("priority", "choose", "message"),
    [
        ({"gain": 1}, "certainty", "priority: gain needs a class attribute; leave it out, or name one"),
        ({"weight": 1}, "certainty", "priority: weight needs an attribute of the QID whose weight is above 0"),
        ({"spread": 1}, "widest", 'priority: priority says which cut is made; leave choose = "widest" out'),
    ],
    ids=["no class", "all weights are 0", "chosen twice"],
)
def test_what_a_priority_needs(priority: dict[str, int], choose: str, message: str) -> None:
    method = mq.Mondrian(choose=choose, priority=priority)
    with pytest.raises(mq.ParameterError) as error:
        mq.anonymize(ages_and_heights(0, 0), mq.KAnonymity(["age", "height"], 2), method)
    assert error.value.lines == (message,)


@pytest.mark.parametrize("priority", [{}, {"spread": 0}, {"spread": -1}, {"width": 1}, {"spread": "much"}, 1, "spread"])
def test_a_priority_that_is_none(priority: object) -> None:
    with pytest.raises(mq.ParameterError, match="priority parameter of Mondrian must be a table of numbers"):
        mq.Mondrian(priority=priority)  # type: ignore[arg-type] # wrong


def test_it_is_worth_trying_where_weights_differ() -> None:
    requirement = mq.KAnonymity(["age", "height"], 2)

    def tried(table: mq.Table) -> list[object]:
        found = candidates([mq.Mondrian], requirement, table.schema).fitting
        return [each.settings().get("priority") for each in found]

    assert {"spread": 1, "weight": 1} in tried(ages_and_heights(1, 2))
    assert set(map(str, tried(ages_and_heights(2, 2)))) == {"None"}


def test_a_job_sets_weights_and_priority(tmp_path: Path) -> None:
    text = changed("[attributes.age]", "[attributes.age]\nweight = 0")
    text += '[algorithm]\nname = "mondrian"\npriority = { spread = 1, weight = 0.5 }\n'
    plan = Plan(write_job(tmp_path, text))
    schema = plan.schema()
    found = plan.algorithm(schema)
    plan.settle()
    assert found == mq.Mondrian("income", priority={"spread": 1, "weight": 0.5})
    assert schema["age"].weight == 0


def test_between_parties_a_job_says_where_the_key_belongs(tmp_path: Path) -> None:
    parties = '[parties.a]\nsource = "a.csv"\nid = "ssn"\n[parties.b]\nsource = "b.csv"\nid = "ssn"\n'
    text = JOB.replace(JOB[JOB.index("[data]") : JOB.index("[attributes")], "") + parties
    text += '[algorithm]\nname = "mondrian"\nworkload = "queries.sql"\n'
    with pytest.raises(mq.JobError, match=r"algorithm.workload: belongs to mondrian on one table"):
        Plan(write_job(tmp_path, text)).settle()
