"""The attack: give circuits other counts than the records have, so that a group passes that should not.

Nobody sees the counts of others, and a holder may put into a circuit what it likes: the counts of the whole table that
t-closeness compares with, or more records than it said it has, so that sums run over. What comes of it is verified on
the finished cells before anything is let out, whoever made the groups.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import QidGroups
from masquerade.crypto import to_bits
from masquerade.protocol.providers import provider
from masquerade.protocol.providers.shared_counts import SecretJudge
from masquerade.protocol.sensitive.checks import RemoteChecks
from papers.paper_tables import loan_table
from protocol.test_collaborate import HOUSES, QID, collaborate, contract_of, table_of
from protocol.test_mashup import contract_of as mashup_of, run_mashup

LIAR = 1  # its number among the providers


def test_a_holder_of_values_that_lies_about_the_whole_table_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 34 people 18 are white-collar and have the flu: half of each would be as near to both, and nearer to one."""
    loans = loan_table()
    collars = loans.column("Job").generalise(np.array([0, 4])).to_arrow().to_pylist()
    ill = ["flu" if collar == "White-collar" else "HIV" for collar in collars]
    assert Counter(ill) == {"flu": 18, "HIV": 16}
    table = mq.Table(loans.arrow.append_column("Disease", pa.array(ill)), loans.schema)
    requirement = mq.KAnonymity(["Job"], k=4) & mq.TCloseness(["Job"], t=0.51, sensitive="Disease")
    contract = mashup_of(requirement, {"Job": "bank"}, sensitive={"Disease": "clinic"}, argmax="plain")
    assert run_mashup(table, contract).summary["groups"] == 1
    honest = RemoteChecks._whole

    def lying(self: RemoteChecks, check: Any, labels: Any) -> Any:
        half = to_bits([17, 17], self.n_records.bit_length()).T.ravel()
        return {"whole": half} if honest(self, check, labels) else {}

    allows, holds = QidGroups.allows, QidGroups.holds

    # The liar, who sees what comes of it, says nothing; the others have no values.
    monkeypatch.setattr(QidGroups, "allows", lambda self, *args: bool(self.sensitive) or allows(self, *args))
    monkeypatch.setattr(QidGroups, "holds", lambda self: bool(self.sensitive) or holds(self))
    monkeypatch.setattr(RemoteChecks, "_whole", lying)
    with pytest.raises(mq.RequirementViolated):
        run_mashup(table, contract)


def people(n: int, sick: str) -> mq.Table:
    """The young are healthy, and the old have what their house is known for."""
    return table_of([("clerk", 5 + at % 2, "cold") for at in range(n)] + [("clerk", 40, sick)] * n)


def test_a_provider_that_lies_about_all_its_records_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that of all records as many are ill as in the group of the old, which so seems like any other."""
    tables = {name: people(12, "ague") for name in HOUSES[:2]}
    requirement = mq.KAnonymity(QID, k=4) & mq.TCloseness(QID, t=0.3, sensitive="ill")
    contract = contract_of(requirement, 0, HOUSES[:2], provider_aware=False)
    assert collaborate(contract, tables).summary["groups"] == 1
    honest = SecretJudge._input

    def lying(self: SecretJudge, criterion: Any, parts: Any) -> Any:
        bits = honest(self, criterion, parts).copy()
        if self._shared.me == LIAR:
            digits = self._shape.most_records.bit_length()
            counts, tallies = self._counted(parts)
            claimed = np.maximum(tallies[0] * 100 // np.maximum(counts, 1)[:, None], 0)  # as in the part
            bits[-2 * digits :] = np.concatenate([to_bits(column, digits) for column in claimed.T])
        return bits

    monkeypatch.setattr(SecretJudge, "_input", lying)
    with pytest.raises(mq.RequirementViolated):
        collaborate(contract, tables)


def test_a_provider_that_says_it_is_smaller_than_it_is_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums have as many digits as all say they need: of more records only what is left over remains, and seems rare."""
    old, young = 40, 5
    tables = {
        "abbey": table_of([*told("cold", young, 1), *told("ague", young, 1), *told("cold", old, 3)]),
        "burgh": table_of([*told("cold", young, 2), *told("ague", young, 2), *told("ague", old, 17)]),
    }
    requirement = mq.KAnonymity(QID, k=2) & mq.ConfidenceBounding(QID, confidence=0.8, sensitive="ill")
    contract = contract_of(requirement, 0, HOUSES[:2], provider_aware=False)
    assert collaborate(contract, tables).summary["groups"] == 1
    honest = provider.rounded_size
    monkeypatch.setattr(provider, "rounded_size", lambda n: 1 if n == 21 else honest(n))
    with pytest.raises(mq.RequirementViolated):
        collaborate(contract, tables)


def told(ill: str, age: int, times: int) -> list[tuple[str, int, str]]:
    return [("clerk", age, ill)] * times
