"""Cuts by the privacy fitness score, at public places, without a third party."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.privacy import MPrivacy
from masquerade.protocol import Contract
from masquerade.protocol.providers.criterion import Criterion
from masquerade.protocol.providers.cuts import HolderGroups
from masquerade.protocol.providers.messages import stacked
from masquerade.protocol.providers.third_party import public_settings
from masquerade.protocol.providers.third_party_counts import CountingJudge
from masquerade.protocol.providers.tree import partition
from protocol.test_collaborate import (
    HOUSES,
    QID,
    SCHEMA,
    collaborate,
    contract_of,
    houses,
    requirement_of,
    rows,
    table_of,
)


def result_of(script: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        next(script)
    return end.value.value


def by_counting(contract: Contract, tables: dict[str, mq.Table]) -> pa.Table:
    """The released cells and the provider of each record, where all records are at hand."""
    joined = mq.Table(stacked({name: each.arrow for name, each in tables.items()}, "provider"), SCHEMA)
    ((asked, judges),) = public_settings(contract, joined)
    groups = result_of(partition(asked, judges, judges, None))
    return pa.table({**HolderGroups(asked, groups).labels(), "provider": joined.arrow["provider"]})


@settings(max_examples=examples(12), deadline=None, phases=[Phase.generate])  # a session is too long to be shrunk
@given(
    tables=houses(3),
    k=st.integers(1, 5),
    l=st.integers(1, 3),
    m=st.integers(0, 2),
    strict=st.booleans(),
    aware=st.booleans(),
)
def test_the_release_is_that_of_one_table_cut_alike(
    tables: dict[str, mq.Table],
    k: int,
    l: int,  # noqa: E741 # the papers' name
    m: int,
    strict: bool,
    aware: bool,
) -> None:
    requirement = requirement_of(k, l)
    contract = contract_of(
        requirement, m, tuple(tables), choose="fitness", strict=strict, provider_aware=aware, keep_provider=True
    )
    try:
        release = collaborate(contract, tables).table
    except mq.AnswerIsNo:
        return
    assert mq.verify(release, MPrivacy(m, requirement, "provider")).holds
    assert rows(release.select([*QID, "provider"])) == rows(by_counting(contract, tables))


def test_the_fittest_cut_is_made_and_not_the_widest() -> None:
    """Jobs are the widest, and halve them badly; ages are cut evenly."""
    records = [("clerk", age, "cold") for age in range(32)] + [("smith", age, "cold") for age in (1, 30)] * 2
    tables = {name: table_of(records) for name in HOUSES[:2]}
    first = {
        choose: collaborate(
            contract_of(mq.KAnonymity(QID, k=8), 0, HOUSES[:2], choose=choose, strict=True, provider_aware=False),
            tables,
        ).table
        for choose in ("public", "fitness")
    }
    assert set(first["public"]["job"].to_pylist()) == {"clerk", "smith"}
    assert "any" in first["fitness"]["job"].to_pylist()


def test_the_score_is_that_of_the_definition() -> None:
    """(1 − α) records / k + α values / ℓ, with α = 0.8, times 5 · 6 · 2 · …, whatever is common."""
    criterion = Criterion(2, 0, 6, (("ill", 2),))
    record, (value,) = criterion.fitness_weights
    assert record / value == pytest.approx((0.2 / 6) / (0.8 / 2))
    counts, tallies = np.array([[4, 3], [9, 0]]), [np.array([[[4, 0], [2, 1]], [[9, 0], [0, 0]]])]
    assert criterion.fitness(counts, tallies).tolist() == [7 * record + 2 * value, 9 * record + value]


def test_no_cut_is_chosen_where_each_has_a_part_that_is_refused() -> None:
    judge = CountingJudge(Criterion(1, 0, 2), np.zeros(6, np.int64), [])
    one, rest = np.arange(1), np.arange(1, 6)
    even = [np.arange(3), np.arange(3, 6)]
    nobody = np.arange(0)
    assert result_of(judge.fittest([[[one, rest]], [[one, rest], even], [[np.arange(6), nobody], even]])) == [-1, 1, 0]


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        (
            mq.KAnonymity(QID, k=2) & mq.ConfidenceBounding(QID, confidence=0.9, sensitive="ill"),
            "choose: without a third party the fitness of confidence-bounding is not known",
        ),
        (mq.KAnonymity(QID, k=2) & mq.KAnonymity(["age"], k=9), "choose: not possible with QIDs that share attributes"),
    ],
)
def test_what_has_no_fitness_here_is_refused(requirement: mq.Requirement, told: str) -> None:
    tables = {name: table_of([("clerk", 30, "cold"), ("smith", 40, "ague")] * 9) for name in HOUSES[:2]}
    with pytest.raises(mq.BadInput, match=told):
        collaborate(contract_of(requirement, 0, HOUSES[:2], choose="fitness", provider_aware=False), tables)
