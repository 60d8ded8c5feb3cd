"""Mondrian between parties gives what Mondrian gives on the joined table, for any split of the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net import kind_of
from masquerade.protocol import Contract, Proposal, proposal_of, terms_of
from masquerade.protocol.method import refuse
from masquerade.protocol.mondrian.levels import LevelCuts, ordered
from masquerade.protocol.mondrian.method import JointMondrian
from masquerade.protocol.tds.instruction_code import pack
from papers.paper_tables import JOB
from protocol.party_scripts import contract_for
from protocol.tampering import changing
from protocol.test_mashup import SCHEMA, bag, people, run_mashup

QID = SCHEMA.names[:4]


def contract_of(
    requirement: mq.Requirement,
    holders: dict[str, str],
    method: JointMondrian | None = None,
    sensitive: dict[str, str] | None = None,
    **terms: Any,
) -> Contract:
    return contract_for(requirement, holders, method or JointMondrian(), sensitive=sensitive, **terms)


def table_of(rows: list[dict[str, Any]]) -> mq.Table:
    return mq.Table(pa.Table.from_pylist(rows), SCHEMA)


@given(
    people,
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from(["certainty", "widest", "class-first", "information-gain"]),
    st.booleans(),
)
@settings(max_examples=examples(60))
def test_any_split_of_the_columns_gives_the_release_of_one_table(
    rows: list[dict[str, Any]], deal: list[int], k: int, strict: bool, choose: str, diverse: bool
) -> None:
    table = table_of(rows)
    k = min(k, len(rows))
    requirement: mq.Requirement = mq.KAnonymity(QID, k)
    if diverse and len({row["Class"] for row in rows}) == 2:
        requirement &= mq.LDiversity(QID, 2, "Class")
    deal[0], deal[1] = 0, 1  # two parties at least
    holders = {name: f"p{number}" for name, number in zip(SCHEMA.names, deal, strict=True)}
    method = JointMondrian(choose=choose, strict=strict)
    joined = run_mashup(table, contract_of(requirement, holders, method, class_name="Class"))
    alone = mq.anonymize(table, requirement, mq.Mondrian("Class", choose, strict), missing="drop", sensitive=["Class"])
    names = [name for name in alone.table.column_names if name in joined.table.column_names]
    assert bag(joined.table.select(names)) == bag(alone.table.select(names))


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_bids_are_in_the_order_of_their_scores(scores: list[float]) -> None:
    numbers = ordered(np.array(scores)).tolist()
    for one, first in zip(scores, numbers, strict=True):
        for other, second in zip(scores, numbers, strict=True):
            assert (one < other, one == other) == (first < second, first == second)


# --- what it refuses ---

SPLIT = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic"}


def test_values_elsewhere_with_qids_that_share_an_attribute_are_refused_with_what_to_do() -> None:
    requirement = mq.KAnonymity(QID[:2], 2) & mq.LDiversity(QID[1:], 2, "Disease")
    contract = contract_of(requirement, SPLIT, sensitive={"Disease": "clinic"})
    with pytest.raises(ParameterError, match=r"shares attributes with it: make both QIDs the same, or use tds"):
        refuse(JointMondrian().refusals(proposal_of(contract)))
    sizes = contract_of(mq.KAnonymity(QID[:2], 2) & mq.KAnonymity(QID[1:], 2), SPLIT)
    refuse(JointMondrian().refusals(proposal_of(sizes)))


@pytest.mark.parametrize("deal", ["0101", "0110", "0011", "0122"])
def test_qids_without_a_common_attribute_are_cut_one_after_the_other(deal: str) -> None:
    """As one table does; what another requirement covers does not count."""
    table = table_of(PEOPLE)
    requirement = mq.KAnonymity(QID[::2], 3) & mq.KAnonymity(QID[1::2], 5) & mq.KAnonymity(QID[1:2], 2)
    holders = {name: f"p{number}" for name, number in zip(QID, deal, strict=True)}
    contract = contract_of(requirement, holders)
    refuse(JointMondrian().refusals(proposal_of(contract)))
    alone = mq.anonymize(table, requirement, mq.Mondrian())
    assert bag(run_mashup(table, contract).table.select(QID)) == bag(alone.table.select(QID))


def test_information_about_no_class_is_refused() -> None:
    with pytest.raises(ParameterError, match='choose: "information-gain" needs a class attribute'):
        JointMondrian(choose="information-gain").fitted((mq.KAnonymity(QID, 2),), 0, None)


# --- a party that does not keep to it ---

PEOPLE = [
    {
        "Sex": "Male" if row % 2 else "Female",
        "Job": mq.Taxonomy(JOB).leaves[row % 3],
        "Salary": 10 + row,
        "Age": 20 + row % 7,
        "Town": "Ulm",
        "Class": "Y",
    }
    for row in range(24)
]
NUMBER = np.dtype("<u4")


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "an attribute of ours": (
        {"positions": lambda data: np.full(len(data) // 4, 1, NUMBER).tobytes()},
        "cut along an attribute that it does not hold",
    ),
    "groups that it did not win": ({"positions": lambda data: data + bytes(4)}, "cut other groups than the"),
    "a part of nobody": ({"parts": lambda _: pack(np.zeros(24, np.uint32), 2)}, "cut a group against the requirement"),
    "a group of one person": (
        {"parts": lambda _: pack(np.eye(1, 24, dtype=np.uint32)[0], 2)},
        "cut a group against the requirement",
    ),
    "more parts than records": (
        {"n_parts": lambda data: np.full(len(data) // 4, 2**31, NUMBER).tobytes()},
        "cut a group into more parts than it has records",
    ),
    "a single part": ({"n_parts": lambda data: np.ones(len(data) // 4, NUMBER).tobytes()}, "or into one"),
    "no parts at all": ({"parts": lambda _: b""}, "sent cuts that cannot be read"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_winner_that_cuts_what_was_not_agreed_is_named(lie: str) -> None:
    changes, said = LIES[lie]
    holders = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic"}
    contract = contract_of(mq.KAnonymity(QID, 3), holders)

    def lying(name: str, script: Any) -> Any:
        return changing(script, kind_of(LevelCuts), **changes) if name == "bank" else script

    with pytest.raises(PeerBrokeProtocol, match=said) as caught:
        run_mashup(table_of(PEOPLE), contract, around=lying)
    assert caught.value.peer == "bank"


# --- for a purpose ---


@given(people, st.lists(st.integers(0, 2), min_size=5, max_size=5), st.integers(3, 6), st.booleans())
@settings(max_examples=examples(10), deadline=None)
def test_agreed_weights_and_priorities_cut_as_on_one_table(
    rows: list[dict[str, Any]], deal: list[int], k: int, linked: bool
) -> None:
    schema = mq.Schema(
        replace(each, weight=weight) for each, weight in zip(SCHEMA, (1.0, 5.0, 0.0, 2.5, 1.0), strict=True)
    )
    table = mq.Table(pa.Table.from_pylist(rows), schema)
    k = min(k, len(rows))
    requirement: mq.Requirement = mq.KAnonymity(QID, k)
    if linked:
        requirement = mq.KAnonymity(QID[:3], k) & mq.KAnonymity(QID[2:], k)
    priority = {"spread": 1, "weight": 0.5, "gain": 1}
    deal[0], deal[1] = 0, 1
    holders = {name: f"p{number}" for name, number in zip(SCHEMA.names, deal, strict=True)}
    contract = contract_of(
        requirement, holders, JointMondrian(priority=priority), class_name="Class", attributes=terms_of(schema)
    )
    assert JointMondrian.of(contract).priority == priority
    joined = run_mashup(table, contract)
    alone = mq.anonymize(table, requirement, mq.Mondrian("Class", priority=priority), sensitive=["Class"])
    names = [name for name in alone.table.column_names if name in joined.table.column_names]
    assert bag(joined.table.select(names)) == bag(alone.table.select(names))
    name = "weighted_discernibility"
    assert joined.metrics[name] == pytest.approx(alone.metrics[name])


def test_a_priority_that_lacks_what_it_counts_is_refused() -> None:
    with pytest.raises(ParameterError, match="priority: gain needs a class attribute"):
        JointMondrian(priority={"gain": 1}).fitted((mq.KAnonymity(QID, 2),), 0, None)
    weightless = mq.Schema(replace(each, weight=0.0) for each in SCHEMA)
    proposal = Proposal((mq.KAnonymity(QID, 2),), schema=weightless)
    with pytest.raises(ParameterError, match="weight needs an attribute of the QID whose weight is above 0"):
        refuse(JointMondrian(priority={"weight": 1}).refusals(proposal))
