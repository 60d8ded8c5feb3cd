"""Boundaries, weights and priorities that a draft sends, and a session's request refills."""

from __future__ import annotations

from masquerade.console.draft import OfferedColumn, RequestDraft, as_toml, refilled
from masquerade.service import read_request

COLUMNS = [
    OfferedColumn("bank", "people", "job", "attribute", True),
    OfferedColumn("clinic", "people", "age", "attribute", True),
    OfferedColumn("clinic", "people", "disease", "sensitive", True),
]


def draft() -> RequestDraft:
    made = RequestDraft(COLUMNS, purpose="research")
    for column in COLUMNS:
        made.choose(column, True)
    return made


def test_a_draft_sends_boundaries_and_weights_as_a_request_has_them() -> None:
    made = draft()
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
    again = refilled(COLUMNS, request.content(), "ana")
    assert again.content()["boundaries"]["job"] == made.content()["boundaries"]["job"]
    assert read_request(again.content()) == request
    assert 'boundaries = { job = { max_generalization = ["Blue-collar", "White-collar"] }' in as_toml(made.content())


def test_a_priority_is_a_table() -> None:
    made = draft()
    made.method = "mondrian"
    made.choose_setting("priority", "spread 1, weight = 2")
    content = made.content()
    assert content["algorithm"] == {"name": "mondrian", "priority": {"spread": 1, "weight": 2}}
    again = refilled(COLUMNS, read_request(content).content(), "ana")
    assert again.content()["algorithm"] == content["algorithm"]
    made.choose_setting("priority", "much")
    assert made.content()["algorithm"]["priority"] == "much", "for the coordinator to reject"


def test_only_kinds_that_keep_boundaries_ask_for_them() -> None:
    made = draft()
    made.limits = {"age": {"coarsest": "20"}}
    assert "constrained-k-anonymity" in made.models
    made.kind = "horizontal"
    assert "boundaries" not in made.content()
