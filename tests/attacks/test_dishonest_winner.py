"""Attack: the winner of a round asks about one person, in the check of sensitive values that another party holds.

Nothing ties the groups of a check to a split. So the bank puts Ms Smith alone into a group, or into one with people
whose disease it knows, reads the answer, withdraws, and asks again. Now the circuit refuses what is neither empty nor
as large as the contract allows, whatever is in it; withdrawals are counted, and who lies about an answer is named.

Then it adds people who are not there to its shares of the counts, so that she is in a group that is large enough. Now
whoever adds anything to a share of a count has to guess secret weights of the clinic's, and is named before the answer;
and by its transfers it can put each person into one part, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from homes import home
from masquerade.anonymize import LocalView
from masquerade.data import ranks_of
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.memory import run_together
from masquerade.protocol.sensitive.checks import PublicGroups, RemoteChecks, split_rows
from masquerade.protocol.sensitive.verdict import SharedRows
from protocol.party_scripts import party_script
from protocol.test_mashup import SCHEMA, contract_of

K, PEOPLE = 4, 24
SMITH, FLU, HIV = 0, 1, 2  # people; of the latter two the bank knows the disease
OTHERS = list(range(3, PEOPLE))
Question = Sequence[Sequence[int]]  # groups of people

sizes = mq.KAnonymity(["Job", "Salary"], k=K)
MODELS: dict[str, mq.Requirement] = {
    "l-diversity": sizes & mq.LDiversity(["Job", "Salary"], l=2, sensitive="Disease"),
    "confidence-bounding": sizes
    & mq.ConfidenceBounding(["Job", "Salary"], confidence=0.5, sensitive="Disease", values=["HIV"]),
    "alpha-k-anonymity": mq.AlphaKAnonymity(["Job", "Salary"], alpha=0.5, k=K, sensitive="Disease"),
}


def table(disease: str) -> mq.Table:
    """Ms Smith has this disease; a person's salary is its number."""
    diseases = [disease, "flu", "HIV", *["flu", "gout", "HIV"] * 7]
    jobs = ["Janitor", "Mover", "Lawyer", "Accountant"] * 6
    columns = {"Job": jobs, "Salary": range(PEOPLE), "Class": ["Y", "N", "N"] * 8, "Disease": diseases}
    return mq.Table(pa.table({name: pa.array(cells) for name, cells in columns.items()}), SCHEMA)


class DishonestBank:
    """Asks about groups of its choosing, one question a round, and always withdraws."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions = list(questions)
        self.told: list[bool] = []

    def play(self, monkeypatch: pytest.MonkeyPatch, requirement: mq.Requirement, disease: str) -> None:
        """Against the real clinic, until it is stopped or out of questions."""
        ask, best = RemoteChecks.ask, LocalView.best
        place: dict[int, int] = {}  # of its people in the common order

        def knowing(view: LocalView, state: Any) -> Any:
            found = best(view, state)
            if found is not None:  # only the bank has candidates, and never too few
                (ranks,) = state._records.chunks.each(lambda chunk: chunk[ranks_of("Salary")])
                place.update({int(rank): row for row, rank in enumerate(ranks)})
                view.candidates.append(found[0])
            return found

        def forged(_: RemoteChecks, groups: PublicGroups, *honest: Any) -> Any:
            parts = np.full(PEOPLE, groups.most, np.uint64)  # counted nowhere
            for number, people in enumerate(self.questions[len(self.told)]):
                parts[np.isin(groups.rows, [place[each] for each in people])] = number
            return parts

        def asking(checks: RemoteChecks, *candidate: Any) -> Any:
            if len(self.told) == len(self.questions):
                raise EndOfAttack
            self.told.append((yield from ask(checks, *candidate)))
            return False

        contract = contract_of(
            requirement, {"Job": "bank", "Salary": "bank"}, sensitive={"Disease": "clinic"}, argmax="plain"
        )
        ids = [str(row).encode() for row in range(PEOPLE)]
        with monkeypatch.context() as patched:
            patched.setattr(RemoteChecks, "_parts", forged)
            patched.setattr(RemoteChecks, "ask", asking)
            patched.setattr(LocalView, "best", knowing)
            run_together({name: party_script(name, contract, table(disease), ids) for name in contract.parties})


class EndOfAttack(Exception):  # not an error: the bank has asked all it wanted
    pass


def answers(
    monkeypatch: pytest.MonkeyPatch, requirement: mq.Requirement, disease: str, *questions: Question
) -> list[bool]:
    bank = DishonestBank(questions)
    with pytest.raises(EndOfAttack):
        bank.play(monkeypatch, requirement, disease)
    return bank.told


@pytest.mark.parametrize("model", MODELS)
def test_the_answer_does_not_depend_on_one_persons_disease(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, beside people whose disease is known, or beside a group that is large enough: always no."""
    for disease in ("flu", "HIV", "gout"):
        assert answers(monkeypatch, MODELS[model], disease, [[SMITH]], [[SMITH, FLU]]) == [False, False]
        assert answers(monkeypatch, MODELS[model], disease, [[SMITH, HIV, FLU]], [OTHERS, [SMITH, HIV]]) == [
            False,
            False,
        ]


def with_shares(monkeypatch: pytest.MonkeyPatch, changed: Callable[[SharedRows], None]) -> None:
    """The bank changes its shares of all that came out before it goes on."""

    def forged(pair: Any, groups: Any, n_values: int, values: Any, parts: Any) -> Any:
        rows = yield from split_rows(pair, groups, n_values, values, parts)
        if parts is not None:
            rows = SharedRows(rows.counts.copy(), rows.tags.copy())
            changed(rows)
        return rows

    monkeypatch.setattr(home(split_rows), "split_rows", forged)


def three_invented(rows: SharedRows) -> None:
    """Three people more in the first group, all with one disease."""
    rows.counts[0, 1] += 3


def three_of_different_diseases(rows: SharedRows) -> None:
    rows.counts[0, :3] += 1


def three_with_a_guess(rows: SharedRows) -> None:
    """Three people more, and a tag that would fit if the weights were what they are not."""
    rows.counts[0, 1] += 3
    rows.tags[0] += np.uint64(3 << 40)


def another_disease(rows: SharedRows) -> None:
    """As many people as before, one of them with another disease: asks how many have it, not whether anybody has."""
    rows.counts[0, 0] -= 1
    rows.counts[0, 1] += 1


def moved_to_another_group(rows: SharedRows) -> None:
    """What is added to one group is taken from another."""
    rows.counts[0, 1] += 3
    rows.counts[1, 1] -= 3


FORGERIES = (three_invented, three_of_different_diseases, three_with_a_guess, another_disease, moved_to_another_group)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda each: each.__name__)
def test_who_is_not_there_cannot_be_added(model: str, forgery: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Ms Smith has, and whatever the answer would be: the bank is named, and has none."""
    with_shares(monkeypatch, forgery)
    for disease in ("flu", "HIV"):
        bank = DishonestBank([[[SMITH], OTHERS]])
        with pytest.raises(PeerBrokeProtocol, match="had other counts judged than those that came out") as caught:
            bank.play(monkeypatch, MODELS[model], disease)
        assert caught.value.peer == "bank"
        assert bank.told == []


def test_groups_as_large_as_the_contract_allows_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left: one bit about K people or more. Who knows the disease of K − 1 of them learns that of the last."""
    flu = [FLU, 3, 6]
    question = [[SMITH, *flu]]
    model = MODELS["l-diversity"]
    assert answers(monkeypatch, model, "flu", question, [OTHERS]) == [False, True]
    assert answers(monkeypatch, model, "HIV", question, []) == [True, True]


def test_questions_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A withdrawn value stays in the cut, and the cut of its two attributes has two values."""
    bank = DishonestBank([[[SMITH, each, *OTHERS[:3]]] for each in (FLU, HIV, 20, 21, 22)])
    with pytest.raises(PeerBrokeProtocol, match="withdrew 3 candidates, and its cut has 2 values to split") as caught:
        bank.play(monkeypatch, MODELS["l-diversity"], "flu")
    assert caught.value.peer == "bank"
    assert len(bank.told) == 3
