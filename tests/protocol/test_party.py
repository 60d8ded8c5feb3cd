"""What a party tells of its steps, and its last word before it hands in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import masquerade as mq
from masquerade.errors import NotAllowed
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import ASSEMBLER, Assembly, Contract, Contribution, ReportedStep, written_requirement
from masquerade.protocol.assembling import assemble
from papers.paper_tables import loan_table
from protocol.party_scripts import party_script, session_scripts

HOLDERS = {"Sex": "loans", "Job": "bank", "Salary": "bank"}
REQUIREMENT = mq.KAnonymity(["Sex", "Job"], k=4) & mq.KAnonymity(["Sex", "Salary"], k=5)
CONTRACT = Contract(
    parties=("bank", "loans"),
    columns=tuple(Contribution(name, holder, "attribute") for name, holder in HOLDERS.items()),
    requirements=tuple(written_requirement(part) for part in REQUIREMENT.parts),
    method={"name": "tds", "score": "gain-ratio", "argmax": "secure"},
    class_name="Class",
)
IDS = [str(row).encode() for row in range(34)]


def test_steps_are_told_only_where_they_may() -> None:
    told, silent = (run_together(session_scripts(CONTRACT, loan_table(), show_steps=shown)) for shown in (True, False))
    assert len(told[ASSEMBLER].steps) > 1
    assert silent[ASSEMBLER].steps == ()
    assert silent[ASSEMBLER].metrics == told[ASSEMBLER].metrics


def test_own_steps_are_heard_as_they_are_made() -> None:
    heard: dict[str, list[ReportedStep]] = {name: [] for name in CONTRACT.parties}
    made: dict[str, Any] = {ASSEMBLER: assemble(Assembly(CONTRACT))}
    for name in CONTRACT.parties:
        made[name] = party_script(name, CONTRACT, loan_table(), IDS, on_step=heard[name].append)
    release = run_together(made)[ASSEMBLER]
    merged = sorted((step.round, name, step.attribute, step.value) for name, steps in heard.items() for step in steps)
    assert [each[0] for each in merged] == list(range(len(release.steps)))
    assert [each[1:] for each in merged] == [(step.party, step.attribute, step.value) for step in release.steps]


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_nothing_leaves_against_the_last_word(asked: int) -> None:
    """Asked before the class, before the first bid and before the columns leave: a veto counts each time."""
    calls = Counter[str]()

    def veto(name: str) -> Callable[[], None]:
        def before_showing() -> None:
            calls[name] += 1
            if calls[name] == asked:
                raise NotAllowed("not this time")

        return before_showing

    contract = msgspec.structs.replace(CONTRACT, class_from="bank")
    made: dict[str, Any] = {ASSEMBLER: assemble(Assembly(contract))}
    for name in contract.parties:
        made[name] = party_script(name, contract, loan_table(), IDS, before_showing=veto(name))
    wire = Wire()
    with pytest.raises(NotAllowed, match="not this time"):
        run_together(made, wire)
    assert wire.seen_by(ASSEMBLER) == []
    kinds = {message.kind for message in wire.heard}
    assert ("class-column" in kinds) == (asked > 1)
    if asked < 3:
        assert not kinds & {"score", "instruct", "finished"}
    else:
        assert "finished" in kinds  # everything else was done
