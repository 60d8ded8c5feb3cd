"""What a warning advises after a release is held against the rules of the ledgers that have this release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize.release import (
    ADVICE,
    AS_NUMBERS,
    HELP,
    IN_A_QID,
    LARGER_K,
    ONE_PROVIDER,
    OVER_ALL,
    PROTECT,
    PROTECT_CLASS,
    READ_AGAIN,
    Advice,
    VerifiedRelease,
    cautions,
)
from masquerade.report.release import render_report
from masquerade.service.agree.further_releases import against_second, rolls_up
from masquerade.service.agree.terms import Terms
from masquerade.service.coordinator.release_files import bound
from service.parties import K, dealt, request

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
def test_advice_that_may_follow_a_release_is_what_the_ledgers_accept(advice: Advice) -> None:
    asked = FOLLOWED[advice]()
    taken = [not against_second(TERMS, each) or rolls_up(TERMS, each) for each in asked]
    assert set(taken) == {advice.coarser}


@pytest.mark.parametrize("advice", ADVICE, ids=lambda each: each.text[:20])
def test_only_such_advice_is_given_once_a_release_binds(advice: Advice) -> None:
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
    texts = {
        release: " ".join((*cautions(release), render_report(release, "0" * 64))) for release in (free, tied)
    }
    assert any(advice.text in texts[free] for advice in refused)
    assert not any(advice.text in texts[tied] for advice in refused)
