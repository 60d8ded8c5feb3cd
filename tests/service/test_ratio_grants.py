"""What a policy grants of joint keys, and how its ledger counts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from masquerade.service.agree.answering import accepts
from masquerade.service.agree.request import Request
from masquerade.service.ledger import Ledger, append, record_of
from service.parties import CLINIC, IDLE, NOW, dealt, offer, policy, reasons, request

SETS = [["age", "job"], ["job", "town"]]
GRANTS = {"ratios": 4}


def question(**method: Any) -> Request:
    asked = {"name": "joint-keys", "sets": SETS, "precision": 0.01, **method}
    columns = [*dict.fromkeys(name for each in asked["sets"] for name in each)]
    return request(attributes=columns, privacy=[], algorithm=asked, **{"class": None})


@pytest.mark.parametrize(
    ("grants", "method", "reason"),
    [
        ({}, {}, "ratios of joint keys are not told"),
        (GRANTS, {"precision": None}, "ratios are told in steps of 0.01 or more; asked for exact ones"),
        (
            GRANTS,
            {"precision": 0.005},
            "ratios are told in steps of 0.01 or more; asked for precision = 0.005",
        ),
        (GRANTS, {"sample": 50}, "asked for 50"),
        (GRANTS, {"least_records": 99}, "ratios are told over 100 common records or more"),
        ({**GRANTS, "columns": ["age"]}, {}, '"town" may not be in a joint key; allowed: age'),
        (GRANTS, {"sets": [["disease", "job"]]}, '"disease" is sensitive'),
        ({"ratios": 1}, {}, "2 more would exceed the 1 that the policy grants"),
    ],
)
def test_nothing_is_told_unless_it_is_granted(
    grants: dict[str, Any], method: dict[str, Any], reason: str
) -> None:
    assert any(reason in each for each in reasons(policy(joint_keys=grants), question(**method)))


def test_what_is_granted_is_offered_without_a_requirement() -> None:
    given = offer(policy(joint_keys=GRANTS, least_k=50), question())
    assert (given.parts, given.m, given.joint_k) == ((), 0, 0)
    assert offer(policy(joint_keys={**GRANTS, "columns": ["disease"]}), question(sets=[["disease", "job"]]))


def test_every_run_counts_and_the_same_question_may_be_asked_again(tmp_path: Path) -> None:
    """A peer may make up another column in each run; but a coordinator may still have the answer."""
    ours = policy(joint_keys=GRANTS)
    deal = dealt(question(), bank=ours, clinic=ours)
    ledger = tmp_path / "ledger.jsonl"
    for run in range(2):
        assert accepts(ours, deal, CLINIC, Ledger.load(ledger), IDLE, runs=True) == ()
        append(ledger, record_of(deal, "clinic", NOW - 10 + run))
    told = Ledger.load(ledger)
    assert len(told.records) == 2
    assert accepts(ours, deal, CLINIC, told, IDLE) == ()
    (reason,) = accepts(ours, deal, CLINIC, told, IDLE, runs=True)
    assert reason.startswith("4 ratios of this snapshot of patients were told before; 2 more")
    assert offer(ours, question(), ledger=told)
    assert reasons(ours, question(sets=[["age", "job"]]), ledger=told)
    changed = dataclasses.replace(CLINIC, snapshot="dd" * 32)
    patient = policy(joint_keys=GRANTS, least_snapshot_interval=0)
    assert offer(patient, question(), changed, ledger=told)  # another snapshot has its ratios anew
