"""Mondrian between parties, with requirements on sensitive values that another one holds: one bit a cut, beforehand."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.errors import ParameterError, PeerBrokeProtocol, RequirementUnreachable
from masquerade.net import kind_of
from masquerade.net.memory import Wire
from masquerade.protocol import proposal_of
from masquerade.protocol.method import refuse
from masquerade.protocol.mondrian.checks import CutChecks, CutsSettled
from masquerade.protocol.mondrian.levels import LevelCuts
from masquerade.protocol.mondrian.method import JointMondrian
from masquerade.protocol.mondrian.own_cuts import BestCuts
from papers.paper_tables import JOB
from protocol.tampering import changing
from protocol.test_joint_mondrian import QID, contract_of
from protocol.test_mashup import SCHEMA, bag, run_mashup

DISEASES = ("flu", "gout", "HIV", "cough")
SICK = "Disease"


def people(n: int, seed: int) -> mq.Table:
    random = np.random.default_rng(seed)
    cells = {
        "Sex": random.choice(["Male", "Female"], n),
        "Job": random.choice(mq.Taxonomy(JOB).leaves, n),
        "Salary": random.integers(10, 60, n),
        "Age": random.integers(18, 40, n),
        "Class": random.choice(["Y", "N"], n),
        SICK: random.choice(DISEASES, n, p=[0.4, 0.3, 0.2, 0.1]),
    }
    cells["Town"] = np.where(cells[SICK] == "HIV", "Ulm", "Graz")
    return mq.Table(pa.table({name: pa.array(each.tolist()) for name, each in cells.items()}), SCHEMA)


K3 = mq.KAnonymity(QID, 3)
MODELS: list[mq.Requirement] = [
    mq.LDiversity(QID, l=2, sensitive=SICK),
    K3 & mq.LDiversity(QID, l=3, sensitive=SICK),
    mq.EntropyLDiversity(QID, l=1.8, sensitive=SICK),
    mq.RecursiveLDiversity(QID, c=2, l=2, sensitive=SICK),
    mq.AlphaKAnonymity(QID, alpha=0.6, k=3, sensitive=SICK),
    K3 & mq.ConfidenceBounding(QID, confidence=0.4, sensitive=SICK, values=["HIV", "flu"]),
    mq.PSensitiveKAnonymity(QID, p=2, k=3, sensitive=SICK),
    K3 & mq.TCloseness(QID, t=0.4, sensitive=SICK),
    K3 & mq.TCloseness(QID, t=0.25, sensitive=SICK, distance="ordered"),
    K3 & mq.LDiversity(QID, l=2, sensitive=SICK) & mq.LDiversity(QID, l=2, sensitive="Town"),
]


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(8, 40),
    st.integers(0, 2**32),
    st.sampled_from(MODELS),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.booleans(),
    st.sampled_from(["certainty", "widest"]),
)
def test_any_split_of_the_columns_gives_the_release_of_one_table(
    n: int, seed: int, requirement: mq.Requirement, deal: list[int], strict: bool, choose: str
) -> None:
    table = people(n, seed)
    deal[:2] = 0, 1  # two parties at least
    holders = {name: f"p{number}" for name, number in zip(QID, deal, strict=False)}
    sensitive = {
        name: f"p{number}"
        for name, number in ((SICK, deal[4]), ("Town", deal[5]))
        if name in requirement.sensitive_attributes
    }
    contract = contract_of(requirement, holders, JointMondrian(choose=choose, strict=strict), sensitive=sensitive)
    algorithm = mq.Mondrian(None, choose, strict, merge="small")
    try:
        alone = mq.anonymize(table, requirement, algorithm, sensitive=list(sensitive))
    except (RequirementUnreachable, ParameterError) as refused:  # a listed value that nobody has
        with pytest.raises(type(refused)):
            run_mashup(table, contract)
        return
    joined = run_mashup(table, contract, uncommon=2)
    names = [*QID, *sensitive]
    assert bag(joined.table.select(names)) == bag(alone.table.select(names))


# Two attributes each: Disease depends on the salary, so that cuts along it are refused.
HOLDERS = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic"}
DIVERSE = mq.KAnonymity(QID, 4) & mq.LDiversity(QID, l=2, sensitive=SICK)


def by_salary(n: int = 24) -> mq.Table:
    """The better paid have the flu, the others gout."""
    table = people(n, 5)
    salaries = [10 + row for row in range(n)]
    diseases = ["gout" if row < n // 2 else "flu" for row in range(n)]
    arrow = table.arrow
    for name, cells in (("Salary", salaries), (SICK, diseases)):
        arrow = arrow.set_column(arrow.column_names.index(name), name, pa.array(cells))
    return mq.Table(arrow, SCHEMA)


def clinic_holds(method: JointMondrian | None = None) -> Any:
    return contract_of(DIVERSE, HOLDERS, method, sensitive={SICK: "clinic"})


def test_refused_cuts_are_withdrawn_and_never_shown() -> None:
    wire = Wire()
    run_mashup(by_salary(), clinic_holds(), wire=wire)
    heard = [each for each in wire.heard if each.kind == kind_of(CutsSettled)]
    settled = [msgspec.msgpack.decode(each.data)["cuts"] for each in heard]
    assert b"\x00" in settled, "cuts by salary are refused"
    assert any(any(each) for each in settled), "others are made"
    assert {each.sender for each in heard} == {"bank"}, "the clinic judges its own cuts"


def test_verdicts_of_single_children_are_not_to_be_had() -> None:
    with pytest.raises(ParameterError, match=r"which clinic holds.+one by one; use merge = \"small\", or strict"):
        refuse(JointMondrian(merge="violating").refusals(proposal_of(clinic_holds())))
    refuse(JointMondrian(merge="violating", strict=True).refusals(proposal_of(clinic_holds())))
    refuse(JointMondrian().refusals(proposal_of(clinic_holds())))


def test_what_has_no_size_is_refused_with_what_to_do() -> None:
    bounding = mq.ConfidenceBounding(QID, confidence=0.5, sensitive=SICK, values=["HIV"])
    contract = contract_of(bounding, HOLDERS, sensitive={SICK: "clinic"})
    with pytest.raises(ParameterError, match="add k-anonymity over"):
        refuse(JointMondrian().refusals(proposal_of(contract)))


def test_each_qid_has_its_own_checks() -> None:
    """Of two QIDs without a common attribute, diversity is asked of one alone, and of groups of its own size."""
    table = people(40, 11)
    one, other = QID[::2], QID[1::2]
    requirement = mq.LDiversity(one, l=3, sensitive=SICK) & mq.KAnonymity(other, 6)
    holders = {"Sex": "bank", "Salary": "bank", "Job": "loans", "Age": "bank"}
    contract = contract_of(requirement, holders, sensitive={SICK: "clinic"})
    refuse(JointMondrian().refusals(proposal_of(contract)))
    alone = mq.anonymize(table, requirement, mq.Mondrian(merge="small"), sensitive=[SICK])
    joined = run_mashup(table, contract)
    assert bag(joined.table.select([*QID, SICK])) == bag(alone.table.select([*QID, SICK]))


# --- a winner that does not keep to it ---


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda _: b"\xff", "goes on with a cut that our check refused"),
        (lambda told: told + b"\0", "settled other groups than the 1 that it won"),
    ],
)
def test_who_settles_otherwise_than_it_may_is_named(changed: Any, said: str) -> None:
    def lying(name: str, script: Any) -> Any:
        return changing(script, kind_of(CutsSettled), cuts=changed) if name == "bank" else script

    with pytest.raises(PeerBrokeProtocol, match=said) as caught:
        run_mashup(by_salary(), clinic_holds(), around=lying)
    assert caught.value.peer == "bank"


def test_who_asks_of_other_parts_than_it_cuts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder sees the cut, and judges it by its own values."""

    honest = CutChecks._judged

    def nowhere(checks: CutChecks, at: int, asker: int, asked: Any, parts: Any = None) -> Any:
        other = None if parts is None else np.full(parts.size, checks.most_parts[asker], np.uint64)
        return honest(checks, at, asker, asked, other)

    monkeypatch.setattr(CutChecks, "_judged", nowhere)
    with pytest.raises(PeerBrokeProtocol, match="cut a group against the requirement") as caught:
        run_mashup(by_salary(), clinic_holds())
    assert caught.value.peer == "bank"


def test_who_withdraws_for_ever_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut that was withdrawn is not offered again, and a party has one for each of its attributes."""
    ask = CutChecks._ask

    def never(checks: CutChecks, *asked: Any) -> Any:
        return np.zeros_like((yield from ask(checks, *asked)))

    monkeypatch.setattr(CutChecks, "_ask", never)
    monkeypatch.setattr(BestCuts, "without", lambda self, _: self)
    with pytest.raises(PeerBrokeProtocol, match="more cuts of a group than it has attributes, 2") as caught:
        run_mashup(by_salary(), clinic_holds())
    assert caught.value.peer == "bank"


def test_nothing_of_a_cut_is_shown_before_it_is_settled() -> None:
    wire = Wire()
    run_mashup(people(40, 3), clinic_holds(), wire=wire)
    kinds = [each.kind for each in wire.heard if each.sender == "bank" and each.receiver == "clinic"]
    levels = [at for at, kind in enumerate(kinds) if kind == kind_of(LevelCuts)]
    asked = [at for at, kind in enumerate(kinds) if kind == kind_of(CutsSettled)]
    assert levels
    assert asked[0] < levels[0]
