"""The choice of a method between parties: from the contract alone, in the declared order, with its reason."""

from __future__ import annotations

import msgspec
import pytest

import masquerade as mq
from masquerade.arrangement import ARRANGEMENTS, chosen_lines
from masquerade.errors import ParameterError
from masquerade.methods import askable_methods, methods_between_parties, unnamed_method, written_method
from masquerade.protocol import Automatic, Contract, Proposal
from masquerade.protocol.providers.method import Collaboration

ONE_QID = Proposal((mq.KAnonymity(["age", "job", "town"], 5),))
# Mondrian asks about values of another party over one QID alone.
SHARED = Proposal(
    (mq.LDiversity(["age", "job"], 2, "disease"), mq.KAnonymity(["age", "town"], 9)),
    holder={"age": "clinic", "job": "bank", "town": "clinic", "disease": "clinic"},
)
AUTO = unnamed_method("vertical")


@pytest.mark.parametrize(
    ("proposal", "class_name", "name", "settings"),
    [
        (ONE_QID, "income", "mondrian", {"choose": "class-first"}),
        (ONE_QID, None, "mondrian", {"choose": "certainty"}),
        (SHARED, "income", "tds", {"score": "gain-ratio", "argmax": "secure"}),
        (SHARED, None, "tds", {"score": "discernibility", "argmax": "secure"}),
    ],
)
def test_the_first_that_takes_the_requirements(
    proposal: Proposal, class_name: str | None, name: str, settings: dict[str, str]
) -> None:
    agreed = AUTO.agreed(proposal, class_name)
    assert agreed.method.name == name
    assert settings.items() <= agreed.method.settings().items()
    assert not [*AUTO.refusals(proposal)]
    assert agreed.choice is not None
    assert [each.method["name"] for each in agreed.choice.passed_over] == (
        [] if name == "mondrian" else ["mondrian"] * (1 if class_name is None else 3)
    )
    assert all(each.refuses for each in agreed.choice.passed_over)


def test_a_contract_has_the_method_by_its_own_name_and_the_reason() -> None:
    agreed = AUTO.agreed(SHARED, None)
    contract = Contract(
        parties=("bank", "clinic"),
        columns=(),
        requirements=(),
        method=written_method(agreed.method),
        choice=agreed.choice,
        nonce="00" * 16,
    )
    again = Contract.read(contract.canonical())
    assert (again.method["name"], again.choice) == ("tds", agreed.choice)
    assert again.choice is not None
    because, *others = chosen_lines(again.choice.summary())
    assert because == "specializing takes QIDs of any kind"
    assert others[0].startswith("not mondrian: l-diversity on disease, which clinic holds, is over age, job")
    without = msgspec.structs.replace(contract, choice=None)
    assert contract.hash != without.hash  # the reason is agreed with the rest


def test_providers_of_the_same_columns_have_one_method() -> None:
    assert unnamed_method("horizontal") == Collaboration()


def test_parties_may_keep_to_what_was_preferred_before() -> None:
    """A release that was made by information gain binds later ones."""
    before = AUTO.restricted(lambda each: each.settings().get("choose") == "information-gain")
    assert before.agreed(ONE_QID, "income").method.settings()["choose"] == "information-gain"


def test_nobody_may_be_left_without_a_method() -> None:
    nothing = AUTO.restricted(lambda each: False)
    assert not nothing.possible
    with pytest.raises(ParameterError, match="no method is left to choose from"):
        nothing.agreed(ONE_QID, None)


def test_where_all_refuse_the_last_says_why() -> None:
    only = AUTO.restricted(lambda each: each.name == "mondrian")
    assert [problem.key for problem in only.refusals(SHARED)] == [("name",)]


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_ranks_are_an_order(arrangement: str) -> None:
    """No two preferences have the same rank, and every declared one is a setting that can be made."""
    ranks = [
        each.rank
        for method in methods_between_parties()
        if method.arrangement == arrangement
        for each in method.preferences
    ]
    assert len({*ranks}) == len(ranks) > 0


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_a_contract_never_says_auto(arrangement: str) -> None:
    choice = askable_methods(arrangement)["auto"]()  # type: ignore[index] # pytest gives a plain text
    assert isinstance(choice, Automatic)
    assert "auto" not in {each.name for each in choice.possible}
