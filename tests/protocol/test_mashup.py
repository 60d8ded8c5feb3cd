"""The mashup gives what one trusted table gives, for any split of the columns over any number of parties."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import VerifiedRelease
from masquerade.data import Records
from masquerade.engine import Engine
from masquerade.errors import DataError, NoCommonRecords, PeerBrokeProtocol
from masquerade.forms import parameters_of
from masquerade.net import kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import ASSEMBLER, Assembly, Contract, OwnPart, identifiers
from masquerade.protocol.assembling import assemble
from masquerade.protocol.comparing.argmax import BestScore
from masquerade.protocol.hand_in import own_part
from masquerade.protocol.method import Judge
from masquerade.protocol.tds.method import JointSpecialization
from masquerade.utility import SCORES, error_of, release_error
from papers.paper_tables import JOB, SEX, loan_table
from protocol.party_scripts import contract_for, party_script
from protocol.tampering import changing


def contract_of(
    requirement: mq.Requirement,
    holders: dict[str, str],
    *,
    target: str | None = "Class",
    sensitive: dict[str, str] | None = None,
    **terms: Any,
) -> Contract:
    own = {each.name for each in parameters_of(JointSpecialization)}
    method = JointSpecialization(**{name: terms.pop(name) for name in own & {*terms}})
    return contract_for(requirement, holders, method, sensitive=sensitive, class_name=target, **terms)


def run_mashup(
    table: mq.Table,
    contract: Contract,
    *,
    wire: Wire | None = None,
    uncommon: int = 0,
    judge: Judge | None = None,
    on_joined: Callable[[str], Callable[[OwnPart], None]] | None = None,
    around: Callable[[str, Any], Any] = lambda _, script: script,
    engines: Mapping[str, Engine] | None = None,
    in_chunks: Callable[[str, mq.Table], Records | None] = lambda _name, _table: None,
) -> VerifiedRelease:
    """Deal the columns out, give every party its people in an order of its own, and run all scripts."""
    scripts: dict[str, Any] = {ASSEMBLER: assemble(Assembly(contract, judge=judge))}
    ids = pa.array([f"id-{row}" for row in range(len(table))])
    joined = table.arrow.append_column("id", ids)
    for number, name in enumerate(contract.parties):
        own = joined.select([*contract.columns_needed(name), "id"])
        strangers = own.slice(0, min(uncommon, len(table)))
        renamed = pa.array([f"only-{name}-{row}" for row in range(strangers.num_rows)], pa.string())
        strangers = strangers.set_column(strangers.num_columns - 1, "id", renamed)
        own = pa.concat_tables([own, strangers])
        order = np.random.default_rng(number).permutation(own.num_rows)
        held = mq.Table(own.take(pa.array(order)), table.schema)
        hooks: dict[str, Any] = {"on_joined": on_joined(name)} if on_joined is not None else {}
        hooks["engine"] = (engines or {}).get(name)
        hooks["records"] = in_chunks(name, held)
        ids = identifiers(held, "id", "strip")
        known = held if hooks["records"] is None else held.take(np.empty(0, np.int64))
        scripts[name] = around(name, party_script(name, contract, known, ids, **hooks))
    release: VerifiedRelease = run_together(scripts, wire)[ASSEMBLER]
    return release


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


REQUIREMENT = mq.KAnonymity(["Sex", "Job"], k=4) & mq.KAnonymity(["Sex", "Salary"], k=5)
LOANS = {"Sex": "loans", "Job": "bank", "Salary": "bank"}


def test_the_papers_example() -> None:
    release = run_mashup(loan_table(), contract_of(REQUIREMENT, LOANS))
    alone = mq.anonymize(loan_table(), REQUIREMENT, mq.TopDownSpecialization("Class"))
    assert [step.summary() for step in release.steps] == [
        {**step.summary(), "party": LOANS[step.attribute]} for step in alone.steps
    ]
    assert bag(release.table) == bag(alone.table)
    few = {"information_kept": None}  # is told of 100 records or more
    assert dict(release.metrics) == pytest.approx({**alone.metrics, **few})
    assert release.attribute_losses == pytest.approx(dict(alone.attribute_losses))
    assert release.attribute_information == {}


def test_each_party_tells_how_much_information_its_own_columns_keep() -> None:
    table = mq.Table(pa.concat_tables([loan_table().arrow] * 3), loan_table().schema)
    release = run_mashup(table, contract_of(REQUIREMENT, LOANS))
    alone = mq.anonymize(table, REQUIREMENT, mq.TopDownSpecialization("Class"))
    assert dict(release.metrics) == pytest.approx(dict(alone.metrics))
    assert release.attribute_information == alone.attribute_information
    assert set(release.attribute_information) == set(LOANS)
    assert 0 < release.metrics["information_kept"] < 1


people = st.lists(
    st.fixed_dictionaries(
        {
            "Sex": st.sampled_from(["Male", "Female"]),
            "Job": st.sampled_from(mq.Taxonomy(JOB).leaves),
            "Salary": st.integers(10, 60),
            "Age": st.integers(18, 40),
            "Town": st.sampled_from(["Ulm", "Graz"]),
            "Class": st.sampled_from("YN"),
        }
    ),
    min_size=1,
    max_size=40,
)
SCHEMA = mq.Schema(
    [
        mq.Attribute("Sex", taxonomy=mq.Taxonomy(SEX)),
        mq.Attribute("Job", taxonomy=mq.Taxonomy(JOB)),
        mq.Attribute("Salary", "continuous"),
        mq.Attribute("Age", "continuous"),
        mq.Attribute("Town"),
    ]
)
qids = st.lists(
    st.tuples(st.lists(st.sampled_from(SCHEMA.names[:4]), min_size=1, unique=True), st.integers(1, 6)),
    min_size=1,
    max_size=3,
)


scores = st.sampled_from([name for name in SCORES if name != "certainty"])
deals = st.lists(st.integers(0, 4), min_size=5, max_size=5)


def a_split(
    records: list[dict[str, Any]], qids: list[Any], score: str, dealt: list[int], **terms: Any
) -> tuple[mq.Table, Contract]:
    table = mq.Table(pa.Table.from_pylist(records), SCHEMA)
    parts = [mq.KAnonymity(names, min(k, len(records))) for names, k in qids]
    requirement: mq.Requirement = parts[0]
    for part in parts[1:]:
        requirement = requirement & part
    target = None if score == "discernibility" else "Class"
    holders = {name: f"party-{dealt[at]}" for at, name in enumerate(SCHEMA.names)}
    if len(set(holders.values())) == 1:
        holders["Town"] = "party-other"
    return table, contract_of(requirement, holders, target=target, score=score, **terms)


def is_the_release_of_one_table(release: VerifiedRelease, table: mq.Table, contract: Contract) -> None:
    way = mq.TopDownSpecialization(contract.class_name, contract.method["score"])
    alone = mq.anonymize(table, contract.requirement, way)
    assert [(s.attribute, s.value, s.children, s.score) for s in release.steps] == [
        (s.attribute, s.value, s.children, s.score) for s in alone.steps
    ]
    assert bag(release.table) == bag(alone.table)
    assert [v.summary() for v in release.verdicts] == [v.summary() for v in alone.verdicts]


@settings(max_examples=examples(60), deadline=None)
@given(records=people, qids=qids, score=scores, dealt=deals, uncommon=st.integers(0, 3))
def test_any_split_gives_the_release_of_one_table(
    records: list[dict[str, Any]], qids: list[Any], score: str, dealt: list[int], uncommon: int
) -> None:
    table, contract = a_split(records, qids, score, dealt, argmax="plain")
    is_the_release_of_one_table(run_mashup(table, contract, uncommon=uncommon), table, contract)


@settings(max_examples=examples(10), deadline=None)
@given(records=people, qids=qids, score=scores, dealt=deals)
def test_any_split_gives_the_release_of_one_table_without_showing_scores(
    records: list[dict[str, Any]], qids: list[Any], score: str, dealt: list[int]
) -> None:
    table, contract = a_split(records, qids, score, dealt)
    assert contract.method["argmax"] == "secure"
    wire = Wire()
    is_the_release_of_one_table(run_mashup(table, contract, wire=wire), table, contract)
    assert "score" not in {message.kind for message in wire.heard}


@pytest.mark.parametrize("argmax", ["secure", "plain"])
def test_algorithm_2_of_the_papers_example(argmax: str) -> None:
    contract = contract_of(REQUIREMENT, LOANS, adversary="malicious", epsilon=0.01, argmax=argmax)
    release = run_mashup(loan_table(), contract)
    assert [(s.attribute, round(s.score, 4), s.party) for s in release.steps] == [
        ("Salary", 0.3827, "bank"),
        ("Sex", 0.1348, "loans"),
    ]
    assert sorted(release.group_sizes.tolist()) == [5, 12, 17]


@pytest.mark.parametrize("adversary", ["semi-honest", "malicious"])
def test_a_party_that_brings_the_class_alone(adversary: str) -> None:
    terms: dict[str, Any] = {"adversary": adversary, "epsilon": 0.01}
    three = contract_of(REQUIREMENT, LOANS, class_from="tax", parties=("bank", "loans", "tax"), **terms)
    two = contract_of(REQUIREMENT, LOANS, class_from="loans", **terms)
    assert three.columns_needed("tax") == ("Class",)
    assert bag(run_mashup(loan_table(), three).table) == bag(run_mashup(loan_table(), two).table)


@pytest.mark.parametrize("adversary", ["semi-honest", "malicious"])
def test_a_party_that_brings_the_sensitive_column_alone(adversary: str) -> None:
    table = loan_table()
    ill = pa.array([("flu", "cold", "gout")[row % 3] for row in range(len(table))])
    table = mq.Table(table.arrow.append_column("Disease", ill), table.schema)
    requirement = REQUIREMENT & mq.LDiversity(["Sex", "Job"], l=2, sensitive="Disease")
    terms: dict[str, Any] = {"adversary": adversary, "epsilon": 0.01, "class_from": "loans"}
    apart = contract_of(requirement, LOANS, sensitive={"Disease": "clinic"}, **terms)
    beside = contract_of(requirement, LOANS, sensitive={"Disease": "bank"}, **terms)
    assert apart.columns_needed("clinic") == ("Disease",)
    assert bag(run_mashup(table, apart).table) == bag(run_mashup(table, beside).table)


@pytest.mark.parametrize("class_from", [None, "loans"], ids=["all hold it", "one shares it"])
def test_a_requirement_on_the_class_itself(class_from: str | None) -> None:
    requirement = REQUIREMENT & mq.LDiversity(["Sex", "Job"], l=2, sensitive="Class")
    contract = contract_of(requirement, LOANS, class_from=class_from)
    alone = mq.anonymize(loan_table(), requirement, mq.TopDownSpecialization("Class"))
    assert bag(alone.table) != bag(mq.anonymize(loan_table(), REQUIREMENT, mq.TopDownSpecialization("Class")).table)
    assert bag(run_mashup(loan_table(), contract).table) == bag(alone.table)


def test_classes_that_disagree_are_neither_counted_nor_named() -> None:
    contract = contract_of(REQUIREMENT, LOANS)
    table = loan_table()
    scripts: dict[str, Any] = {}
    random.seed(1)
    for name in contract.parties:
        labels = table.arrow["Class"].to_pylist()
        if name == "loans":
            labels[3], labels[30] = "Y", "N"
        held = mq.Table(table.arrow.set_column(3, "Class", pa.array(labels)), table.schema)
        ids = [str(row).encode() for row in range(34)]
        scripts[name] = party_script(name, contract, held, ids)
    with pytest.raises(DataError, match=r"class Class: (bank|loans) has other classes than (bank|loans) for some"):
        run_together(scripts)


def test_nobody_in_common() -> None:
    contract = contract_of(REQUIREMENT, LOANS)
    scripts = {
        name: party_script(name, contract, loan_table(), [f"{name}{row}".encode() for row in range(34)])
        for name in contract.parties
    }
    with pytest.raises(NoCommonRecords):
        run_together(scripts)


def test_the_assembler_sees_no_identifier_and_no_raw_value() -> None:
    wire = Wire()
    contract = contract_of(mq.KAnonymity(["Sex", "Job", "Salary"], k=20), LOANS)
    run_mashup(loan_table(), contract, wire=wire)
    seen = b"".join(message.data for message in wire.seen_by(ASSEMBLER))
    for raw in ("id-10", "Janitor", "Lawyer", "Accountant", "Mover"):
        assert raw.encode() not in seen


def test_doubled_identifiers_are_named_by_their_rows() -> None:
    table = mq.Table(pa.table({"id": ["a", "b", " a", "c"]}))
    with pytest.raises(DataError, match="row 3, column id: the same identifier as row 1"):
        identifiers(table, "id", "strip")
    assert list(identifiers(table, "id", "none")) == [b"a", b"b", b" a", b"c"]


def test_numbers_and_texts_are_the_same_identifiers() -> None:
    for cells in (["17", "18"], [" 17", "18 "], [17, 18], [17.0, 18.0], pa.array(["17", "18"]).dictionary_encode()):
        assert list(identifiers(mq.Table(pa.table({"id": cells})), "id", "strip")) == [b"17", b"18"]
    assert not len(identifiers(mq.Table(pa.table({"id": pa.array([], pa.string())})), "id", "strip"))


@given(st.lists(st.text(), unique_by=lambda text: text.strip().casefold()))
def test_identifiers_are_normalised_as_python_does(cells: list[str]) -> None:
    table = mq.Table(pa.table({"id": pa.array(cells, pa.string())}))
    assert list(identifiers(table, "id", "none")) == [text.encode() for text in cells]
    stripped = [text.strip() for text in cells]
    assert list(identifiers(table, "id", "strip")) == [text.encode() for text in stripped]
    folded = identifiers(table, "id", "casefold")
    assert list(folded) == [text.casefold().encode() for text in stripped]
    assert folded.lengths().tolist() == [len(text) for text in folded]
    assert [*folded.take(np.arange(len(folded))[::-1])] == [*folded][::-1]


def test_a_false_score_is_named() -> None:
    contract = contract_of(REQUIREMENT, LOANS, argmax="plain")

    def doubled(score: bytes) -> bytes:
        claimed = 2 * int.from_bytes(score, "little", signed=True)
        return claimed.to_bytes(9, "little", signed=True) if score else score

    ids = [str(row).encode() for row in range(34)]
    scripts = {name: party_script(name, contract, loan_table(), ids) for name in contract.parties}
    scripts["bank"] = changing(scripts["bank"], kind_of(BestScore), score=doubled)
    with pytest.raises(PeerBrokeProtocol, match="claimed a false score for Salary") as caught:
        run_together(scripts)
    assert caught.value.peer == "bank"


def test_each_party_hears_the_error_in_percent_and_measures_its_own() -> None:
    """SE on its own raw columns of the common records, IE on the release; nothing where nobody judges."""
    parts: dict[str, list[OwnPart]] = {"bank": [], "loans": []}
    table, contract = loan_table(), contract_of(REQUIREMENT, LOANS, argmax="plain")

    def hears(name: str) -> Callable[[OwnPart], None]:
        return parts[name].append

    release = run_mashup(table, contract, uncommon=3, judge=release_error, on_joined=hears)
    error = release_error(release.table, "Class")
    assert release.error == error is not None
    for name, columns in {"bank": ["Job", "Salary"], "loans": ["Sex"]}.items():
        (own,) = parts[name]
        assert own.together == round(error, 2)
        assert bag(own.table.arrow) == bag(table.arrow.select([*columns, "Class"]))
        gain = own.gain()
        assert gain is not None
        assert gain.alone == pytest.approx(error_of(own.table, "Class"), abs=1e-4)
        assert gain.gain == pytest.approx(gain.alone - gain.together)
    run_mashup(table, contract, on_joined=hears)
    assert [len(each) for each in parts.values()] == [1, 1]


def test_a_party_with_the_class_alone_has_the_error_of_the_most_frequent_class() -> None:
    table = loan_table()
    part = own_part(table, ["Class"], table.coded("Class"), 10)
    gain = part.gain()
    assert gain is not None
    assert 0 < gain.alone < 0.5


def test_the_parties_tell_the_query_error_of_their_own_columns() -> None:
    table = loan_table()
    many = mq.Table(pa.concat_tables([table.arrow] * 3), table.schema)  # enough that one record does not show
    found = run_mashup(many, contract_of(REQUIREMENT, LOANS, argmax="plain")).query_error
    assert found is not None
    assert (found.median, found.over, found.queries) == (None, "each party's own columns", 1000)
    assert run_mashup(table, contract_of(REQUIREMENT, LOANS, argmax="plain")).query_error is None
