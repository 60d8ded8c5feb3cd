"""A party that makes up its column to ask about one person: exact ratios answer, coarse ones do not."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.test_joint_keys import asked, contract_of

N, TARGET = 40, 17


def people(*, shared: bool, marks: list[Any]) -> dict[str, list[Any]]:
    """Ann's people have ten ages, four of each; her target's is somebody else's, too, or his alone."""
    ages = [row % 10 for row in range(N)]
    ages[TARGET] = 7 if shared else 99
    return {"age": ages, "sex": ["f"] * N, "state": marks}


MARKED = [row == TARGET for row in range(N)]


@pytest.mark.parametrize("measure", ["distinct", "separation"])
def test_an_exact_ratio_tells_whether_a_marked_person_is_alone(measure: str) -> None:
    """One bit of one person, for one set of the contract: docs/leakage.md says so."""
    contract = contract_of(("age", "state"), measure=measure)
    worlds = [asked(contract, people(shared=shared, marks=MARKED)).ratios for shared in (True, False)]
    unmarked = [asked(contract, people(shared=shared, marks=[0] * N)).ratios for shared in (True, False)]
    # Marking him tells him apart where his age does not: the ratio grows, or stays.
    assert worlds[0] > unmarked[0]
    assert worlds[1] == unmarked[1]


@pytest.mark.parametrize("measure", ["distinct", "separation"])
def test_a_coarse_ratio_hides_him(measure: str) -> None:
    contract = contract_of(("age", "state"), measure=measure, precision="0.1")
    worlds = {
        asked(contract, people(shared=shared, marks=marks)).ratios
        for shared in (True, False)
        for marks in (MARKED, [0] * N)
    }
    assert len(worlds) == 1


def test_one_value_for_everybody_tells_the_others_own_ratio() -> None:
    found = asked(contract_of(("age", "state")), people(shared=True, marks=[0] * N))
    assert found.ratios == (10 / N,)
