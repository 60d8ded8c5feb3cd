"""Mondrian between parties over QIDs that share attributes: the release of one table, for any split of the columns."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from anonymize.reference_mondrian import UnionFirst
from examples import examples
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message
from masquerade.privacy import Conjunction
from masquerade.protocol import proposal_of
from masquerade.protocol.method import refuse
from masquerade.protocol.mondrian.levels import LevelCuts, write_numbers
from masquerade.protocol.mondrian.linked import BestAttributes, EqualCells
from masquerade.protocol.mondrian.method import JointMondrian
from papers.paper_tables import JOB
from protocol.tampering import tampering
from protocol.test_joint_mondrian import PEOPLE, contract_of, table_of
from protocol.test_mashup import SCHEMA, bag, people, run_mashup

NAMES = SCHEMA.names[:4]
QIDS = [
    (NAMES[:2], NAMES[1:3]),  # a chain, and an attribute in none
    (NAMES[:2], NAMES[1:3], NAMES[2:]),
    (NAMES[:3], NAMES[1:]),
    (NAMES, NAMES[:2]),  # one inside the other
    (NAMES[:2], NAMES[1:3], NAMES[3:]),  # and one apart
]


@given(
    people,
    st.lists(st.integers(0, 2), min_size=5, max_size=5),
    st.sampled_from(QIDS),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
    st.booleans(),
    st.sampled_from(["certainty", "widest", "class-first", "information-gain"]),
    st.booleans(),
)
@settings(max_examples=examples(60))
def test_any_split_of_the_columns_gives_the_release_of_one_table(
    rows: list[dict[str, Any]],
    deal: list[int],
    qids: tuple[tuple[str, ...], ...],
    ks: list[int],
    strict: bool,
    choose: str,
    diverse: bool,
) -> None:
    table = table_of(rows)
    parts: list[Any] = [mq.KAnonymity(qid, min(k, len(rows))) for qid, k in zip(qids, ks, strict=False)]
    if diverse and len({row["Class"] for row in rows}) == 2:
        parts.append(mq.LDiversity(qids[0], 2, "Class"))  # which every party holds
    requirement = Conjunction(tuple(parts))
    deal[0], deal[1] = 0, 1  # two parties at least
    holders = {name: f"p{number}" for name, number in zip(SCHEMA.names, deal, strict=True)}
    method = JointMondrian(choose=choose, strict=strict)
    contract = contract_of(requirement, holders, method, class_name="Class")
    refuse(method.refusals(proposal_of(contract)))
    joined = run_mashup(table, contract)
    alone = mq.anonymize(table, requirement, UnionFirst("Class", choose, strict), missing="drop", sensitive=["Class"])
    names = [name for name in alone.table.column_names if name in joined.table.column_names]
    assert bag(joined.table.select(names)) == bag(alone.table.select(names))


# --- a party that does not keep to it ---

SPLIT = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic"}
DRAWN = random.Random(0)  # people whose groups over the union of the QIDs leave much to cut, also along bank's
CROWD = [
    {
        **PEOPLE[0],
        "Sex": DRAWN.choice(["Male", "Female"]),
        "Job": DRAWN.choice(mq.Taxonomy(JOB).leaves),
        "Salary": DRAWN.randrange(10, 30),
        "Age": DRAWN.randrange(20, 40),
    }
    for _ in range(30)
]
TOGETHER = mq.KAnonymity(NAMES[:2], 3) & mq.KAnonymity(NAMES[1:4], 12)
LIES: dict[str, tuple[type, dict[str, Any], str]] = {
    "cells of other attributes": (
        EqualCells,
        {"counts": lambda counts: counts[1:]},
        "told cells of other attributes than the 2 that it holds",
    ),
    "more cells than groups": (
        EqualCells,
        {"counts": lambda counts: (1000, *counts[1:])},
        "told 1000 different cells of",
    ),
    "cells of other groups": (
        EqualCells,
        {"cells": lambda cells: (cells[0] + bytes(9), *cells[1:])},
        "told cells that cannot be read",
    ),
    "attributes of groups that it did not win": (
        BestAttributes,
        {"positions": lambda data: data + bytes(4)},
        "named attributes of other groups than the",
    ),
    "an attribute of ours": (
        BestAttributes,
        {"positions": lambda data: write_numbers(np.full(len(data) // 4, 1))},
        "cut along an attribute that it does not hold",
    ),
    "an attribute of another QID": (
        BestAttributes,
        {"positions": lambda data: write_numbers(np.full(len(data) // 4, 2))},
        "cut a group along an attribute that its QID does not have",
    ),
    "an attribute that there is not": (
        BestAttributes,
        {"positions": lambda data: write_numbers(np.full(len(data) // 4, 9))},
        "cut along an attribute that it does not hold",
    ),
    "cuts that were not settled": (LevelCuts, {"positions": lambda data: data + bytes(4)}, "cut other groups than"),
    "cuts along another attribute": (
        LevelCuts,
        {"positions": lambda data: write_numbers(np.full(len(data) // 4, 3))},
        "cut along other attributes than those it named",
    ),
    "a part of nobody": (LevelCuts, {"parts": lambda data: bytes(len(data))}, "cut a group against the requirement"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_and_its_teller_named(lie: str) -> None:
    message, changes, problem = LIES[lie]
    table = table_of(CROWD)
    contract = contract_of(TOGETHER, SPLIT)

    def lying(name: str, script: Any) -> Any:
        return lying_from(script, EqualCells, message, changes) if name == "bank" else script

    with pytest.raises(PeerBrokeProtocol, match=problem) as caught:
        run_mashup(table, contract, around=lying)
    assert caught.value.peer == "bank"


def lying_from(script: Any, start: type, kind: type, changes: dict[str, Any]) -> Any:
    """A party that changes its messages of one kind from its first of another kind on."""
    begun = False

    def changed(message: Message) -> Message:
        nonlocal begun
        begun = begun or isinstance(message, start)
        if not (begun and isinstance(message, kind)):
            return message
        told = {field: change(getattr(message, field)) for field, change in changes.items()}
        return msgspec.structs.replace(message, **told)

    return tampering(script, changed)


def test_parties_lose_no_more_than_by_the_union_of_the_qids() -> None:
    lost = [
        run_mashup(table_of(CROWD), contract_of(each, SPLIT)).attribute_losses
        for each in (TOGETHER, mq.KAnonymity(NAMES[:4], 12))
    ]
    assert all(lost[0][name] <= lost[1][name] for name in NAMES)
    assert sum(lost[0].values()) < sum(lost[1].values())
