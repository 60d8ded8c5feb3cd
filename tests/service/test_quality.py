"""The quality that a client asks for: limits on figures of a release, and how they are judged and told."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.errors import ParameterError
from masquerade.service.agree.quality import (
    QUALITY_TERMS,
    limits_of,
    losses_of,
    missed_terms,
    said_of,
    why_waits,
)
from masquerade.service.agree.terms import Deal
from service.parties import dealt, request


def missed(**told: Any) -> list[str]:
    return [term.key for term in missed_terms(told)]


def test_a_limit_is_met_by_a_figure_that_was_measured() -> None:
    assert missed(error=0.25, most_error=0.25) == []
    assert missed(error=0.2500001, most_error=0.25) == ["most_error"]
    assert missed(error=None, most_error=1.0) == ["most_error"]
    assert missed(error=0.9, ncp=0.9, query_error=7.0) == []
    assert missed(ncp=0.6, most_ncp=0.5, query_error=None, most_query_error=2.0) == [
        "most_ncp",
        "most_query_error",
    ]


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
    with pytest.raises(
        ParameterError, match="most_query_error: must be a number of at least 0 and at most 1000"
    ):
        request(most_query_error=-1)


def test_figures_and_limits_in_words() -> None:
    error, ncp, queries = QUALITY_TERMS
    assert said_of(error, {"error": 0.4, "most_error": 0.1}) == (
        "classification error is 0.4, and at most 0.1 was wished"
    )
    assert said_of(ncp, {"ncp": 0.25}) == "loss of detail (NCP) is 0.25"
    assert said_of(ncp, {"ncp": 0.25, "information_kept": 0.613}) == (
        "loss of detail (NCP) is 0.25 (61% of the information is kept)"
    )
    assert said_of(queries, {"most_query_error": 2.0}) == (
        "query error could not be measured, and at most 2 was wished"
    )


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
