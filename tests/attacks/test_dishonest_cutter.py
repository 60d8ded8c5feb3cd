"""Attack: the winner of a group asks about one person, in the check of a cut against another party's sensitive values.

Nothing ties the parts of a check to a cut. So the bank puts Ms Smith alone into a part, or into one with people whose
disease it knows, reads the answer, withdraws, and asks again. The circuit refuses a part that is neither empty nor as
large as the requirements make every group, whatever is in it, and a group's cuts can be withdrawn only as often as the
bank has attributes. Nor can it add people who are not there: its shares of the counts are tagged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import masquerade as mq
from attacks.test_dishonest_winner import (
    FLU,
    FORGERIES,
    HIV,
    MODELS,
    OTHERS,
    PEOPLE,
    SMITH,
    DishonestBank,
    Question,
    table,
    with_shares,
)
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.memory import run_together
from masquerade.protocol.mondrian.checks import CutChecks
from masquerade.protocol.mondrian.own_cuts import BestCuts, OwnGroups
from protocol.party_scripts import party_script
from protocol.test_joint_mondrian import contract_of


class DishonestCutter(DishonestBank):
    """Asks about parts of its choosing, one question for each bid, and always withdraws."""

    def play(self, monkeypatch: pytest.MonkeyPatch, requirement: mq.Requirement, disease: str) -> None:
        """Against the real clinic, until it is stopped or out of cuts to offer."""
        ask, judged, best = CutChecks._ask, CutChecks._judged, OwnGroups.best
        place: dict[int, int] = {}  # of its people in the common order

        def knowing(groups: OwnGroups) -> Any:
            ranks = groups._home.chunks.each(lambda chunk: chunk.get("ranks Salary", ()))
            place.update({int(rank): row for row, rank in enumerate(ranks[0])})
            return best(groups)

        def forged(checks: CutChecks, at: int, asker: int, asked: Any, parts: Any = None) -> Any:
            if parts is not None:
                parts = np.zeros(PEOPLE, np.uint64)  # everybody is in a part: all others in the first
                for number, people in enumerate(self.questions[len(self.told)], start=1):
                    parts[np.isin(asked.rows, [place[each] for each in people])] = number
            return judged(checks, at, asker, asked, parts)

        def asking(checks: CutChecks, *cuts: Any) -> Any:
            self.told += (yield from ask(checks, *cuts)).tolist()
            return np.zeros(1, bool)

        contract = contract_of(
            requirement, {"Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"}, class_name="Class"
        )
        ids = [str(row).encode() for row in range(PEOPLE)]
        with monkeypatch.context() as patched:
            patched.setattr(CutChecks, "_judged", forged)
            patched.setattr(CutChecks, "_ask", asking)
            patched.setattr(OwnGroups, "best", knowing)
            patched.setattr(BestCuts, "without", lambda cuts, _: cuts)  # never too few
            run_together({name: party_script(name, contract, table(disease), ids) for name in contract.parties})


def answers(
    monkeypatch: pytest.MonkeyPatch, requirement: mq.Requirement, disease: str, *questions: Question
) -> list[bool]:
    """What the bank is told before it is stopped: an answer more than it has attributes."""
    bank = DishonestCutter(questions)
    with pytest.raises(PeerBrokeProtocol, match="more cuts of a group than it has attributes, 2") as caught:
        bank.play(monkeypatch, requirement, disease)
    assert caught.value.peer == "bank"
    return bank.told


@pytest.mark.parametrize("model", MODELS)
def test_the_answer_does_not_depend_on_one_persons_disease(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, beside people whose disease is known, or beside a part that is large enough: always no."""
    for disease in ("flu", "HIV"):
        told = answers(monkeypatch, MODELS[model], disease, [[SMITH]], [[SMITH, HIV, FLU]], [OTHERS, [SMITH, HIV]])
        assert told == [False, False, False]


def test_parts_as_large_as_the_requirement_allows_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left: one bit about so many people. Who knows the disease of all but one learns that of the last."""
    question = [[SMITH, FLU, 3, 6]]
    model = MODELS["l-diversity"]
    assert answers(monkeypatch, model, "flu", question, [[SMITH, HIV, 3, 6]], []) == [False, True, True]
    assert answers(monkeypatch, model, "HIV", question, [[SMITH, HIV, 3, 6]], []) == [True, True, True]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda each: each.__name__)
def test_who_is_not_there_cannot_be_added(model: str, forgery: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Ms Smith has, and whatever the answer would be: the bank is named, and has none."""
    with_shares(monkeypatch, forgery)
    bank = DishonestCutter([[OTHERS]])
    with pytest.raises(PeerBrokeProtocol, match="had other counts judged than those that came out") as caught:
        bank.play(monkeypatch, MODELS[model], "flu")
    assert caught.value.peer == "bank"
    assert bank.told == []
