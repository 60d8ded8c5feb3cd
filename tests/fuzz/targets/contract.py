"""Any bytes as a contract, signed or not: all that a node reads in it, a ParameterError, or who has not signed."""

from __future__ import annotations

import msgspec

from fuzz.oracle import allowing
from masquerade.errors import ParameterError
from masquerade.methods import method_of
from masquerade.net import TrustStore
from masquerade.protocol import Contract
from masquerade.service import SignedContract
from masquerade.service.agree.signing import draw_up, refusals, signers
from masquerade.service.agree.terms import Deal, strictest
from service.parties import dealt, request
from service.party_nodes import PEOPLE, trust_of

TRUST: TrustStore = trust_of("coordinator")


def fuzz(data: bytes) -> None:
    with allowing(ParameterError):
        played(Contract.read(data))
    with allowing(ParameterError):
        agreed(Deal.read(data))
    with allowing(ParameterError):
        signed = SignedContract.read(data)
        signed.canonical(), [*refusals(signed, TRUST, now=1)], signers(signed, TRUST)
        agreed(signed.deal)
        played(signed.contract)


def agreed(deal: Deal) -> None:
    assert deal.canonical()
    assert deal.terms.hash
    assert deal.most_cost is not None
    strictest(deal.terms.parts, deal.terms.arrangement)
    assert deal.asked.user == deal.user


def played(contract: Contract) -> None:
    assert contract.hash
    assert {*contract.parts} <= {*contract.requirement.parts}
    method_of(contract)


def seeds() -> dict[str, bytes]:
    signed = signed_contract()
    return {
        "signed": msgspec.json.encode(signed),
        "deal": msgspec.json.encode(signed.deal),
        "played": msgspec.json.encode(signed.contract),
    }


def signed_contract() -> SignedContract:
    """A contract of bank and clinic, with a signature that is none."""
    deal = dealt(request())
    keys = {party: PEOPLE[party].fingerprint for party in deal.terms.parties}
    return draw_up(deal, keys, 4_102_444_800).with_signature("bank", b"\1" * 70)
