"""Requirements on a sensitive attribute that another party holds: decided by one bit, before any instruction."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import LocalView
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.privacy import GroupRequirement
from masquerade.privacy.confidence_bounding import largest_share
from masquerade.privacy.requirement import TOLERANCE
from masquerade.protocol.sensitive.checks import MostParts, RemoteChecks, SensitiveValues, refuse_remote_sensitive
from papers.paper_tables import loan_table
from protocol.party_scripts import party_script
from protocol.tampering import changing
from protocol.test_mashup import SCHEMA, bag, contract_of, people, run_mashup

DISEASES = ("flu", "cough", "HIV", "gout")
QID = ["Sex", "Job", "Salary"]


def sick_loans() -> mq.Table:
    diseases = [DISEASES[(row * row) % 7 % 4] for row in range(34)]
    table = loan_table()
    return mq.Table(table.arrow.append_column("Disease", pa.array(diseases)), table.schema)


def is_that_of_one_table(release: Any, table: mq.Table, requirement: mq.Requirement) -> None:
    alone = mq.anonymize(table, requirement, mq.TopDownSpecialization("Class"))
    assert [(s.attribute, s.value, s.children, s.score) for s in release.steps] == [
        (s.attribute, s.value, s.children, s.score) for s in alone.steps
    ]
    assert bag(release.table) == bag(alone.table)


MODELS: list[mq.Requirement] = [
    mq.LDiversity(QID, l=2, sensitive="Disease"),
    mq.LDiversity(["Job"], l=3, sensitive="Disease"),
    mq.KAnonymity(QID, k=2) & mq.LDiversity(["Sex", "Salary"], l=2, sensitive="Disease"),
    mq.AlphaKAnonymity(QID, alpha=0.6, k=3, sensitive="Disease"),
    mq.AlphaKAnonymity(QID, alpha=0.4, k=3, sensitive="Disease", values=["HIV"]),
    mq.KAnonymity(QID, k=3) & mq.ConfidenceBounding(QID, confidence=0.5, sensitive="Disease", values=["HIV", "flu"]),
    mq.ConfidenceBounding(QID, confidence=0.65, sensitive="Disease"),
    mq.PSensitiveKAnonymity(QID, p=2, k=4, sensitive="Disease"),
    mq.EntropyLDiversity(["Job", "Salary"], l=2.5, sensitive="Disease"),
    mq.RecursiveLDiversity(QID, c=2, l=2, sensitive="Disease"),
    mq.KAnonymity(QID, k=4) & mq.TCloseness(QID, t=0.4, sensitive="Disease"),
    mq.KAnonymity(QID, k=4) & mq.TCloseness(QID, t=0.25, sensitive="Disease", distance="ordered"),
]


@pytest.mark.parametrize("requirement", MODELS, ids=str)
@pytest.mark.parametrize(
    "holders",
    [
        {"Sex": "loans", "Job": "bank", "Salary": "bank", "Disease": "clinic"},
        {"Sex": "loans", "Job": "bank", "Salary": "bank", "Disease": "loans"},
    ],
    ids=["three parties", "two parties"],
)
def test_the_release_is_that_of_one_table(requirement: mq.Requirement, holders: dict[str, str]) -> None:
    table = sick_loans()
    columns = {name: holder for name, holder in holders.items() if name != "Disease"}
    contract = contract_of(requirement, columns, sensitive={"Disease": holders["Disease"]}, argmax="plain")
    is_that_of_one_table(run_mashup(table, contract, uncommon=3), table, requirement)


def test_hidden_scores_and_hidden_values_go_together() -> None:
    table, requirement = sick_loans(), MODELS[0]
    contract = contract_of(
        requirement, {"Sex": "loans", "Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"}
    )
    wire = Wire()
    is_that_of_one_table(run_mashup(table, contract, wire=wire), table, requirement)
    assert Counter(heard.kind for heard in wire.heard)["score"] == 0


def test_the_way_to_the_histogram_is_told() -> None:
    table, requirement = sick_loans(), MODELS[1]
    holders = {"Sex": "loans", "Job": "bank", "Salary": "bank"}
    contract = contract_of(requirement, holders, sensitive={"Disease": "clinic"}, argmax="plain")
    release = run_mashup(table, contract)
    is_that_of_one_table(release, table, requirement)
    assert release.settings["joint_histogram"] == "transfers"


def test_without_remote_values_no_histogram_is_told() -> None:
    contract = contract_of(mq.KAnonymity(["Job"], k=4), {"Job": "bank", "Sex": "loans"}, argmax="plain")
    assert "joint_histogram" not in run_mashup(sick_loans(), contract).settings


@settings(max_examples=examples(12), deadline=None)
@given(
    records=people.filter(lambda rows: len(rows) >= 6),
    dealt=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    qid=st.lists(st.sampled_from(SCHEMA.names[:4]), min_size=1, unique=True),
    sick=st.lists(st.sampled_from(DISEASES), min_size=40, max_size=40),
    data=st.data(),
)
def test_any_split_gives_the_release_of_one_table(
    records: list[dict[str, Any]], dealt: list[int], qid: list[str], sick: list[str], data: st.DataObject
) -> None:
    for row, disease in zip(records, sick[: len(records)], strict=True):
        row["Disease"] = disease
    table = mq.Table(pa.Table.from_pylist(records), SCHEMA)
    present = {row["Disease"] for row in records}
    largest = max(Counter(row["Disease"] for row in records).values()) / len(records)
    share = data.draw(st.sampled_from([largest, (largest + 1) / 2]))
    model: mq.Requirement = data.draw(
        st.sampled_from(
            [
                mq.LDiversity(qid, l=min(2, len(present)), sensitive="Disease"),
                mq.AlphaKAnonymity(qid, alpha=share, k=2, sensitive="Disease"),
                mq.ConfidenceBounding(qid, confidence=share, sensitive="Disease", values=[sick[0]]),
                mq.TCloseness(qid, t=0.3, sensitive="Disease"),
                mq.TCloseness(qid, t=0.2, sensitive="Disease", distance="ordered"),
                mq.RecursiveLDiversity(qid, c=len(records), l=min(2, len(present)), sensitive="Disease"),
            ]
        )
    )
    requirement = model & mq.KAnonymity(qid, k=2)
    holders = {name: f"party-{dealt[at]}" for at, name in enumerate(SCHEMA.names)}
    where = f"party-{dealt[5]}"
    if len({*holders.values(), where}) == 1:
        where = "party-other"
    contract = contract_of(requirement, holders, sensitive={"Disease": where}, argmax="plain")
    is_that_of_one_table(run_mashup(table, contract), table, requirement)


def test_every_check_looks_alike() -> None:
    """While the groups stay, whatever the candidate is and whatever comes of it: the same messages, as long."""
    requirement = mq.LDiversity(["Job", "Salary"], l=3, sensitive="Disease") & mq.KAnonymity(["Sex"], k=2)
    contract = contract_of(
        requirement, {"Sex": "bank", "Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"}, argmax="plain"
    )
    wire = Wire()
    release = run_mashup(sick_loans(), contract, wire=wire)
    assert "Sex" in {step.attribute for step in release.steps}  # which no check needs
    answers, checks, current = [], [], []
    for heard in wire.heard:
        if heard.kind.startswith(("split-", "circuit-")):
            current.append((heard.sender, heard.kind, len(heard.data)))
        elif heard.kind == "settled":
            answers.append(msgspec.msgpack.decode(heard.data)["instructs"])
            checks.append(current)
            current = []
    assert set(answers) == {True, False}
    steps = iter(release.steps)
    refining = [good and next(steps).attribute != "Sex" for good in answers]  # changes the groups that are asked about
    alike = list(zip(refining, checks, checks[1:], strict=False))
    assert sum(not refined for refined, _, _ in alike) > 1
    assert all(check == before for refined, before, check in alike if not refined)
    assert all([each[:2] for each in check] == [each[:2] for each in checks[0]] for check in checks)
    # A refused candidate is never shown.
    assert sum(heard.kind == "instruct" for heard in wire.heard) == answers.count(True) == len(release.steps)


@pytest.mark.parametrize("asks", [True, False], ids=["refused", "asked of no record"])
def test_who_instructs_otherwise_than_it_may_is_named(asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder knows what its check said; and it sees the instruction, and counts its own values in it."""
    requirement = mq.LDiversity(["Job", "Salary"], l=3, sensitive="Disease")
    contract = contract_of(
        requirement, {"Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"}, argmax="plain"
    )
    honest = RemoteChecks.ask

    def lying(self: RemoteChecks, instruction: Any, state: Any) -> Any:
        yield from honest(self, instruction, state)
        return True

    if not asks:
        monkeypatch.setattr(RemoteChecks, "_parts", lambda _, groups, *__: np.full(34, groups.most, np.uint64))
    monkeypatch.setattr(RemoteChecks, "ask", lying)
    ids = [str(row).encode() for row in range(34)]
    scripts = {name: party_script(name, contract, sick_loans(), ids) for name in contract.parties}
    words = "a candidate that our check refused" if asks else "against the requirement"
    with pytest.raises(PeerBrokeProtocol, match=words) as caught:
        run_together(scripts)
    assert caught.value.peer == "bank"


def test_a_holder_that_tells_too_many_values_is_named() -> None:
    contract = contract_of(MODELS[0], {"Sex": "bank", "Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"})

    ids = [str(row).encode() for row in range(34)]
    scripts = {name: party_script(name, contract, sick_loans(), ids) for name in contract.parties}
    scripts["clinic"] = changing(scripts["clinic"], kind_of(SensitiveValues), labels=lambda _: 35, bounded=lambda _: 35)
    with pytest.raises(PeerBrokeProtocol, match="told of 35 values for 34 records") as caught:
        run_together(scripts)
    assert caught.value.peer == "clinic"


@pytest.mark.parametrize("parts", [1, 69])
def test_who_may_split_a_group_into_more_parts_than_it_has_records_is_named(parts: int) -> None:
    contract = contract_of(MODELS[0], {"Sex": "bank", "Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"})
    ids = [str(row).encode() for row in range(34)]
    scripts = {name: party_script(name, contract, sick_loans(), ids) for name in contract.parties}
    scripts["bank"] = changing(scripts["bank"], kind_of(MostParts), parts=lambda _: parts)
    with pytest.raises(PeerBrokeProtocol, match=f"of 34 into {parts} parts") as caught:
        run_together(scripts)
    assert caught.value.peer == "bank"


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(0.001, 1), st.integers(1, 300))
def test_the_largest_share_is_found(bound: float, n: int) -> None:
    exact = Fraction(bound) + Fraction(TOLERANCE)
    best = max(Fraction(min(exact * q // 1, q), q) for q in range(1, n + 1))
    assert Fraction(*largest_share(bound, n)) == best


class WithoutCircuit(mq.LDiversity):
    """A model of another package, which declares no circuit."""

    circuit = GroupRequirement.circuit


def test_what_has_no_secure_check_is_refused() -> None:
    holder = {"a": "bank", "b": "loans", "s": "bank"}
    [(refused, reason)] = refuse_remote_sensitive([WithoutCircuit(["a", "b"], l=2, sensitive="s")], holder)
    assert refused == 0  # its place
    assert "over b of other parties needs a secure check" in reason
    bounding = mq.ConfidenceBounding(["a", "b"], confidence=0.5, sensitive="s", values=["x"])
    [(_, reason)] = refuse_remote_sensitive([bounding], holder)
    assert "add k-anonymity over a, b" in reason
    assert refuse_remote_sensitive([bounding, mq.KAnonymity(["a", "b", "c"], k=2)], holder) == []


def test_who_withdraws_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that was withdrawn is not offered again, so that withdrawals come to an end."""
    contract = contract_of(
        mq.LDiversity(["Job", "Salary"], l=3, sensitive="Disease"),
        {"Job": "bank", "Salary": "bank"},
        sensitive={"Disease": "clinic"},
        argmax="plain",
    )
    ask, best = RemoteChecks.ask, LocalView.best

    def never(self: RemoteChecks, instruction: Any, state: Any) -> Any:
        yield from ask(self, instruction, state)
        return False

    def the_same_again(self: LocalView, state: Any) -> Any:
        found = best(self, state)
        if found is not None:
            self.candidates.append(found[0])  # the withdrawal takes out but one
        return found

    monkeypatch.setattr(RemoteChecks, "ask", never)
    monkeypatch.setattr(LocalView, "best", the_same_again)
    ids = [str(row).encode() for row in range(34)]
    scripts = {name: party_script(name, contract, sick_loans(), ids) for name in contract.parties}
    with pytest.raises(PeerBrokeProtocol, match="withdrew 3 candidates, and its cut has 2 values to split") as caught:
        run_together(scripts)
    assert caught.value.peer == "bank"
