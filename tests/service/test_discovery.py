"""Which parties a request needs, and what stands against it by their cards alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from masquerade.service.agree.request import read_request
from masquerade.service.cards import ColumnCard, SchemaCard
from masquerade.service.coordinator.directory import find
from masquerade.service.wire.control import PublishedDataset
from service.parties import BANK, CLINIC, SHOP


def problems(offered: dict[str, tuple[PublishedDataset, ...]], **wish: Any) -> tuple[str, ...]:
    return tuple(map(str, find(read_request({"purpose": "p", **wish}), offered).problems))


def dataset(party: str, name: str, *columns: str) -> PublishedDataset:
    card = SchemaCard(
        party, name, "id", tuple(ColumnCard(each, "categorical") for each in columns), "00" * 32
    )
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
    assert (
        'no party offers "agee" (did you mean "age"?)' in problems(offered, attributes=["agee", "colour"])[0]
    )
    assert (
        'class: no party offers "rich"'
        in problems(offered, attributes=["age", "colour"], **{"class": "rich"})[0]
    )
    three = {**offered, "club": (dataset("club", "d", "hair"),)}
    with_class = {"purpose": "p", "attributes": ["age", "hair"], "class": "income"}
    assert find(read_request(with_class), three).parties == ("bank", "club", "shop")  # for the class alone
    assert find(read_request({**with_class, "attributes": ["age"]}), three).parties == ("bank", "shop")
    four = {**three, "tax": (dataset("tax", "e", "income"),)}
    assert "held by shop and tax; name one" in problems(four, **with_class)[0]
    named = {**with_class, "providers": {"income": "tax"}}
    assert find(read_request(named), four).parties == ("bank", "club", "tax")


@given(
    st.lists(st.sampled_from(["job", "salary", "age", "town", "disease", "colour"]), min_size=1, unique=True)
)
@settings(max_examples=examples(40), deadline=None)
def test_a_party_takes_part_exactly_when_it_contributes(attributes: list[str]) -> None:
    cards = (BANK, CLINIC, SHOP)
    offered = {card.party: (PublishedDataset(card, public=True),) for card in cards}
    found = find(read_request({"purpose": "p", "attributes": attributes}), offered)
    holding = {card.party for card in cards if set(card.names) & set(attributes)}
    assert set(found.parties) == holding
    assert bool(found.problems) is (len(holding) < 2)
