"""A misspelt value in a requirement's `values` is refused before anything leaves, and never switches it off."""

from __future__ import annotations

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.errors import ParameterError
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import ASSEMBLER, Contract
from protocol.party_scripts import session_scripts
from protocol.test_collaborate import (
    HOUSES,
    QID as HOUSE_QID,
    collaborate as publish_together,
    contract_of as contract_of_houses,
    table_of,
)
from protocol.test_mashup import contract_of, run_mashup
from protocol.test_remote_checks import QID, sick_loans

AT_LOANS = {"Sex": "loans", "Job": "bank", "Salary": "bank"}


def bounded(qid: list[str], *values: str) -> mq.Requirement:
    return mq.KAnonymity(QID, k=3) & mq.ConfidenceBounding(qid, 0.9, "Disease", list(values))


TYPOS: dict[str, mq.Requirement] = {
    "over others' attributes": bounded(QID, "HIVV"),
    "over its own attribute": bounded(["Sex"], "HIVV"),
    "beside one that is right": bounded(QID, "HIV", "HIVV"),
    "alpha": mq.AlphaKAnonymity(QID, alpha=0.4, k=3, sensitive="Disease", values=["HIVV"]),
}


@pytest.mark.parametrize("requirement", TYPOS.values(), ids=TYPOS)
def test_a_value_that_the_holder_does_not_have_is_refused_before_the_first_message(requirement: mq.Requirement) -> None:
    contract = contract_of(requirement, AT_LOANS, sensitive={"Disease": "loans"})
    wire = Wire()
    with pytest.raises(ParameterError) as caught:
        run_mashup(sick_loans(), contract, wire=wire)
    (line,) = caught.value.lines
    wrong = requirement.parts[-1]
    assert line.startswith(f'{wrong}: loans has no record with Disease = "HIVV"; ')
    assert not any(value in line.removeprefix(f"{wrong}: ") for value in ("flu", "cough", "gout"))
    assert {message.sender for message in wire.heard} <= {"bank"}  # the holder has said nothing


def test_the_class_is_looked_at_by_who_hands_it_in() -> None:
    requirement = mq.KAnonymity(QID, k=3) & mq.ConfidenceBounding(QID, 0.95, "Class", ["Q"])
    with pytest.raises(ParameterError, match='bank has no record with Class = "Q"'):
        run_mashup(sick_loans(), contract_of(requirement, AT_LOANS))


def test_a_value_of_nobody_in_common_is_no_mistake() -> None:
    """To refuse it would tell the bank about people whom it does not know."""
    requirement = bounded(["Sex"], "Ebola")
    contract = contract_of(requirement, AT_LOANS, sensitive={"Disease": "loans"}, argmax="plain")
    whole = sick_loans()
    stranger = whole.arrow.slice(0, 1)
    at = stranger.column_names.index("Disease")
    stranger = stranger.set_column(at, "Disease", pa.array(["Ebola"]))
    tables = {"bank": whole, "loans": mq.Table(pa.concat_tables([whole.arrow, stranger]), whole.schema)}
    release = run_together(session_scripts(contract, tables))[ASSEMBLER]
    assert "Ebola" not in release.table.column("Disease").to_pylist()
    assert len(release.table) == len(whole)


def of_houses(*values: str) -> Contract:
    requirement = mq.KAnonymity(HOUSE_QID, k=2) & mq.ConfidenceBounding(HOUSE_QID, 0.9, "ill", list(values))
    terms = {"third_party": "trusted", "choose": "certainty", "provider_aware": False}
    return contract_of_houses(requirement, 0, HOUSES[:2], **terms)


def test_of_providers_one_must_have_it() -> None:
    tables = {
        "abbey": table_of([("clerk", 20, "ague"), ("clerk", 30, "cold")] * 3),
        "burgh": table_of([("baker", 40, "cold"), ("baker", 50, "bruise")] * 3),
    }
    assert len(publish_together(of_houses("ague"), tables).table) == 12  # burgh has none
    with pytest.raises(ParameterError) as caught:
        publish_together(of_houses("ague", "agu"), tables)
    (line,) = caught.value.lines
    assert line.endswith('nobody has a record with ill = "agu"; a bound on a value that is nowhere binds nothing')
