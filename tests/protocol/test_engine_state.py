"""A party that counts on an engine: the same messages, the same release, whoever of the parties does so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import masquerade as mq
from chunked import rows_of
from masquerade.engine.local import LocalEngine
from masquerade.net.memory import Wire
from protocol.test_mashup import contract_of, run_mashup

SCHEMA = mq.Schema(
    [
        mq.Attribute("birth_date", "date"),
        mq.Attribute("sex", taxonomy="flat"),
        mq.Attribute("town", taxonomy="flat"),
        mq.Attribute("salary", "continuous"),
        mq.Attribute("children", "continuous"),
    ]
)
HOLDERS = {"birth_date": "bank", "salary": "bank", "sex": "clinic", "town": "clinic", "children": "shop"}
QID = [*HOLDERS]
CASES: dict[str, tuple[mq.Requirement, dict[str, Any]]] = {
    "k": (mq.KAnonymity(QID, k=6), {"target": "approved"}),
    "hidden scores": (mq.KAnonymity(QID, k=6), {"target": "approved", "argmax": "secure"}),
    "two QIDs": (mq.KAnonymity(QID[:3], k=5) & mq.KAnonymity(QID[2:], k=9), {"target": "approved"}),
    "no class, by anonymity": (
        mq.KAnonymity(QID, k=6),
        {"target": "approved", "score": "info-gain-per-anonymity-loss"},
    ),
    "no class": (mq.KAnonymity(QID, k=6), {"target": None}),
    "sensitive values of one party": (
        mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="disease"),
        {"target": "approved", "sensitive": {"disease": "clinic"}},
    ),
}


CASES |= {
    "sensitive values elsewhere, seldom refused": (
        mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="disease"),
        {"target": None, "sensitive": {"disease": "bank"}},
    ),
    "sensitive values elsewhere, often refused": (
        mq.TCloseness(QID[:4], t=0.35, sensitive="disease") & mq.KAnonymity(QID, k=3),
        {"target": "approved", "sensitive": {"disease": "clinic"}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_counting_on_an_engine_changes_no_message_and_no_release(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirement, terms = CASES[case]
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 37)
    table = mq.Table(mq.generate_people(200, missing=0), SCHEMA)
    contract = contract_of(requirement, HOLDERS, **{"argmax": "plain", **terms})
    alone, together = Wire(), Wire()
    expected = run_mashup(table, contract, wire=alone)
    with LocalEngine(threads=2, folder=tmp_path) as one, LocalEngine(threads=1, folder=tmp_path) as other:
        release = run_mashup(table, contract, wire=together, engines={"bank": one, "clinic": other})
    assert rows_of(release.table) == rows_of(expected.table)
    assert release.steps == expected.steps
    assert len(release.steps) > 3
    assert shown(together) == shown(alone)


def shown(wire: Wire) -> list[tuple[Any, ...]]:
    """Who sent what to whom; the order of the common records, and so every instruction, is random."""
    return [(each.sender, each.receiver, each.kind) for each in wire.heard]
