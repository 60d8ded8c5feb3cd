"""The request that a form builds, and how it reads as TOML and JSON."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.console.draft import (
    OfferedColumn,
    RequestDraft,
    Wish,
    as_json,
    as_toml,
    needs_sensitive,
    numbers_of,
    refilled,
)
from masquerade.console.words import KINDS
from masquerade.errors import ParameterError
from masquerade.privacy import REQUIREMENTS, can_wrap
from masquerade.protocol import Proposal
from masquerade.service import RULES, read_request

JOB = OfferedColumn("bank", "customers", "job", "attribute")
AGE = OfferedColumn("clinic", "patients", "age", "attribute")
SHOP_AGE = OfferedColumn("shop", "club", "age", "attribute")
DISEASE = OfferedColumn("clinic", "patients", "disease", "sensitive")
INCOME = OfferedColumn("bank", "customers", "income", "class")
ALL = [JOB, AGE, SHOP_AGE, DISEASE, INCOME]


def filled(*columns: OfferedColumn) -> RequestDraft:
    draft = RequestDraft(ALL, purpose="research")
    for column in columns:
        draft.choose(column, True)
    return draft


def test_an_empty_form_is_a_request_with_everything_missing() -> None:
    with pytest.raises(ParameterError) as error:
        read_request(RequestDraft(ALL).content())
    assert {problem.split(": ")[1] for problem in error.value.lines} >= {"purpose", "attributes"}


def test_a_column_of_two_parties_names_the_one_that_was_ticked() -> None:
    draft = filled(JOB, AGE)
    assert draft.content()["providers"] == {"age": "clinic"}
    draft.choose(SHOP_AGE, True)
    assert draft.content()["attributes"] == ["job", "age"]
    assert draft.content()["providers"] == {"age": "shop"}


def test_the_first_requirement_follows_the_columns_and_the_others_are_kept_in_step() -> None:
    draft = filled(JOB, AGE, DISEASE)
    assert draft.wishes[0].qid == ["job", "age"]  # what is released as it is cannot be in a QID
    draft.wishes.append(Wish("l-diversity", ["age"], {}, "disease"))
    draft.choose(AGE, False)
    draft.choose(DISEASE, False)
    assert draft.wishes[0].qid == ["job"]
    assert (draft.wishes[1].qid, draft.wishes[1].sensitive) == ([], "")


def test_the_class_is_not_asked_for_twice() -> None:
    draft = filled(JOB)
    assert draft.candidates("class") == ["disease", "income"]
    draft.class_name = "disease"
    draft.choose(DISEASE, True)
    assert draft.class_name == ""
    assert draft.candidates("class") == ["income"]


def test_numbers_are_read_as_people_write_them() -> None:
    draft = filled(JOB, AGE)
    draft.class_name, draft.most_error, draft.budget, draft.recipients = "income", "0,25", "12.50", "ben, cem"
    draft.wishes[0].numbers["k"] = " 7 "
    request = read_request(draft.content())
    assert (request.most_error, request.budget, request.recipients) == ("0.25", 1250, ("ben", "cem"))
    assert request.privacy[0].parameters() == {"k": 7}


@pytest.mark.parametrize(
    ("key", "text"), [("budget", "a lot"), ("budget", "1.234"), ("most_error", "nan"), ("most_error", "inf")]
)
def test_what_is_no_number_is_told_by_the_coordinator(key: str, text: str) -> None:
    draft = filled(JOB, AGE)
    draft.class_name = "income"
    setattr(draft, key, text)
    with pytest.raises(ParameterError, match=f"request: {key}: must be"):
        read_request(draft.content())


@pytest.mark.parametrize("model", REQUIREMENTS.plain)
def test_every_model_can_be_wished_for_as_it_stands(model: str) -> None:
    draft = filled(JOB, AGE, DISEASE)
    draft.wishes = [Wish(model, ["age"], sensitive="disease" if needs_sensitive(model) else "")]
    (part,) = read_request(draft.content()).privacy
    assert part.model == model
    assert set(numbers_of(model)) <= set(part.parameters())
    assert REQUIREMENTS[model].promise


def test_an_error_of_nothing_is_a_wish_and_not_an_empty_field() -> None:
    draft = filled(JOB, AGE)
    draft.class_name, draft.most_error = "income", "0"
    assert read_request(draft.content()).most_error == "0"


# --- the same columns about different people ---

POOLED = [
    OfferedColumn(party, "patients", name, role, party != "shop")
    for party in ("north", "south", "west", "shop")
    for name, role in (("age", "attribute"), ("ward", "attribute"), ("disease", "sensitive"), ("survived", "class"))
    if (party, name) not in {("west", "disease"), ("south", "survived")}
] + [OfferedColumn("south", "wards", "beds", "attribute", True)]


def pooled(*names: str, **fields: Any) -> RequestDraft:
    draft = RequestDraft(POOLED, kind="horizontal", purpose="research", **fields)
    for name in names:
        draft.choose_by_name(name, True)
    return draft


def test_a_horizontal_request_names_who_publishes_together() -> None:
    draft = pooled("age", "disease")
    assert draft.able == ["north", "south"]  # the shop takes part in vertical sessions only
    assert draft.lacking() == {"west": ["disease"]}
    request = read_request(draft.content())
    assert (request.arrangement, request.parties, request.colluding) == ("horizontal", ("north", "south"), 1)
    assert request.privacy[0].qid == ("age",)


def test_the_usual_m_is_the_one_of_a_request_that_says_none() -> None:
    draft = pooled("age", "ward")
    usual = read_request(draft.content())
    draft.m = ""
    assert read_request(draft.content()).colluding == usual.colluding
    draft.m = "0"
    assert read_request(draft.content()).colluding == 0
    draft.m = "1.5"
    with pytest.raises(ParameterError, match="request: m: must be a whole number"):
        read_request(draft.content())


def test_a_party_that_was_left_out_stays_out_when_columns_change() -> None:
    draft = pooled("age")
    draft.left_out.add("south")
    assert draft.together == ["north", "west"]
    draft.choose_by_name("disease", True)
    assert draft.together == ["north"]
    draft.choose_by_name("disease", False)
    assert draft.together == ["north", "west"]


def test_nobody_ticked_is_a_problem_because_a_request_without_parties_asks_everybody() -> None:
    draft = pooled("age")
    draft.left_out |= {"north", "south", "west"}
    assert "parties" not in draft.content()
    assert draft.problems() == ["parties: none is ticked; at least two must take part"]


def test_the_class_of_a_horizontal_request_is_held_by_two_and_narrows_who_can() -> None:
    draft = pooled("age")
    assert draft.candidates("class") == ["disease", "survived"]
    draft.class_name = "survived"
    assert draft.able == ["north", "west"]
    assert draft.sharers == []


def test_what_the_other_kind_has_no_use_for_comes_back() -> None:
    draft = pooled("age", "ward", m="3")
    draft.choose_setting("third_party", "trusted")
    draft.show_progress = True
    horizontal = draft.content()
    assert horizontal["algorithm"] == {"name": "mondrian", "third_party": "trusted"}
    draft.kind = "vertical"
    draft.choose(next(each for each in POOLED if each.name == "beds"), True)
    draft.method = "tds"
    draft.choose_setting("adversary", "malicious")
    draft.class_from = "north"
    vertical = read_request(draft.content())
    assert vertical.attributes == ("age", "ward", "beds")
    assert (vertical.method.settings()["adversary"], vertical.show_progress) == ("malicious", True)
    draft.kind = "horizontal"
    assert draft.content() == horizontal  # the beds are held by one party alone
    draft.kind = "vertical"
    assert read_request(draft.content()) == vertical


@pytest.mark.parametrize("m", ["0", "1"])
@pytest.mark.parametrize("third_party", ["secure", "trusted"])
@pytest.mark.parametrize("model", REQUIREMENTS.plain)
def test_models_are_offered_where_the_providers_can_test_them(model: str, third_party: str, m: str) -> None:
    draft = pooled("age", "disease", m=m)
    draft.choose_setting("third_party", third_party)
    draft.wishes = [Wish(model, ["age"], sensitive="disease" if needs_sensitive(model) else "")]
    possible = can_wrap(REQUIREMENTS[model])  # as providers' requirements are
    if possible:
        request = read_request(draft.content())
        possible = not [*request.method.refusals(Proposal(request.privacy, request.colluding))]
    assert (model in draft.models) is possible
    assert bool(draft.problems()) is not possible


def test_a_request_for_a_model_has_no_requirement() -> None:
    draft = filled(JOB, AGE)
    assert draft.content()["privacy"]
    draft.method, draft.class_name = "id3", "approved"
    assert "privacy" not in draft.content()
    assert draft.content()["algorithm"] == {"name": "id3"}
    assert not draft.problems()


def test_a_request_for_a_model_has_nothing_that_is_of_tables() -> None:
    draft = pooled("age", "ward", most_ncp="0.5", m="2")
    draft.method, draft.class_name = "logistic", "survived"
    content = draft.content()
    assert not {"privacy", "most_ncp", "m"} & content.keys()
    assert not draft.limitable
    draft.method = ""
    assert (draft.content()["m"], draft.content()["most_ncp"]) == (2, 0.5)


def test_the_roles_are_those_that_the_method_declares() -> None:
    both = ("north", "south")
    columns = [OfferedColumn(party, "patients", "age", "attribute", True, "continuous") for party in both]
    columns += [OfferedColumn(party, "patients", "died", "event", True) for party in both]
    columns += [OfferedColumn(party, "patients", "months", "duration", True, "continuous") for party in both]
    columns += [OfferedColumn(party, "patients", "survived", "class", True) for party in both]
    draft = RequestDraft(columns, kind="horizontal", purpose="research")
    assert draft.roles == {"class": ""}
    draft.name_role("class", "survived")
    draft.method = "cox"
    assert draft.roles == {"duration": "", "event": ""}
    assert draft.candidates("duration") == ["months", "age"]
    assert draft.candidates("event") == ["died", "survived"]
    draft.choose_by_name("age", True)
    assert draft.candidates("duration") == ["months"]
    draft.name_role("duration", "months")
    draft.name_role("event", "died")
    assert read_request(draft.content()).roles == {"duration": "months", "event": "died"}
    assert refilled(columns, draft.content(), "ana").content() == draft.content()
    draft.method = "logistic"
    assert read_request(draft.content()).roles == {"class": "survived"}


def test_the_methods_parameters_are_those_that_it_declares() -> None:
    draft = filled(JOB, AGE)
    assert "algorithm" not in draft.content()  # it is left open
    assert list(draft.methods) == ["auto", "tds", "dka", "mondrian", "id3", "bayes-net", "joint-keys"]
    draft.method = "tds"
    assert (draft.setting("argmax"), draft.setting("score"), draft.setting("third_party")) == ("secure", "", "")
    draft.choose_setting("epsilon", "0,5")
    draft.choose_setting("argmax", "secure")
    assert draft.content()["algorithm"] == {"name": "tds", "epsilon": 0.5}
    draft.choose_setting("epsilon", "a lot")
    with pytest.raises(ParameterError, match=r"request: algorithm.epsilon: must be a finite number of at least 0"):
        read_request(draft.content())
    draft.method = "dka"
    assert draft.content()["algorithm"] == {"name": "dka"}
    draft.choose_setting("local", "mondrian")
    assert read_request(draft.content()).method.settings() == {
        "name": "dka",
        "local": "mondrian",
        "join": "assembler",
        "align": "auto",
    }
    draft.method = "tds"
    assert draft.setting("epsilon") == "a lot"


def test_a_switch_of_a_method_is_sent_as_one() -> None:
    draft = pooled("age", "ward")
    assert (draft.setting("strict"), draft.setting("provider_aware")) == ("false", "")
    draft.choose_setting("strict", "false")
    assert "algorithm" not in draft.content()
    draft.choose_setting("strict", "true")
    draft.choose_setting("provider_aware", "false")
    assert draft.content()["algorithm"] == {"name": "mondrian", "strict": True, "provider_aware": False}
    draft.choose_setting("provider_aware", "")
    assert read_request(draft.content()).method.settings() == {
        "name": "mondrian",
        "third_party": "secure",
        "strict": True,
    }


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(words, min_size=1, max_size=4, unique=True), words, st.booleans(), st.integers(1, 10**6))
def test_toml_and_json_say_the_same(names: list[str], purpose: str, show: bool, k: int) -> None:
    columns = [OfferedColumn("bank", "customers", name, "attribute") for name in names]
    columns += [OfferedColumn("shop", "club", names[0], "attribute")]
    draft = RequestDraft(columns, purpose=purpose, show_progress=show)
    for column in columns[: len(names)]:
        draft.choose(column, True)
    draft.wishes[0].numbers["k"] = str(k)
    content = draft.content()
    assert tomllib.loads(as_toml(content))["request"] == content
    assert json.loads(as_json(content)) == content


def test_every_kind_of_session_is_shown() -> None:
    assert KINDS.keys() == RULES.keys()


# --- a request that was made before ---


def test_a_request_fills_the_form_in_again() -> None:
    draft = filled(JOB, SHOP_AGE, DISEASE)
    draft.class_name, draft.most_error, draft.budget, draft.recipients = "income", "0.3", "25.50", "ben cleo"
    draft.wishes.append(Wish("l-diversity", ["job"], {"l": "4"}, "disease"))
    draft.choose_setting("argmax", "plain")
    draft.show_progress = True
    asked = read_request(draft.content()).asked_by("ana")
    assert refilled(ALL, asked.content(), "ana").content() == draft.content()


def test_the_same_for_providers_of_the_same_columns() -> None:
    north, south, west = (
        OfferedColumn(name, "patients", "age", "attribute", True) for name in ("north", "south", "west")
    )
    draft = RequestDraft([north, south, west], kind="horizontal", purpose="research", m="2", left_out={"west"})
    draft.choose(north, True)
    again = refilled(draft.offered, read_request(draft.content()).content(), "ana")
    assert again.content() == draft.content()
    assert again.together == ["north", "south"]


def test_what_nobody_offers_any_more_is_left_out() -> None:
    asked = read_request(filled(JOB, AGE).content()).content()
    again = refilled([JOB, INCOME], asked | {"privacy": [{"model": "gone", "qid": ["job"]}]}, "ana")
    assert again.content()["attributes"] == ["job"]
    assert [wish.model for wish in again.wishes] == ["k-anonymity"]


# --- boundaries, weights and priorities ---

LIMITED = [
    OfferedColumn("bank", "people", "job", "attribute", True),
    OfferedColumn("clinic", "people", "age", "attribute", True),
    OfferedColumn("clinic", "people", "disease", "sensitive", True),
]


def limited() -> RequestDraft:
    made = RequestDraft(LIMITED, purpose="research")
    for column in LIMITED:
        made.choose(column, True)
    return made


def test_a_draft_sends_boundaries_and_weights_as_a_request_has_them() -> None:
    made = limited()
    made.limits = {
        "age": {"coarsest": "20", "finest": " 2,5 ", "weight": "3"},
        "job": {"coarsest": "Blue-collar, White-collar", "weight": ""},
        "disease": {"weight": "5"},
    }
    assert made.content()["boundaries"] == {
        "job": {"max_generalization": ["Blue-collar", "White-collar"]},
        "age": {"max_width": 20, "min_width": 2.5, "weight": 3},
    }
    request = read_request(made.content())
    assert request.terms["age"].max_width == "20"
    again = refilled(LIMITED, request.content(), "ana")
    assert again.content()["boundaries"]["job"] == made.content()["boundaries"]["job"]
    assert read_request(again.content()) == request
    assert 'boundaries = { job = { max_generalization = ["Blue-collar", "White-collar"] }' in as_toml(made.content())


def test_a_priority_is_a_table() -> None:
    made = limited()
    made.method = "mondrian"
    made.choose_setting("priority", "spread 1, weight = 2")
    content = made.content()
    assert content["algorithm"] == {"name": "mondrian", "priority": {"spread": 1, "weight": 2}}
    again = refilled(LIMITED, read_request(content).content(), "ana")
    assert again.content()["algorithm"] == content["algorithm"]
    made.choose_setting("priority", "much")
    assert made.content()["algorithm"]["priority"] == "much", "for the coordinator to reject"


def test_only_kinds_that_keep_boundaries_ask_for_them() -> None:
    made = limited()
    made.limits = {"age": {"coarsest": "20"}}
    assert "constrained-k-anonymity" in made.models
    made.kind = "horizontal"
    assert "boundaries" not in made.content()
