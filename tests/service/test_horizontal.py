"""Providers of the same columns: what a policy answers, what is agreed, and what a party signs. No network here."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.arrangement import PROVIDER
from masquerade.data import Attribute, Branch, Schema, Taxonomy
from masquerade.errors import ParameterError
from masquerade.privacy import ConfidenceBounding, KAnonymity, LDiversity
from masquerade.protocol import EVERYBODY, AttributeTerms
from masquerade.protocol.providers.method import refuse_impossible
from masquerade.service import ColumnCard, Ledger, Request, SchemaCard, read_request
from masquerade.service.agree.answering import accepts, answer
from masquerade.service.agree.arrangements import axes_of
from masquerade.service.agree.negotiation import CounterOffer, Refused, negotiate
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.terms import Deal, Offer, Refusal
from masquerade.service.cards import TaxonomyCard, card_of
from masquerade.service.coordinator.directory import find
from masquerade.service.ledger import record_of
from masquerade.service.wire.control import PublishedDataset
from service.parties import NOW, policy

WARDS = Taxonomy(Branch("any", (Branch("heart"), Branch("lung"))), "ward.csv")
SCHEMA = Schema([Attribute("age", "continuous", lower=0, upper=128), Attribute("ward", taxonomy=WARDS)])
AXES = axes_of(SCHEMA)
NAMES = ("north", "south", "west")
QID = ["age", "ward"]
TRUSTED = {"third_party": "trusted"}


def card(party: str, schema: Schema = SCHEMA, **changes: Any) -> SchemaCard:
    made = card_of(
        party,
        "patients",
        schema,
        identifier="ssn",
        key=party.encode(),
        sensitive=["disease"],
        classes=["survived"],
        records=950,
        snapshot=party.encode().hex() * 2,
        horizontal=True,
    )
    return dataclasses.replace(made, **changes)


CARDS = {name: card(name) for name in NAMES}


def wish(**changes: Any) -> Request:
    wanted: dict[str, Any] = {
        "kind": "horizontal",
        "purpose": "research",
        "attributes": ["age", "ward", "disease"],
        "class": "survived",
        "budget": 1_000_000,
        "privacy": [{"model": "k-anonymity", "qid": QID, "k": 5}],
    }
    return read_request(wanted | changes).asked_by("ana")


def hospital(**changes: Any) -> Policy:
    return policy(**{"least_m": 1} | changes)


def carried(
    asked: Request,
    policies: dict[str, Policy],
    schemas: dict[str, Schema] | None = None,
    order: tuple[str, ...] = NAMES,
) -> tuple[Deal | Refused, list[CounterOffer]]:
    earlier: list[CounterOffer] = []
    while True:
        current = earlier[-1].request if earlier else asked
        answers = [
            answer(policies[name], current, CARDS[name], Ledger(), NOW, (schemas or {}).get(name, SCHEMA))
            for name in order
            if name in policies
        ]
        ended = negotiate(asked, answers, earlier)
        if not isinstance(ended, CounterOffer):
            return ended, earlier
        earlier.append(ended)


def agreed(asked: Request, **policies: Policy) -> Deal:
    ended, _ = carried(asked, {name: policies.get(name, hospital()) for name in NAMES})
    assert isinstance(ended, Deal), ended
    return ended


def reasons(policy: Policy, asked: Request, schema: Schema = SCHEMA) -> tuple[str, ...]:
    given = answer(policy, asked, card("north", schema), Ledger(), NOW, schema)
    assert isinstance(given, Refusal), given
    return given.reasons


def test_the_strictest_of_all_and_the_largest_coalition() -> None:
    deal = agreed(
        wish(m=1),
        south=hospital(least_k=9),
        west=hospital(least_m=2, privacy=[{"model": "l-diversity", "sensitive": "disease", "l": 3}]),
    )
    assert set(deal.terms.parts) == {KAnonymity(QID, 9), LDiversity(QID, 3, "disease")}
    assert deal.terms.m == 2
    assert deal.terms.arrangement == "horizontal"
    assert {column.holder for column in deal.terms.columns} == {EVERYBODY}
    assert deal.terms.axes == AXES
    contract = deal.terms.contract("00" * 16)
    assert contract.method == {
        "name": "mondrian",
        "third_party": "secure",
        "choose": "public",
        "strict": False,
        "provider_aware": True,
    }
    assert (contract.m, contract.provider, contract.keep_provider) == (2, PROVIDER, False)
    assert contract.columns_needed("south") == ("age", "ward", "disease", "survived")
    assert deal.records == 3 * 1000
    assert deal.asked == wish(
        m=2, parties=list(NAMES), privacy=list(deal.terms.requirements), recipients=["ana"], algorithm=deal.terms.method
    )


def test_a_k_above_all_records_together_is_refused() -> None:
    def of(k: int) -> Request:
        return wish(privacy=[{"model": "k-anonymity", "qid": QID, "k": k}])

    assert agreed(of(3000)).terms.parts == (KAnonymity(QID, 3000),)
    ended, _ = carried(of(3001), {name: hospital() for name in NAMES})
    assert isinstance(ended, Refused)
    (line,) = ended.lines
    assert line.startswith("request: k-anonymity (k = 3001) over ")
    assert line.endswith(" cannot be reached: the parties have at most 3000 records together")
    # Who does not tell, or does not offer, may have as many as are lacking.
    assert agreed(of(3001), west=hospital(publish_records=False)).records is None
    ended, _ = carried(of(2500), {name: hospital() for name in NAMES} | {"west": hospital(purposes=["x"])})
    assert isinstance(ended, Refused)
    assert set(ended.reasons) == {"west"}


def test_without_a_word_one_provider_may_be_curious() -> None:
    assert agreed(wish(), west=hospital(least_m=0)).terms.m == 1
    ended, earlier = carried(wish(m=0), {name: hospital(least_m=0) for name in NAMES})
    assert isinstance(ended, Deal)
    assert ended.terms.m == 0
    assert len(earlier) <= 1


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(2, 9), st.sampled_from([None, 2, 3])), min_size=3, max_size=3),
    st.integers(0, 3),
)
def test_the_order_of_answers_does_not_matter_and_everybody_signs(
    insisted: list[tuple[int, int, int | None]], m: int
) -> None:
    policies = {}
    for name, (least_m, least_k, values) in zip(NAMES, insisted, strict=True):
        models = [] if values is None else [{"model": "l-diversity", "sensitive": "disease", "l": values}]
        policies[name] = hospital(least_m=least_m, least_k=least_k, privacy=models)
    asked = wish(m=m)
    deals = set()
    for order in itertools.permutations(NAMES):
        ended, _ = carried(asked, policies, order=order)
        assert isinstance(ended, Deal), ended
        deals.add(ended.canonical())
    (only,) = deals
    deal = Deal.read(only)
    assert deal.terms.m == max([m, *(each for each, _, _ in insisted)])
    for name in NAMES:
        assert accepts(policies[name], deal, CARDS[name], Ledger(), NOW, SCHEMA) == ()
        for part in deal.terms.parts:
            if isinstance(part, KAnonymity):
                assert part.k >= policies[name].least(part.qid)


def test_a_policy_without_least_m_takes_part_in_vertical_sessions_only() -> None:
    (reason,) = reasons(policy(), wish())
    assert reason.startswith("patients takes part in vertical sessions only: its policy has no least_m")


def test_every_reason_of_a_provider() -> None:
    flat = Schema([Attribute("age", "continuous"), Attribute("ward", taxonomy="flat")])
    told = reasons(
        hospital(methods={"mondrian": {"third_party": ["trusted"]}}),
        wish(parties=["south", "west"], attributes=["age", "ward", "disease", "job"]),
        flat,
    )
    assert told == (
        'third_party "secure" is not allowed; allowed: trusted',
        "is none of the parties that are to publish together: south, west",
        'patients has no column "job"; it has age, ward, disease, survived',
        '"ward": "flat" is made of all providers\' values, which third_party = "secure" keeps apart; '
        "give a taxonomy file",
    )
    assert '"flat"' not in " ".join(reasons(hospital(), wish(algorithm=TRUSTED), flat))


def test_all_of_a_providers_records_are_released_so_its_price_is_fixed() -> None:
    dear = hospital(price={"per_attribute": 10, "per_record": 3})
    given = answer(dear, wish(), CARDS["north"], Ledger(), NOW, SCHEMA)
    assert isinstance(given, Offer)
    assert (given.price.fixed, given.price.per_record) == (4 * 10 + 3 * 1000, 0)
    ended, _ = carried(wish(budget=3000), {"north": dear, "south": hospital()})
    assert isinstance(ended, Refused)
    assert ended.lines == ("request: costs up to 3040 cents (north 3040, south 0); the budget is 3000",)


def test_attributes_that_are_not_generalised_alike_are_told_with_who_does_how() -> None:
    wider = Schema([Attribute("age", "continuous", lower=0), Attribute("ward", taxonomy=WARDS)])
    other = Taxonomy(Branch("any", (Branch("heart"), Branch("lung"), Branch("skin"))), "ward.csv")
    trees = Schema([Attribute("age", "continuous", lower=0, upper=128), Attribute("ward", taxonomy=other)])
    policies = {name: hospital() for name in NAMES}
    ended, _ = carried(wish(), policies, {"south": wider, "west": trees})
    assert isinstance(ended, Refused)
    ages, wards = ended.lines
    assert ages == (
        'request: "age" is not generalised alike: north as continuous from 0 and below 128, south as continuous '
        "from 0, west as continuous from 0 and below 128; agree on one taxonomy and the same bounds"
    )
    assert wards.startswith('request: "ward" is not generalised alike: north by taxonomy ')


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"m": 0}, "the deal has m = 0; the policy insists on 1"),
        (
            {"arrangement": "vertical"},
            "deal: algorithm.third_party: belongs to mondrian between parties with the same columns",
        ),
        ({"method": {"name": "mondrian", **TRUSTED}}, 'third_party "trusted" is not allowed'),
        ({"method": {"name": "mondrian"}}, "the deal is carried out in another way"),  # not spelled out
        ({"method": {"name": "tds"}}, 'deal: algorithm.name: "tds" is not for parties that hold their data like this'),
        ({"method": {"name": "mondrian", "keep_provider": True}}, "deal: algorithm.keep_provider: unknown key"),
        ({"axes": AXES[:1]}, "the deal generalises attributes in another way than offered"),
        ({"requirements": ()}, "the deal lacks k-anonymity"),
        ({"class_from": "south"}, "the deal is carried out in another way than its request asks for"),
        ({"method": {"name": "mondrian", "score": "gain-ratio"}}, "deal: algorithm.score: belongs to tds"),
        ({"method": {"name": "mondrian", "adversary": "malicious"}}, "deal: algorithm.adversary: belongs to tds"),
        ({"normalize": "none"}, "the deal is carried out in another way than its request asks for"),
    ],
)
def test_a_party_does_not_sign_what_the_coordinator_has_changed(change: dict[str, Any], reason: str) -> None:
    deal = agreed(wish(m=1))
    changed = msgspec.structs.replace(deal, terms=msgspec.structs.replace(deal.terms, **change))
    against = accepts(hospital(), changed, CARDS["north"], Ledger(), NOW, SCHEMA)
    assert any(each.startswith(reason) for each in against), against


def test_boundaries_of_all_policies_and_of_the_request_meet() -> None:
    """All hold the column, so each may limit it: the finest "never coarser than", the coarsest "never finer than"."""
    asked = wish(boundaries={"age": {"max_width": 32, "weight": 2}})
    north = hospital(boundaries={"age": {"never_coarser_than": 16}, "ward": {"never_coarser_than": ["heart", "lung"]}})
    south = hospital(boundaries={"age": {"never_coarser_than": 64, "never_finer_than": 4}})
    deal = agreed(asked, north=north, south=south)
    assert deal.terms.attributes == (
        AttributeTerms("age", (), "16", (), "4", "2"),
        AttributeTerms("ward", ("heart", "lung")),
    )
    for name, own in (("north", north), ("south", south), ("west", hospital())):
        assert accepts(own, deal, CARDS[name], Ledger(), NOW, SCHEMA) == ()
    without = msgspec.structs.replace(deal, terms=msgspec.structs.replace(deal.terms, attributes=()))
    refused = "the deal has other boundaries than offered"
    assert refused in accepts(north, without, CARDS["north"], Ledger(), NOW, SCHEMA)
    assert accepts(hospital(), without, CARDS["west"], Ledger(), NOW, SCHEMA) == ()


def test_the_same_again_is_within_the_boundaries_that_others_asked_for() -> None:
    """A party that limits nothing itself still offers what was agreed before, not something looser."""
    deal = agreed(wish(), north=hospital(boundaries={"age": {"never_coarser_than": 16}}))
    ledger = Ledger((record_of(deal, "west", NOW),))
    again = answer(hospital(), wish(), CARDS["west"], ledger, NOW, SCHEMA)
    assert isinstance(again, Offer), again
    assert again.attributes == deal.terms.attributes
    narrower = answer(hospital(), wish(boundaries={"age": {"max_width": 8}}), CARDS["west"], ledger, NOW, SCHEMA)
    assert isinstance(narrower, Refusal)
    assert "boundary of age" in narrower.reasons[0]


def test_what_a_second_release_may_not_change() -> None:
    first = agreed(wish(m=1))
    ledger = Ledger((record_of(first, "north", NOW),))

    def against(**changes: Any) -> str:
        given = answer(hospital(), wish(**changes), CARDS["north"], ledger, NOW, SCHEMA)
        return "; ".join(given.reasons) if isinstance(given, Refusal) else ""

    assert against(m=1) == against(m=0) == ""  # less is answered with what was agreed then
    assert "m = 1" in against(m=2)
    assert "already released with k-anonymity" in against(privacy=[{"model": "k-anonymity", "qid": QID, "k": 6}])
    assert against(attributes=["age", "disease", "ward"]) == ""  # what is released as it is comes last anyway
    assert (
        "in the order age, ward, disease; a second release with the columns in the order ward, age, disease could"
        in against(attributes=["ward", "age", "disease"])
    )
    wider = dataclasses.replace(CARDS["north"], schema="ff" * 32)
    given = answer(hospital(), wish(m=1), wider, ledger, NOW, SCHEMA)
    assert isinstance(given, Refusal)
    assert "already released with schema of north = " in given.reasons[0]
    north, south, west = first.terms.provisions
    assert accepts(hospital(), first, CARDS["north"], ledger, NOW, SCHEMA) == ()
    for provisions, difference in (
        ((north, msgspec.structs.replace(south, snapshot="ee" * 32), west), "table of south"),
        ((north, south), "parties"),
    ):
        again = msgspec.structs.replace(first, terms=msgspec.structs.replace(first.terms, provisions=provisions))
        (told,) = accepts(hospital(), again, CARDS["north"], ledger, NOW, SCHEMA)
        assert told.startswith(f"already released with {difference} = ")
    trusted = answer(
        hospital(methods={"mondrian": {"third_party": ["secure", "trusted"]}}),
        wish(algorithm=TRUSTED),
        CARDS["north"],
        ledger,
        NOW,
        SCHEMA,
    )
    assert isinstance(trusted, Refusal)
    assert "third_party = secure" in "; ".join(trusted.reasons)
    vertical = read_request(
        {
            "purpose": "research",
            "attributes": ["age", "ward", "disease"],
            "class": "survived",
            "privacy": [{"model": "k-anonymity", "qid": QID, "k": 5}],
        }
    ).asked_by("ana")
    given = answer(hospital(share_class=True), vertical, CARDS["north"], ledger, NOW, SCHEMA)
    assert isinstance(given, Refusal)
    assert "kind = horizontal" in "; ".join(given.reasons)


def test_nobody_is_made_to_tell_the_values_of_an_attribute() -> None:
    sly = {"model": "l-diversity", "qid": ["ward"], "sensitive": "age", "l": 2}
    refusal = '"age" is an attribute and generalised; no requirement can protect it as sensitive'
    assert refusal in reasons(hospital(), wish(privacy=[sly]))
    deal = agreed(wish(m=1))
    added = msgspec.structs.replace(deal.terms, requirements=(*deal.terms.requirements, sly))
    changed = msgspec.structs.replace(deal, terms=added)
    assert refusal in accepts(hospital(), changed, CARDS["north"], Ledger(), NOW, SCHEMA)
    with pytest.raises(ParameterError, match="is about age, which is generalised"):
        refuse_impossible(added.contract("00" * 16))


# --- who can publish together ---


def offered(**cards: SchemaCard) -> dict[str, list[PublishedDataset]]:
    return {name: [PublishedDataset(each, public=True)] for name, each in ({**CARDS} | cards).items()}


def test_everybody_who_has_all_columns_alike_is_found() -> None:
    found = find(wish(), offered(shop=card("shop", columns=(ColumnCard("age", "continuous"),))))
    assert found.problems == ()
    assert found.parties == NAMES
    assert found.contributors["age"] == ("north", "shop", "south", "west")


def test_who_does_not_publish_together_is_left_out_unless_named() -> None:
    everyone = offered(west=card("west", horizontal=False))
    assert find(wish(), everyone).parties == ("north", "south")
    named = find(wish(parties=["north", "west"]), everyone)
    assert list(map(str, named.problems)) == ["parties: west takes part in vertical sessions only"]


def test_columns_that_differ_by_the_cards_are_told() -> None:
    tree = ColumnCard("ward", "categorical", taxonomy=TaxonomyCard("ff" * 32, 1, "any"))
    columns = tuple(tree if each.name == "ward" else each for each in CARDS["west"].columns)
    (problem,) = map(str, find(wish(), offered(west=card("west", columns=columns))).problems)
    assert problem.startswith('attributes: "ward" is not the same everywhere: north, south as categorical with ')
    assert problem.endswith("; name those that go together in parties")


def test_one_provider_alone_cannot_publish_together() -> None:
    (problem,) = map(str, find(wish(), {"north": offered()["north"]}).problems)
    assert problem == (
        "attributes: only north has all of age, ward, disease, survived; a horizontal session needs at least two"
    )


def test_a_request_tells_what_is_of_the_other_kind() -> None:
    with pytest.raises(ParameterError) as told:
        wish(
            normalize="casefold",
            algorithm={"score": "gain-ratio", "epsilon": 0.5},
            attributes=["age", "provider"],
            privacy=[],
        )
    belongs = 'belongs to a vertical request; this one has kind = "horizontal"'
    assert told.value.lines == (
        "request: algorithm.score: belongs to tds; mondrian does without it",
        "request: algorithm.epsilon: belongs to tds; mondrian does without it",
        f"request: normalize: {belongs}",
        'request: attributes: "provider" is the name of the column that tells whose a record is, which nobody gets',
    )


def test_over_fewer_attributes_nothing_is_covered_that_a_coalition_can_break() -> None:
    """Shares over age and ward say nothing of shares over age alone, once a provider's records are taken out."""

    def bounded(*qid: str) -> dict[str, Any]:
        return {"model": "confidence-bounding", "qid": list(qid), "confidence": 0.6, "sensitive": "disease"}

    policies = {name: hospital(methods={"mondrian": {"third_party": ["trusted"]}}) for name in NAMES}
    strict = hospital(methods={"mondrian": {"third_party": ["trusted"]}}, privacy=[bounded("age")])
    ended, _ = carried(wish(algorithm=TRUSTED, privacy=[bounded("age", "ward")]), policies | {"south": strict})
    assert isinstance(ended, Deal)  # both are judged, each on its own groups
    assert {part.qid for part in ended.terms.parts} == {("age",), ("age", "ward")}
    # Nor is it lost on the way to an m that somebody else insists on, or what a party would sign without.
    without = wish(algorithm=TRUSTED, m=0, privacy=[bounded("age", "ward")])
    insisting = hospital(methods={"mondrian": {"third_party": ["trusted"]}}, least_m=0, privacy=[bounded("age")])
    given = answer(insisting, without, CARDS["north"], Ledger(), NOW, SCHEMA)
    assert isinstance(given, Offer)
    assert ConfidenceBounding(["age"], 0.6, "disease") in given.parts
    ended, _ = carried(wish(algorithm=TRUSTED, privacy=[bounded("age", "ward")]), policies)
    assert isinstance(ended, Deal)
    lacking = accepts(insisting, ended, CARDS["north"], Ledger(), NOW, SCHEMA)
    assert any("lacks confidence-bounding" in reason and "over age, which" in reason for reason in lacking)
