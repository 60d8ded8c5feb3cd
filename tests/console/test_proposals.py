"""The request that is proposed from cards alone, and the reasons for it."""

from __future__ import annotations

from masquerade.console.request_preview import _is_enough, proposed_columns, proposed_draft
from masquerade.jobs import ANOTHER_CLASS, DescribedColumn, propose_by_name
from masquerade.jobs.drafts.roles import CLASS, MOST_QUASI_IDENTIFIERS
from masquerade.service import ColumnCard, Provider, SchemaCard, read_request


def provider(party: str, *columns: ColumnCard, horizontal: bool = False) -> Provider:
    card = SchemaCard(party, "people", "ssn", columns, "11" * 32, 1000, "s1", horizontal)
    return Provider(party=party, purposes=("research",), datasets=(card,), last_seen=None, reachable=True)


BANK = provider(
    "bank",
    ColumnCard("job", "categorical"),
    ColumnCard("email", "categorical"),
    ColumnCard("customer_no", "categorical"),
    ColumnCard("approved", "categorical", "class"),
)
CLINIC = provider(
    "clinic",
    ColumnCard("job", "categorical"),
    ColumnCard("birth_date", "date"),
    ColumnCard("admitted", "date"),
    ColumnCard("disease", "categorical", "sensitive"),
)


def test_columns_are_proposed_by_name_and_by_what_their_party_says() -> None:
    found = {each.name: each.proposal for each in proposed_columns([BANK, CLINIC], "vertical")}
    assert {name: each.role for name, each in found.items()} == {
        "job": "quasi-identifier",
        "email": "identifier",
        "customer_no": "identifier",
        "approved": "class",
        "birth_date": "quasi-identifier",
        "admitted": "quasi-identifier",
        "disease": "sensitive",
    }
    assert found["job"].reason == "others know this of a person, or can look it up"
    assert "its holder says so" in found["disease"].reason
    assert all(each.reason for each in found.values())


def test_the_proposed_request_can_be_sent_once_it_has_a_purpose() -> None:
    draft = proposed_draft([BANK, CLINIC], "vertical")
    draft.purpose = "research"
    content = draft.content()
    assert content["attributes"] == ["job", "birth_date", "admitted", "disease"]
    assert content["providers"] == {"job": "bank"}  # the first that has it
    assert content["privacy"] == [
        {"model": "k-anonymity", "qid": ["job", "birth_date", "admitted"], "k": 5},
        {"model": "l-diversity", "qid": ["job", "birth_date", "admitted"], "l": 2, "sensitive": "disease"},
    ]
    assert content["class"] == "approved"
    read_request(content)
    assert not draft.problems()


def test_of_several_classes_the_one_that_most_parties_know_is_filled_in() -> None:
    income, died = ColumnCard("income", "categorical", "class"), ColumnCard("died", "categorical", "class")
    bank = provider("bank", ColumnCard("job", "categorical"), died, income)
    clinic = provider("clinic", ColumnCard("age", "continuous"), income)
    assert proposed_draft([bank, clinic], "vertical").content()["class"] == "income"
    found = {each.name: each.proposal for each in proposed_columns([bank, clinic], "vertical")}
    assert (found["income"].reason, found["died"].reason) == (CLASS, ANOTHER_CLASS)
    plain = [provider(name, ColumnCard(name, "categorical")) for name in ("job", "town")]
    assert "class" not in proposed_draft(plain, "vertical").content()


def test_providers_of_the_same_columns_are_proposed_what_they_describe_alike() -> None:
    age, sex = ColumnCard("age", "continuous"), ColumnCard("sex", "categorical")
    north = provider("north", age, sex, horizontal=True)
    south = provider("south", age, ColumnCard("sex", "continuous"), horizontal=True)
    assert [each.name for each in proposed_columns([north, south], "horizontal")] == ["age"]
    draft = proposed_draft([north, south], "horizontal")
    assert (draft.content()["attributes"], draft.content()["parties"]) == (["age"], ["north", "south"])
    assert proposed_columns([BANK, CLINIC], "horizontal") == []


def test_ten_quasi_identifiers_at_most_those_that_people_are_known_by_first() -> None:
    columns = [DescribedColumn(f"x{at}", "categorical") for at in range(12)] + [DescribedColumn("age", "continuous")]
    roles = [each.role for each in propose_by_name(columns)]
    assert roles.count("quasi-identifier") == MOST_QUASI_IDENTIFIERS
    assert roles[-1] == "quasi-identifier"
    assert roles[-4:-1] == ["other"] * 3


def test_nothing_is_offered_to_join_where_one_party_would_give_all() -> None:
    age, sex = ColumnCard("age", "continuous"), ColumnCard("sex", "categorical")
    alike = [provider(name, age, sex, horizontal=True) for name in ("north", "south")]
    assert not _is_enough(proposed_columns(alike, "vertical"), "vertical")
    assert _is_enough(proposed_columns(alike, "horizontal"), "horizontal")
    assert _is_enough(proposed_columns([BANK, CLINIC], "vertical"), "vertical")
