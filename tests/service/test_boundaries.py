"""Boundaries and weights from the request and the parties' policies to the contract, and kept by the release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.csv
import pytest
from hypothesis import given, strategies as st

import masquerade as mq
from masquerade.errors import ParameterError
from masquerade.protocol import AttributeTerms, Contribution
from masquerade.service import Ledger, Status, read_request
from masquerade.service.agree.answering import accepts, answer
from masquerade.service.agree.boundaries import combined, offered_terms
from masquerade.service.agree.policy import check_policy, read_policy
from masquerade.service.agree.terms import Offer, Refusal
from papers.paper_tables import JOB
from service.parties import BANK, CLINIC, NOW, OPEN, dealt, offer, policy, reasons, request
from service_house import House

SCHEMA = mq.Schema([mq.Attribute("job", taxonomy=mq.Taxonomy(JOB)), mq.Attribute("salary", "continuous")])
WISHED = {"boundaries": {"age": {"max_width": 20, "weight": 2.5}}}


def test_wishes_and_policies_meet_in_the_contract() -> None:
    """The finest of all "never coarser than", and the coarsest of all "never finer than"."""
    strict = policy(boundaries={"age": {"never_coarser_than": 30, "never_finer_than": 5}})
    deal = dealt(request(**WISHED), clinic=strict)
    assert deal.terms.attributes == (AttributeTerms("age", (), "20", (), "5", "2.5"),)
    assert deal.terms.contract("").weights == {"age": 2.5}
    narrower = policy(boundaries={"age": {"never_coarser_than": 10}})
    assert dealt(request(**WISHED), clinic=narrower).terms.attributes[0].max_width == "10"
    assert accepts(strict, deal, CLINIC, Ledger(), NOW) == ()
    assert accepts(policy(), deal, BANK, Ledger(), NOW) == ()


def test_a_deal_with_other_boundaries_is_not_signed() -> None:
    strict = policy(boundaries={"age": {"never_coarser_than": 10}})
    deal = dealt(request(**WISHED))
    assert "the deal has other boundaries than offered" in accepts(strict, deal, CLINIC, Ledger(), NOW)
    without = msgspec.structs.replace(deal, terms=msgspec.structs.replace(deal.terms, attributes=()))
    assert "the deal has other boundaries than offered" in accepts(strict, without, CLINIC, Ledger(), NOW)


def test_contradictions_are_refused_with_every_reason() -> None:
    both = policy(
        access="private", users=["ben"], boundaries={"age": {"never_finer_than": 25, "never_coarser_than": 30}}
    )
    assert set(reasons(both, request(**WISHED))) >= {
        '"age": min_width: must be at most max_width, 20; got 25',
        'user "ana" may not ask',
    }


@pytest.mark.parametrize(
    ("boundary", "reason"),
    [
        ({"never_finer_than": ["Blu-collar"]}, 'min_generalization: "Blu-collar" is no node'),
        (
            {"never_finer_than": ["Blue-collar"], "never_coarser_than": ["Technical", "Non-Technical", "White-collar"]},
            "nothing finer than Blue-collar, and nothing more general than Technical: nothing is left between",
        ),
        ({"never_coarser_than": ["Technical"]}, 'none for "Janitor", "Mover", "Manager" and 2 more'),
        ({"never_coarser_than": 5}, "max_width: belongs to numbers and dates"),
    ],
)
def test_what_a_taxonomy_does_not_have_is_told(boundary: dict[str, Any], reason: str) -> None:
    given = answer(policy(boundaries={"job": boundary}), request(), BANK, Ledger(), NOW, SCHEMA)
    assert isinstance(given, Refusal)
    assert any(reason in each for each in given.reasons), given.reasons


def test_marks_of_a_taxonomy_are_offered() -> None:
    marked = mq.Schema(
        [
            mq.Attribute("job", taxonomy=mq.Taxonomy(JOB, allowed=("Blue-collar", "White-collar"))),
            mq.Attribute("salary", "continuous"),
        ]
    )
    given = answer(policy(), request(), BANK, Ledger(), NOW, marked)
    assert isinstance(given, Offer)
    assert [each.max_generalization for each in given.attributes] == [("Blue-collar", "White-collar")]


terms = st.builds(
    AttributeTerms,
    st.just("job"),
    st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple),
    st.none() | st.integers(1, 30).map(str),
    st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple),
    st.none() | st.integers(1, 30).map(str),
)


@given(terms, terms, terms)
def test_the_order_does_not_matter_and_an_offer_adds_nothing_to_itself(
    one: AttributeTerms, two: AttributeTerms, three: AttributeTerms
) -> None:
    all_of_them = combined([one, two, three])
    assert combined([three, one, two]) == all_of_them
    assert combined([all_of_them, two]) == all_of_them
    assert combined([combined([one, two]), three]) == all_of_them


def test_a_second_release_with_other_boundaries_is_another_release() -> None:
    from masquerade.service.agree.further_releases import differences

    first, second = dealt(request()).terms, dealt(request(**WISHED)).terms
    assert differences(first, second)
    assert not differences(second, dealt(request(**WISHED)).terms)


def test_a_sensitive_column_has_no_boundaries() -> None:
    columns = [Contribution("disease", "clinic", "sensitive")]
    wished = {"disease": AttributeTerms("disease", ("flu",))}
    assert offered_terms(columns, None, {}, wished)[1] == ['"disease": it is released as it is, and has no boundaries']


def test_bad_input_names_its_key() -> None:
    tree = {"algorithm": {"name": "id3"}, "privacy": [], "most_error": None}
    width, huge = "boundaries.age.max_width: must be a number above 0; for dates, days", 10**400
    wrong: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
        *(({"age": {"max_width": each}}, {}, width) for each in (0, -1, huge, -huge, True, "nan")),
        ({"agee": {"max_width": 5}}, {}, 'boundaries.agee: "agee" is not among the attributes, but "age" is'),
        ({"age": {"max_width": 5}}, tree, "boundaries: belongs to requests for tables: a model shows"),
    )
    for limits, more, told in wrong:
        with pytest.raises(ParameterError, match=told):
            request(boundaries=limits, **more)
    with pytest.raises(ParameterError, match=r"boundaries.age"):
        read_policy(OPEN | {"boundaries": {"age": {"never_finer": 5}}})


def test_a_policy_is_held_against_the_taxonomies_when_a_node_starts() -> None:
    """Not only when somebody asks: every name of no node, with the nearest, and where it is written."""
    limits = {
        "job": {"never_coarser_than": ["Blue-colar", "White-collar"], "never_finer_than": ["Lawyr"]},
        "salary": {"never_coarser_than": 5, "never_finer_than": 10},
    }
    with pytest.raises(ParameterError) as caught:
        check_policy(policy(boundaries=limits), BANK, "bank.toml", SCHEMA)
    told = caught.value.lines
    assert [line.partition(" is no node")[0] for line in told[:2]] == [
        'bank.toml: boundaries.job.never_coarser_than: "Blue-colar"',
        'bank.toml: boundaries.job.never_finer_than: "Lawyr"',
    ]
    assert 'the nearest is "Blue-collar"' in told[0]
    assert told[2] == "bank.toml: boundaries.salary.never_finer_than: must be at most max_width, 5; got 10"
    fitting = {"job": {"never_coarser_than": ["Blue-collar", "White-collar"]}, "salary": {"never_finer_than": 5}}
    check_policy(policy(boundaries=fitting), BANK, "bank.toml", SCHEMA)


def test_a_request_is_read_back_as_it_was_written() -> None:
    wished = request(**WISHED)
    assert read_request(wished.content()) == wished
    assert offer(policy(), wished).attributes == (AttributeTerms("age", max_width="20", weight="2.5"),)


@pytest.mark.sessions
def test_a_session_keeps_to_a_policys_boundaries(tmp_path: Path) -> None:
    """Real nodes in memory: the contract has them, and the release keeps to them."""
    limits = {"age": {"never_coarser_than": 30, "never_finer_than": 5}}
    wish = {
        "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 4}],
        "class": None,
        "algorithm": {"name": "mondrian"},
        "boundaries": {"age": {"max_width": 40, "weight": 2}},
    }
    with House(tmp_path, policies={"clinic": {"boundaries": limits}}) as house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            ana = house.user("ana")
            house.known(coordinator, ana)
            done = house.finished(coordinator, coordinator.ask(ana, house.request(**wish)).id)
            assert (done.status, done.cause) == (Status.PUBLISHED, None)
            summary = coordinator.summary(ana, done.id)
            ages = pyarrow.csv.read_csv(coordinator.table(ana, done.id))["age"].to_pylist()
    assert summary["metrics"]["violations"] == 0
    for age in {*ages}:
        lo, hi = age.strip("[)").split(", ")
        assert all(end in ("-inf", "inf") or int(end) % 5 == 0 for end in (lo, hi)), age
        if "inf" not in age:
            assert int(hi) - int(lo) >= 5
