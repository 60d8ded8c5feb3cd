"""What a request can expect: from cards alone, as the formula says, and never more exact than the cards."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from masquerade.service.agree.quality import expected, said_of_expected
from masquerade.service.cards import SchemaCard
from masquerade.service.resources import ExpectedQuality
from service.parties import BANK, CLINIC, request


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
