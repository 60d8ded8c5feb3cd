"""Boundaries between parties: the release of one table with the same boundaries, for any split of the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import reachable_rows, start_groups
from masquerade.crypto import unpack
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net import kind_of
from masquerade.net.memory import Wire
from masquerade.protocol import Contract, SessionMethod, proposal_of, terms_of
from masquerade.protocol.boundaries import MostGroups, Reachable, StartValues
from masquerade.protocol.dka.side import ChiShare
from masquerade.protocol.method import refuse
from masquerade.protocol.mondrian.method import JointMondrian
from masquerade.protocol.tds.method import JointSpecialization
from papers.paper_tables import JOB
from protocol.party_scripts import contract_for
from protocol.tampering import changing
from protocol.test_mashup import SCHEMA, bag, run_mashup

QID = SCHEMA.names[:4]
NESTED = ("Blue-collar", "Technical", "White-collar")  # one boundary above another
BOUNDARIES: dict[str, dict[str, Any]] = {
    "Sex": {"max_generalization": ("Male", "Female")},
    "Job": {"max_generalization": NESTED},
    "Salary": {"max_width": 12},
    "Age": {"max_width": 7},
}


def bounded(names: tuple[str, ...]) -> mq.Schema:
    return mq.Schema([replace(each, **BOUNDARIES[each.name]) if each.name in names else each for each in SCHEMA])


def contract_of(
    requirement: mq.Requirement, holders: dict[str, str], schema: mq.Schema, method: SessionMethod, **terms: Any
) -> Contract:
    sensitive = {name: holder for name, holder in holders.items() if name == "Ill"}
    others = {name: holder for name, holder in holders.items() if name != "Ill"}
    return contract_for(requirement, others, method, sensitive=sensitive, attributes=terms_of(schema), **terms)


def alone(method: SessionMethod) -> Any:
    return mq.TopDownSpecialization() if isinstance(method, JointSpecialization) else mq.Mondrian()


records = st.lists(
    st.fixed_dictionaries(
        {
            "Sex": st.sampled_from(["Male", "Female"]),
            "Job": st.sampled_from(mq.Taxonomy(JOB).leaves),
            "Salary": st.integers(10, 60),
            "Age": st.integers(18, 40),
            "Town": st.sampled_from(["Ulm", "Graz"]),
            "Ill": st.sampled_from(["flu", "cold", "cough"]),
        }
    ),
    min_size=4,
    max_size=24,
)
METHODS = {"tds": JointSpecialization(argmax="plain"), "mondrian": JointMondrian()}


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=records,
    deal=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    limited=st.lists(st.sampled_from(QID), min_size=1, unique=True),
    k=st.integers(1, 4),
    kind=st.sampled_from(["one QID", "linked QIDs", "apart", "diverse", "close", "close in order"]),
    name=st.sampled_from([*METHODS]),
)
def test_any_split_gives_the_release_of_one_table_within_the_boundaries(
    rows: list[dict[str, Any]], deal: list[int], limited: list[str], k: int, kind: str, name: str
) -> None:
    schema, method = bounded(tuple(limited)), METHODS[name]
    table = mq.Table(pa.Table.from_pylist(rows), schema)
    requirement: mq.Requirement = mq.KAnonymity(QID, k)
    if kind == "linked QIDs":
        requirement = mq.KAnonymity(QID[:3], k) & mq.KAnonymity(QID[2:], 2)
    elif kind == "apart":
        requirement = mq.KAnonymity(QID[:2], k) & mq.KAnonymity(QID[2:], 2)
    elif kind == "diverse":
        requirement &= mq.LDiversity(QID, 2, "Ill")
    elif kind.startswith("close"):
        distance: Any = "ordered" if kind == "close in order" else "equal"
        requirement = mq.KAnonymity(QID, max(k, 2)) & mq.TCloseness(QID, 0.4, "Ill", distance)
    deal[0], deal[1] = 0, 1
    holders = {each: f"p{number}" for each, number in zip([*SCHEMA.names, "Ill"], deal, strict=True)}
    contract = contract_of(requirement, holders, schema, method)
    sensitive = kind == "diverse" or kind.startswith("close")
    one = replace(alone(method), merge="small") if sensitive and name == "mondrian" else alone(method)
    if sensitive and name == "mondrian":
        contract = contract_of(requirement, holders, schema, JointMondrian(merge="small"))
    try:
        expected = mq.anonymize(table, requirement, one, missing="drop", sensitive=["Ill"])
    except mq.RequirementUnreachable:
        with pytest.raises(mq.RequirementUnreachable):
            run_mashup(table, contract)
        return
    joined = run_mashup(table, contract)
    names = [*SCHEMA.names, "Ill"]
    assert bag(joined.table.select(names)) == bag(expected.table.select(names))
    assert joined.suppressed == expected.suppressed
    assert joined.rows == len(table)


# --- what is opened ---

PEOPLE = [
    {
        "Sex": "Male" if row % 2 or row % 5 == 4 else "Female",
        "Job": mq.Taxonomy(JOB).leaves[row % 5],
        "Salary": 10 + row % 3,
        "Age": 20 + row % 7,
        "Town": "Ulm",
        "Ill": ("flu", "cold", "cough")[row % 3],
    }
    for row in range(24)
]
SPLIT = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic", "Ill": "clinic"}


def a_session(limited: tuple[str, ...], holders: dict[str, str], k: int = 5) -> tuple[mq.Table, Contract]:
    schema = bounded(limited)
    table = mq.Table(pa.Table.from_pylist(PEOPLE), schema)
    return table, contract_of(mq.KAnonymity(QID, k), holders, schema, JointMondrian())


def test_the_opened_bits_say_who_is_out_and_nothing_else() -> None:
    """XOR of both shares is OUT's complement in the common order, however often it is run."""
    table, contract = a_session(("Sex", "Job"), SPLIT)
    wire = Wire()
    release = run_mashup(table, contract, wire=wire)
    shares = [
        unpack(np.frombuffer(msgspec.msgpack.decode(each.data)["bits"], np.uint8), len(PEOPLE))
        for each in wire.heard
        if each.kind == kind_of(ChiShare)
    ]
    stays = reachable_rows(contract.parts, table.columns(QID), {}, len(table))
    assert len(shares) == 2
    assert int((shares[0] ^ shares[1]).sum()) == stays.size == release.table.num_rows
    assert 0 < release.suppressed == len(PEOPLE) - stays.size


def test_of_t_closeness_each_round_opens_who_leaves_in_it_and_nothing_else() -> None:
    """Those who left change what the others are compared with: one more round, until all stay."""
    near = mq.KAnonymity(QID, 4) & mq.TCloseness(QID, 0.25, "Ill")
    schema, random = bounded(("Sex", "Job")), np.random.default_rng(5)
    people = [
        {
            **each,
            "Sex": str(random.choice(["Male", "Female"])),
            "Ill": str(random.choice(["flu", "cold", "cough"], p=[0.6, 0.3, 0.1])),
        }
        for each in PEOPLE * 2
    ]
    table = mq.Table(pa.Table.from_pylist(people), schema)
    contract = contract_of(near, SPLIT, schema, JointMondrian(merge="small"))
    wire = Wire()
    release = run_mashup(table, contract, wire=wire)
    shares = [msgspec.msgpack.decode(each.data)["bits"] for each in wire.heard if each.kind == kind_of(ChiShare)]
    left: Any = np.arange(len(table))
    expected: list[list[bool]] = []
    while not expected or not all(expected[-1]):
        coded = table.coded("Ill").of_rows(left)
        labels, n_groups = start_groups([column.of_rows(left) for column in table.columns(QID)], left.size)
        histograms = coded.histograms(labels, n_groups)
        good = (histograms.sum(axis=1) >= 4) & near.parts[1].holds(histograms, coded.histogram(), coded.labels)
        expected.append(sorted(good[labels].tolist()))
        left = left[good[labels]]
    opened = [
        sorted((unpack(np.frombuffer(one, np.uint8), len(each)) ^ unpack(np.frombuffer(two, np.uint8), len(each))) > 0)
        for one, two, each in zip(shares[::2], shares[1::2], expected, strict=True)
    ]
    assert opened == expected
    assert len(expected) > 2
    assert release.table.num_rows == left.size


def test_one_party_with_all_boundaries_decides_without_a_test() -> None:
    table, contract = a_session(("Job", "Age"), SPLIT)
    wire = Wire()
    run_mashup(table, contract, wire=wire)
    kinds = {each.kind for each in wire.heard}
    assert kind_of(Reachable) in kinds
    assert kind_of(ChiShare) not in kinds
    assert {each.sender for each in wire.heard if each.kind == kind_of(StartValues)} == {"clinic"}


def test_without_boundaries_nothing_is_tested() -> None:
    table, contract = a_session((), SPLIT)
    wire = Wire()
    run_mashup(table, contract, wire=wire)
    assert not {kind_of(Reachable), kind_of(ChiShare), kind_of(StartValues)} & {each.kind for each in wire.heard}


# --- a party that does not keep to it ---


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "other attributes": ({"counts": lambda counts: (*counts, 1)}, "starts with other attributes than Job"),
    "no values": ({"counts": lambda counts: (0,)}, "values of Job"),
    "broken": ({"values": lambda values: (b"\x07",)}, "sent a broken start of Job"),
    "a value of nobody": ({"counts": lambda counts: (counts[0] + 1,)}, "Job"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_start_is_named(lie: str) -> None:
    table, contract = a_session(("Sex", "Job"), SPLIT)
    changes, words = LIES[lie]
    with pytest.raises(PeerBrokeProtocol, match=words):
        run_mashup(
            table,
            contract,
            around=lambda name, script: (
                changing(script, kind_of(StartValues), **changes) if name == "clinic" else script
            ),
        )


@pytest.mark.parametrize("told", [(0,), (99,), (2, 2)])
def test_a_number_of_groups_that_nobody_can_have_is_named(told: tuple[int, ...]) -> None:
    table, contract = a_session(("Sex", "Job"), SPLIT)
    with pytest.raises(PeerBrokeProtocol, match=r"clinic: told of .* groups; at most"):
        run_mashup(
            table,
            contract,
            around=lambda name, script: (
                changing(script, kind_of(MostGroups), most=lambda _: told) if name == "clinic" else script
            ),
        )


# --- what is refused ---


@pytest.mark.parametrize("method", [JointSpecialization(), JointMondrian()], ids=["tds", "mondrian"])
def test_requirements_that_no_shared_count_tests_are_refused_with_the_reason(method: SessionMethod) -> None:
    schema = bounded(("Sex", "Job"))
    near: mq.Requirement = mq.KAnonymity(QID, 2)
    near &= mq.TCloseness(QID, 0.4, "Ill", "hierarchical", taxonomy=["flu;ill", "cold;ill", "cough;ill"])
    contract = contract_of(near, SPLIT, schema, method)
    with pytest.raises(ParameterError, match="t-closeness leaves within boundaries of several parties' attributes"):
        refuse(method.refusals(proposal_of(contract)))
