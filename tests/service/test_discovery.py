"""Which parties a request needs, and what stands against it by their cards alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import HELP, IN_A_QID, OVER_ALL, PROTECT, PROTECT_CLASS, VerifiedRelease, cautions
from masquerade.anonymize.release import ADVICE, AS_NUMBERS, LARGER_K, ONE_PROVIDER, READ_AGAIN, Advice
from masquerade.errors import ParameterError
from masquerade.report import render_report
from masquerade.service import (
    QUALITY_TERMS,
    ColumnCard,
    SchemaCard,
    limits_of,
    missed_terms,
    read_request,
    said_of,
    said_of_expected,
    why_waits,
)
from masquerade.service.agree.further_releases import against_second, rolls_up
from masquerade.service.agree.quality import expected, losses_of
from masquerade.service.agree.request import released_columns
from masquerade.service.agree.terms import Deal, Terms
from masquerade.service.coordinator.directory import find
from masquerade.service.coordinator.release_files import bound
from masquerade.service.resources import ExpectedQuality
from masquerade.service.wire.control import PublishedDataset
from service.parties import BANK, CLINIC, SHOP, K, dealt, request


def problems(offered: dict[str, tuple[PublishedDataset, ...]], **wish: Any) -> tuple[str, ...]:
    return tuple(map(str, find(read_request({"purpose": "p", **wish}), offered).problems))


def dataset(party: str, name: str, *columns: str) -> PublishedDataset:
    card = SchemaCard(party, name, "id", tuple(ColumnCard(each, "categorical") for each in columns), "00" * 32)
    return PublishedDataset(card, public=True)


def test_discovery_names_what_stands_against_a_request() -> None:
    offered = {
        "bank": (dataset("bank", "a", "age", "job"), dataset("bank", "b", "town")),
        "shop": (dataset("shop", "c", "job", "colour", "income"),),
    }
    assert problems(offered, attributes=["age", "colour"]) == ()
    assert "held by bank and shop; name one" in problems(offered, attributes=["job", "age"])[0]
    assert problems(offered, attributes=["job", "age"], providers={"job": "shop"}) == ()
    assert (
        '"bank" does not offer "colour"'
        in problems(offered, attributes=["age", "colour"], providers={"colour": "bank"})[0]
    )
    assert "one dataset of each party" in problems(offered, attributes=["age", "town", "colour"])[0]
    assert "at least two parties" in problems(offered, attributes=["age"])[0]
    assert 'no party offers "agee" (did you mean "age"?)' in problems(offered, attributes=["agee", "colour"])[0]
    assert 'class: no party offers "rich"' in problems(offered, attributes=["age", "colour"], **{"class": "rich"})[0]
    three = {**offered, "club": (dataset("club", "d", "hair"),)}
    with_class = {"purpose": "p", "attributes": ["age", "hair"], "class": "income"}
    assert find(read_request(with_class), three).parties == ("bank", "club", "shop")  # for the class alone
    assert find(read_request({**with_class, "attributes": ["age"]}), three).parties == ("bank", "shop")
    four = {**three, "tax": (dataset("tax", "e", "income"),)}
    assert "held by shop and tax; name one" in problems(four, **with_class)[0]
    named = {**with_class, "providers": {"income": "tax"}}
    assert find(read_request(named), four).parties == ("bank", "club", "tax")


@given(st.lists(st.sampled_from(["job", "salary", "age", "town", "disease", "colour"]), min_size=1, unique=True))
@settings(max_examples=examples(40), deadline=None)
def test_a_party_takes_part_exactly_when_it_contributes(attributes: list[str]) -> None:
    cards = (BANK, CLINIC, SHOP)
    offered = {card.party: (PublishedDataset(card, public=True),) for card in cards}
    found = find(read_request({"purpose": "p", "attributes": attributes}), offered)
    holding = {card.party for card in cards if set(card.names) & set(attributes)}
    assert set(found.parties) == holding
    assert bool(found.problems) is (len(holding) < 2)


# --- What a request can expect: from cards alone, as the formula says, and never more exact than the
# cards.


def wish(*qids: tuple[list[str], int], **more: Any) -> Any:
    return request(privacy=[{"model": "k-anonymity", "qid": qid, "k": k} for qid, k in qids], **more)


def told(asked: Any, *cards: SchemaCard) -> tuple[int, int, float | None] | None:
    found = expected(asked, cards or (BANK, CLINIC))
    return None if found is None else (found.records, found.groups, found.ncp)


def test_the_fewest_records_make_the_groups_that_attributes_share() -> None:
    assert told(wish((["age"], 50))) == (5000, 100, 0.01)
    assert told(wish((["age", "job"], 50))) == (5000, 100, 0.1)
    # age: the worse of 100^(-1/2) and 10^(-1/1); job as in the first
    assert told(wish((["age", "job"], 50), (["age"], 500))) == (5000, 10, 0.1)
    assert told(wish((["age", "job", "town"], 5000))) == (5000, 1, 1.0)


def test_too_few_records_and_cards_that_do_not_tell() -> None:
    assert told(wish((["age"], 5001))) == (5000, 0, None)
    silent = [dataclasses.replace(card, records=None) for card in (BANK, CLINIC)]
    assert told(wish((["age"], 50)), *silent) is None
    assert told(wish((["age"], 50)), BANK) is None  # nobody shows a card with the age
    assert told(wish()) is None


def test_providers_put_their_records_together() -> None:
    cards = [dataclasses.replace(CLINIC, party=name, horizontal=True) for name in ("north", "south")]
    assert told(wish((["age"], 100), kind="horizontal", **{"class": None}), *cards) == (10_000, 100, 0.01)
    cards[0] = dataclasses.replace(cards[0], records=None)
    assert told(wish((["age"], 100), kind="horizontal", **{"class": None}), *cards) is None


@pytest.mark.parametrize(("limit", "lines"), [(None, 2), (0.5, 2), (0.05, 3)])
def test_in_words(limit: float | None, lines: int) -> None:
    said = said_of_expected(ExpectedQuality(records=5000, groups=100, ncp=0.1), limit)
    assert len(said) == lines
    assert said[0] == "At most 5,000 records, so at most 100 groups."
    none = ExpectedQuality(records=50, groups=0, ncp=None)
    assert said_of_expected(none, limit) == ["There are at most 50 records: too few for a single group."]


# --- The quality that a client asks for: limits on figures of a release, and how they are judged and
# told.


def missed(**told: Any) -> list[str]:
    return [term.key for term in missed_terms(told)]


def test_a_limit_is_met_by_a_figure_that_was_measured() -> None:
    assert missed(error=0.25, most_error=0.25) == []
    assert missed(error=0.2500001, most_error=0.25) == ["most_error"]
    assert missed(error=None, most_error=1.0) == ["most_error"]
    assert missed(error=0.9, ncp=0.9, query_error=7.0) == []
    assert missed(ncp=0.6, most_ncp=0.5, query_error=None, most_query_error=2.0) == ["most_ncp", "most_query_error"]


def test_every_limit_goes_from_the_request_into_the_deal_and_back() -> None:
    limits = {"most_error": 0.3, "most_ncp": 0.4, "most_query_error": 2.5}
    asked = request(**limits)
    deal = Deal.read(dealt(asked).canonical())
    assert limits_of(asked) == limits_of(deal) == limits_of(deal.asked) == limits
    assert {*limits} == {term.key for term in QUALITY_TERMS}


def test_two_of_them_need_no_class() -> None:
    asked = request(**{"class": None, "most_ncp": 0.4, "most_query_error": 0.5})
    assert limits_of(dealt(asked)) == {"most_ncp": 0.4, "most_query_error": 0.5}
    with pytest.raises(ParameterError, match="most_ncp: must be a number of at least 0 and at most 1"):
        request(most_ncp=1.5)
    with pytest.raises(ParameterError, match="most_query_error: must be a number of at least 0 and at most 1000"):
        request(most_query_error=-1)


def test_figures_and_limits_in_words() -> None:
    error, ncp, queries = QUALITY_TERMS
    for term, told, words in (
        (error, {"error": 0.4, "most_error": 0.1}, "classification error is 0.4, and at most 0.1 was wished"),
        (ncp, {"ncp": 0.25}, "loss of detail (NCP) is 0.25"),
        (ncp, {"ncp": 0.25, "information_kept": 0.61}, "loss of detail (NCP) is 0.25 (61% of the information is kept)"),
        (queries, {"most_query_error": 2.0}, "query error could not be measured, and at most 2 was wished"),
    ):
        assert said_of(term, told) == words


def test_columns_that_lost_nearly_everything_are_told_with_what_would_help() -> None:
    kinds = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy="flat")])
    table = mq.Table(pa.table({"age": [1, 1, 1, 2], "job": list("aaab")}), kinds)
    release = mq.anonymize(table, mq.KAnonymity(["age", "job"], k=4), mq.Mondrian())
    terms = dealt(request()).terms
    told = losses_of(release, terms)
    everything, nothing = {"age": 1.0, "job": 1.0}, {"age": 0.0, "job": 0.0}
    assert told == {"losses": everything, "kept": nothing, "lost": everything}
    assert why_waits(told)[:2] == [
        "age lost 100% of its detail and keeps 0% of its information",
        "job lost 100% of its detail and keeps 0% of its information",
    ]
    assert "another method" in why_waits(told)[-1]
    assert len(why_waits(told | {"declines": 0})) == 2, "the ledgers would refuse it"
    kept = mq.anonymize(table, mq.KAnonymity(["age", "job"], k=1), mq.Mondrian())
    assert losses_of(kept, terms) == {"losses": nothing, "kept": everything}
    assert why_waits({}) == []
    assert why_waits({"estimate": True}) == ["an estimate was asked for"]
    assert losses_of(release, msgspec.structs.replace(terms, source="0" * 64)) == {}, (
        "a roll-up compares with no original"
    )


# --- Publishing a release: its columns come in the order of the request ---

ASKED = {"purpose": "p", "attributes": ["disease", "salary", "sex"], "class": "approved"}


def test_columns_come_as_they_were_asked_for_and_the_class_last() -> None:
    assert released_columns(ASKED) == ["disease", "salary", "sex", "approved"]
    assert released_columns({**ASKED, "class": None}) == ["disease", "salary", "sex"]


# --- What a warning advises after a release is held against the rules of the ledgers that have this
# release.

QID = ["age", "job"]
TERMS = dealt(
    request(
        attributes=["age", "job", "salary", "disease"],
        privacy=[{"model": K, "qid": QID, "k": 5}],
        algorithm={"name": "tds"},
    )
).terms


def changed(**fields: Any) -> Terms:
    return msgspec.structs.replace(TERMS, **fields)


def required(*entries: dict[str, Any]) -> Terms:
    return changed(requirements=(*TERMS.requirements, *entries))


def other_provision(**fields: str) -> Terms:
    first, *others = TERMS.provisions
    return changed(provisions=(msgspec.structs.replace(first, **fields), *others))


OF_DISEASE = {"model": "l-diversity", "qid": QID, "sensitive": "disease", "l": 2}
FOLLOWED: dict[Advice, Callable[[], list[Terms]]] = {  # what the parties would be asked for next
    HELP: lambda: [
        changed(method=TERMS.method | {"name": "mondrian"}),
        changed(method=TERMS.method | {"score": "info-gain"}),
        changed(requirements=({"model": K, "qid": ["age"], "k": 5},)),
        other_provision(schema="dd" * 32),
    ],
    LARGER_K: lambda: [changed(requirements=tuple(dict(each) | {"k": 50} for each in TERMS.requirements))],
    READ_AGAIN: lambda: [other_provision(snapshot="dd" * 32)],
    ONE_PROVIDER: lambda: [other_provision(snapshot="dd" * 32)],
    AS_NUMBERS: lambda: [other_provision(schema="dd" * 32)],
    OVER_ALL: lambda: [required({"model": K, "qid": ["age", "job", "salary"], "k": 50})],
    IN_A_QID: lambda: [other_provision(schema="dd" * 32)],  # it is an attribute there from now on
    PROTECT: lambda: [required(OF_DISEASE)],
    PROTECT_CLASS: lambda: [other_provision(schema="dd" * 32)],
}


def lost(k: int = 4) -> VerifiedRelease:
    flat = (mq.Attribute(name, taxonomy="flat") for name in ("job", "town"))
    kinds = mq.Schema([mq.Attribute("age", "continuous"), *flat])
    table = mq.Table(pa.table({"age": [1, 1, 1, 2], "job": list("aaab"), "town": list("xxyy")}), kinds)
    return mq.anonymize(table, mq.KAnonymity(["age", "job"], k=k), mq.Mondrian())


@pytest.mark.parametrize("advice", ADVICE, ids=lambda each: each.text[:20])
def test_only_advice_that_the_ledgers_accept_is_given_once_a_release_binds(advice: Advice) -> None:
    taken = {not against_second(TERMS, each) or rolls_up(TERMS, each) for each in FOLLOWED[advice]()}
    assert taken == {advice.coarser}
    release = bound(lost(), TERMS)
    assert isinstance(release, VerifiedRelease)
    assert bool(advice.given(release)) == advice.coarser
    assert not advice.given(replace(release, followed_by="nothing"))
    assert advice.given(lost()), "one table is nobody's ledger"


def test_where_boundaries_hold_not_even_a_larger_k_is_advised() -> None:
    terms = dealt(request(boundaries={"age": {"max_width": 20}})).terms
    release = bound(lost(), terms)
    assert isinstance(release, VerifiedRelease)
    assert release.followed_by == "nothing"


@pytest.mark.parametrize("k", [1, 4])
def test_no_page_of_a_release_that_binds_advises_what_would_be_refused(k: int) -> None:
    free, tied = lost(k), bound(lost(k), TERMS)
    assert isinstance(tied, VerifiedRelease)
    refused = [advice for advice in ADVICE if not advice.coarser]
    texts = {release: " ".join((*cautions(release), render_report(release, "0" * 64))) for release in (free, tied)}
    assert any(advice.text in texts[free] for advice in refused)
    assert not any(advice.text in texts[tied] for advice in refused)
