"""Service levels: what a policy promises goes into the contract, and is held against how the party answers."""

from __future__ import annotations

import msgspec
import pytest

from masquerade.errors import ParameterError
from masquerade.service import Ledger, missed_levels
from masquerade.service.agree.answering import accepts
from masquerade.service.agree.terms import Deal, ServiceLevel
from masquerade.service.coordinator.directory import ServiceRecord
from service.parties import CLINIC, NOW, dealt, offer, policy, request

PROMISED = policy(response_time=2, availability=0.99)
LEVEL = ServiceLevel(2, "0.99")


def test_a_promise_goes_from_the_policy_into_the_contract() -> None:
    assert offer(PROMISED, request()).service == LEVEL
    deal = dealt(request(), clinic=PROMISED)
    assert deal.service == {"clinic": LEVEL}
    assert Deal.read(deal.canonical()) == deal
    assert accepts(PROMISED, deal, CLINIC, Ledger(), NOW) == ()


@pytest.mark.parametrize("twisted", [{}, {"clinic": ServiceLevel(1, "0.99")}, {"clinic": ServiceLevel(2)}])
def test_nobody_promises_more_in_a_partys_name(twisted: dict[str, ServiceLevel]) -> None:
    deal = msgspec.structs.replace(dealt(request(), clinic=PROMISED), service=twisted)
    assert accepts(PROMISED, deal, CLINIC, Ledger(), NOW) == (
        "the deal promises another service level than the one offered",
    )
    foreign = msgspec.structs.replace(dealt(request()), service={"clinic": LEVEL})
    assert accepts(policy(), foreign, CLINIC, Ledger(), NOW) != ()


def test_what_cannot_be_promised() -> None:
    for wrong in ({"response_time": 0}, {"response_time": 4000}, {"availability": 1.5}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            policy(**wrong)


def test_answers_are_held_against_the_promise() -> None:
    record = ServiceRecord()
    assert record.measured("clinic") is None
    assert record.judged({"clinic": LEVEL})["clinic"]["availability"]["met"] is None
    for _ in range(95):
        record.note("clinic", answered=True, seconds=0.5)
    for _ in range(5):
        record.note("clinic", answered=True, seconds=30)
    record.note("clinic", answered=True)  # waited for a table: not timed
    judged = record.judged({"clinic": LEVEL})
    assert judged == {
        "clinic": {
            "response_time": {"agreed": 2, "measured": 0.5, "met": True},
            "availability": {"agreed": 0.99, "measured": 1.0, "met": True},
        }
    }
    assert missed_levels(judged) == []
    for _ in range(9):
        record.note("clinic", answered=True, seconds=30)
        record.note("clinic", answered=False)
    judged = record.judged({"clinic": LEVEL})
    assert [judged["clinic"][term]["met"] for term in ("response_time", "availability")] == [False, False]
    assert missed_levels(judged) == [
        "clinic: 95 % of its answers came within 30 s; 2 s were agreed",
        "clinic: it answered 92.4% of the calls; 99.0% were agreed",
    ]


def test_old_calls_are_forgotten() -> None:
    record = ServiceRecord()
    record.note("bank", answered=False)
    for _ in range(1000):
        record.note("bank", answered=True, seconds=0.1)
    measured = record.measured("bank")
    assert measured is not None
    assert measured.availability == 1.0
