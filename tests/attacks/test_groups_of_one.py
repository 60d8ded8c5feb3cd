"""The attack: ask for small quasi-identifiers of several parties, and find people by all columns of the joined table.

Each party has k = 10 over what it releases and over every QID that is asked for; joined, nearly every record is alone.
The asker, a coordinator that drops what a party insists on, and a peer with a laxer policy all try.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.service import Ledger, SignedContract, preview
from masquerade.service.agree.answering import accepts
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.terms import Deal
from protocol.test_mashup import run_mashup
from service.parties import BANK, CLINIC, NOW, carried, dealt, policy, request

ATTRIBUTES = ["age", "job", "salary", "town"]
ASKED = request(privacy=[{"model": "k-anonymity", "qid": ["age"], "k": 2}])
STRICT, LAX = policy(least_k=10), policy(least_k=10, joint_qid="asked")


def people(n: int = 400) -> mq.Table:
    random = np.random.default_rng(5)
    schema = mq.Schema(
        [
            mq.Attribute("age", "continuous"),
            mq.Attribute("job", taxonomy="flat"),
            mq.Attribute("salary", "continuous"),
            mq.Attribute("town", taxonomy="flat"),
        ]
    )
    columns = {
        "age": random.integers(18, 90, n),
        "job": random.choice(["nurse", "baker", "smith", "cook"], n),
        "salary": random.integers(20, 120, n),
        "town": random.choice(["Ulm", "Graz", "Bern"], n),
        "disease": random.choice(["flu", "cold", "gout"], n),
        "income": random.choice(["low", "high"], n),
    }
    return mq.Table(pa.table(columns), schema)


def released(deal: Deal) -> mq.Release:
    return run_mashup(people(), deal.terms.contract("00" * 16))


def smallest(release: mq.Release) -> int:
    """The smallest group of an attacker who knows every attribute of everybody."""
    return min(Counter(zip(*(release.table[name].to_pylist() for name in ATTRIBUTES), strict=True)).values())


def test_policies_insist_on_k_over_all_attributes_of_all_parties() -> None:
    deal = dealt(ASKED, bank=STRICT, clinic=STRICT)
    assert mq.KAnonymity(ATTRIBUTES, 10) in deal.terms.parts
    release = released(deal)
    assert smallest(release) >= 10
    assert release.unique == release.summary["unique"] == 0


def test_without_it_the_joined_table_has_groups_of_one_and_says_so() -> None:
    deal = dealt(ASKED, bank=LAX, clinic=LAX)
    release = released(deal)
    assert smallest(release) == 1
    alone = Counter(zip(*(release.table[name].to_pylist() for name in ATTRIBUTES), strict=True))
    assert release.summary["unique"] == sum(size == 1 for size in alone.values()) > 0
    assert "a record may be the only one with its values of age, job, salary, town" in previewed(deal)
    assert "at least 10 records agree on all released attributes" in previewed(dealt(ASKED, bank=STRICT, clinic=STRICT))


def previewed(deal: Deal) -> str:
    unsigned = SignedContract(deal, expiry=2**33, keys={})
    return preview(unsigned, "bank").over_all_attributes


@pytest.mark.parametrize(("bank", "clinic"), [(STRICT, LAX), (LAX, STRICT)])
def test_one_party_that_insists_is_enough(bank: Policy, clinic: Policy) -> None:
    ended, rounds = carried(ASKED, {"bank": bank, "clinic": clinic})
    assert isinstance(ended, Deal)
    wider = mq.KAnonymity(ATTRIBUTES, 10)
    assert wider in ended.terms.parts
    strict = "bank" if bank is STRICT else "clinic"
    assert {party: wider in insisted for party, insisted in rounds[0].insisted.items()} == {
        "bank": strict == "bank",
        "clinic": strict == "clinic",
    }
    assert wider in rounds[0].request.privacy  # the counter-offer names it to all


def test_a_coordinator_that_drops_it_gets_no_signature() -> None:
    weak = dealt(ASKED, bank=LAX, clinic=LAX)
    for card in (BANK, CLINIC):
        told = accepts(STRICT, weak, card, Ledger(), NOW)
        assert told == ("the deal lacks k-anonymity (k = 10) over age, job, salary, town, which the policy insists on",)
        assert accepts(LAX, weak, card, Ledger(), NOW) == ()


def test_a_coordinator_that_calls_an_attribute_sensitive_gets_no_signature_of_its_holder() -> None:
    deal = dealt(ASKED, bank=STRICT, clinic=STRICT)
    columns = tuple(
        msgspec.structs.replace(each, role="sensitive") if each.name == "town" else each for each in deal.terms.columns
    )
    parts = [{"model": "k-anonymity", "qid": ["age", "job", "salary"], "k": 10}]
    terms = msgspec.structs.replace(deal.terms, columns=columns, requirements=tuple(parts))
    told = accepts(STRICT, msgspec.structs.replace(deal, terms=terms), CLINIC, Ledger(), NOW)
    assert "the deal asks for other columns than those offered" in told
