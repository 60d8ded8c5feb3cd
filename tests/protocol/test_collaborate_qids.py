"""Collaborations over several QIDs: each requirement is judged on the groups of its own QID."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.net.memory import run_together
from masquerade.privacy import MPrivacy
from masquerade.protocol import ASSEMBLER, EVERYBODY, Contract
from masquerade.protocol.providers.method import Collaboration
from masquerade.protocol.providers.tree import Group, Settings, linked
from protocol.party_scripts import contract_for, session_scripts
from protocol.test_collaborate import HOUSES, JOBS, made_both_ways, rows

ATTRIBUTES = ("job", "age", "town")
SCHEMA = mq.Schema(
    [
        mq.Attribute("job", taxonomy=JOBS),
        mq.Attribute("age", "continuous"),
        mq.Attribute("town", "continuous", lower=0, upper=8),
        mq.Attribute("ill"),
    ]
)
QIDS = ((("age",), ("job", "town")), (("job", "age"), ("age", "town")), (ATTRIBUTES, ("town",)))


def contract_of(requirement: mq.Requirement, m: int, parties: Sequence[str], mode: str, **terms: Any) -> Contract:
    return contract_for(
        requirement,
        dict.fromkeys(ATTRIBUTES, EVERYBODY),
        Collaboration(third_party=mode, choose="public", **terms),
        sensitive={"ill": EVERYBODY},
        parties=tuple(parties),
        provider="provider",
        m=m,
        keep_provider=True,
    )


def collaborate(requirement: mq.Requirement, m: int, tables: dict[str, mq.Table], mode: str) -> Any:
    return run_together(session_scripts(contract_of(requirement, m, [*tables], mode), tables, SCHEMA))[ASSEMBLER]


def dealt(sizes: Sequence[int], seed: int = 3) -> dict[str, mq.Table]:
    chance = np.random.default_rng(seed)
    return {
        name: mq.Table(
            pa.table(
                {
                    "job": chance.choice(JOBS.leaves, n),
                    "age": chance.integers(18, 40, n),
                    "town": chance.integers(0, 8, n),
                    "ill": chance.choice(["ague", "cold"], n),
                }
            ),
            SCHEMA,
        )
        for name, n in zip(HOUSES, sizes, strict=False)
    }


@pytest.mark.parametrize("qids", QIDS, ids=["apart", "linked", "nested"])
@settings(max_examples=examples(12), deadline=None, phases=[Phase.generate])  # a session is too long to be shrunk
@given(
    sizes=st.lists(st.integers(5, 30), min_size=2, max_size=3),
    seed=st.integers(0, 99),
    ks=st.tuples(st.integers(2, 9), st.integers(2, 9)),
    m=st.integers(0, 2),
    strict=st.booleans(),
    shares=st.booleans(),
)
def test_without_a_third_party_the_release_is_the_same(
    qids: Any, sizes: list[int], seed: int, ks: tuple[int, int], m: int, strict: bool, shares: bool
) -> None:
    tables = dealt(sizes, seed)
    requirement: mq.Requirement = mq.KAnonymity(qids[0], k=ks[0]) & mq.KAnonymity(qids[1], k=ks[1])
    if shares:
        requirement = requirement & mq.ConfidenceBounding(qids[1], confidence=0.9, sensitive="ill")
    contracts = [contract_of(requirement, m, [*tables], mode, strict=strict) for mode in ("trusted", "secure")]
    trusted, secure = made_both_ways(contracts, tables, SCHEMA)
    if isinstance(trusted, str):
        assert secure == trusted
        return
    assert rows(secure.table) == rows(trusted.table)
    assert mq.verify(secure.table, MPrivacy(m, requirement, "provider")).holds


def test_qids_without_a_common_attribute_are_cut_as_if_alone() -> None:
    tables = dealt((60, 50, 40))
    first, second = mq.KAnonymity(["age"], k=10), mq.KAnonymity(["job", "town"], k=4)
    together = collaborate(first & second, 1, tables, "trusted").table
    for alone in (first, second):
        release = collaborate(alone, 1, tables, "trusted").table
        assert rows(release.select([*alone.qid, "provider"])) == rows(together.select([*alone.qid, "provider"]))


def test_the_largest_k_is_not_asked_of_a_qid_that_shares_an_attribute() -> None:
    tables = dealt((60, 60, 60))
    requirement = mq.KAnonymity(["job", "age"], k=40) & mq.KAnonymity(["age", "town"], k=5)
    release = collaborate(requirement, 0, tables, "trusted").table
    sizes = Counter(zip(release["age"].to_pylist(), release["town"].to_pylist(), strict=True))
    assert 5 <= min(sizes.values()) < 40


def test_groups_that_may_share_records_are_linked() -> None:
    nobody = np.zeros(0, np.intp)

    def group(qid: int, *cells: tuple[int, int]) -> Group:
        return Group(cells, nobody, True, frozenset(), qid)

    low, high, whole = (0, 4), (4, 8), (0, 8)
    asked = Settings((), (), (frozenset({0, 1}), frozenset({1, 2})), (1, 1))
    groups = [
        group(0, low, low),
        group(0, high, low),
        group(0, whole, high),
        group(1, whole, low, low),
        group(1, whole, high, low),
    ]
    assert linked(asked, 1, groups) == [[0, 1, 3], [2, 4]]
    assert linked(asked, 0, groups) == [[0], [1], [2]], "only one QID has it"
