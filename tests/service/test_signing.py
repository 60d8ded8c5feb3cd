"""Signatures over contracts: only those of all parties, over this contract, with the keys that we know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from masquerade.errors import ParameterError, PeerRefused
from masquerade.net.identity import Identity, TrustStore, self_signed
from masquerade.service.agree.signing import SignedContract, draw_up, refusals, sign, verify_signatures
from masquerade.service.agree.terms import Deal
from net.nodes import expired
from service.parties import NOW, carried, policy, request

PEOPLE = {name: self_signed(name) for name in ("bank", "clinic")}
TRUST = TrustStore({name: who.certificate for name, who in PEOPLE.items()})
KEYS = {name: who.fingerprint for name, who in PEOPLE.items()}
ended, _ = carried(request(), {"bank": policy(), "clinic": policy()})
assert isinstance(ended, Deal)
DEAL = ended


def _signed(contract: SignedContract, **people: Identity) -> SignedContract:
    for name, who in (PEOPLE | people).items():
        contract = contract.with_signature(name, sign(who, contract.hash))
    return contract


UNSIGNED = draw_up(DEAL, KEYS, NOW + 600)
SIGNED = _signed(UNSIGNED)


def _told(contract: SignedContract, trust: TrustStore = TRUST, **more: Any) -> list[str]:
    problems = list(refusals(contract, trust, **{"now": NOW, **more}))
    if problems:
        with pytest.raises(PeerRefused) as caught:
            verify_signatures(contract, trust, **{"now": NOW, **more})
        assert str(caught.value) == str(problems[0])
    else:
        verify_signatures(contract, trust, **{"now": NOW, **more})
    return [str(each) for each in problems]


def test_a_contract_that_all_have_signed() -> None:
    assert _told(SIGNED) == []
    assert SIGNED.hash == UNSIGNED.hash
    assert SignedContract.read(SIGNED.canonical()) == SIGNED
    assert _told(SignedContract.read(SIGNED.canonical())) == []


def test_a_party_has_its_own_certificate_in_no_trust_store() -> None:
    peers = TrustStore({"clinic": PEOPLE["clinic"].certificate})
    assert _told(SIGNED, peers, own=PEOPLE["bank"]) == []
    assert "party bank: is not in our trust store" in _told(SIGNED, peers)[0]


def test_the_hash_covers_everything_but_the_signatures() -> None:
    replace = msgspec.structs.replace
    terms = replace(DEAL.terms, method=DEAL.terms.method | {"score": "info-gain"})
    others = [
        replace(SIGNED, expiry=NOW + 601),
        replace(SIGNED, attempt=2),
        replace(SIGNED, nonce="0" * 32),
        replace(SIGNED, keys={**KEYS, "bank": "00"}),
        replace(SIGNED, deal=replace(DEAL, purpose="marketing")),
        replace(SIGNED, deal=replace(DEAL, recipients=("eve",))),
        replace(SIGNED, deal=replace(DEAL, budget=5)),
        replace(SIGNED, deal=replace(DEAL, terms=terms)),
    ]
    hashes = [each.hash for each in (SIGNED, *others)]
    assert len(set(hashes)) == len(hashes)
    for other in others:  # the old signatures are not over any of them
        assert len(_told(other)) >= 1
    assert draw_up(DEAL, KEYS, NOW + 600).hash != UNSIGNED.hash  # every session has a name of its own
    assert SIGNED.contract.nonce == SIGNED.nonce
    assert SIGNED.contract.hash == SignedContract.read(SIGNED.canonical()).contract.hash


def test_a_missing_signature() -> None:
    only = UNSIGNED.with_signature("bank", sign(PEOPLE["bank"], UNSIGNED.hash))
    assert _told(only) == ["party clinic: has not signed the contract"]
    assert len(_told(UNSIGNED)) == 2


def test_a_strangers_signature() -> None:
    stranger = self_signed("clinic")  # the right name, another key
    told = _told(_signed(UNSIGNED, clinic=stranger))
    assert len(told) == 1
    assert "party clinic: its signature is not one over this contract" in told[0]
    # A coordinator that puts the stranger's key into the contract gains nothing: our store counts.
    theirs = draw_up(DEAL, {**KEYS, "clinic": stranger.fingerprint}, NOW + 600)
    told = _told(_signed(theirs, clinic=stranger))
    assert told == [
        f"party clinic: has the certificate {stranger.fingerprint} in the contract; "
        f"we know it by {PEOPLE['clinic'].fingerprint}"
    ]
    assert _told(SIGNED.with_signature("eve", sign(self_signed("eve"), SIGNED.hash))) == [
        "party eve: has signed the contract, or has a key in it, and is none of its parties"
    ]


def test_a_signature_over_another_contract() -> None:
    other = _signed(draw_up(DEAL, KEYS, NOW + 600))
    mixed = SIGNED.with_signature("bank", bytes.fromhex(other.signatures["bank"]))
    told = _told(mixed)
    assert len(told) == 1
    assert "party bank: its signature is not one over this contract" in told[0]
    swapped = msgspec.structs.replace(
        SIGNED, signatures={"bank": SIGNED.signatures["clinic"], "clinic": SIGNED.signatures["bank"]}
    )
    assert len(_told(swapped)) == 2
    for broken in ("", "zz", "30", SIGNED.signatures["bank"] + "00"):
        changed = msgspec.structs.replace(SIGNED, signatures={**SIGNED.signatures, "bank": broken})
        assert "party bank: its signature is not one" in _told(changed)[0]


def test_a_signature_is_for_contracts_only() -> None:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(PEOPLE["bank"].key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    bare = key.sign(SIGNED.hash, ec.ECDSA(hashes.SHA256()))
    assert "is not one over this contract" in _told(SIGNED.with_signature("bank", bare))[0]


def test_an_expired_contract() -> None:
    told = _told(SIGNED, now=NOW + 600)
    assert told == [
        f"party {name}: brings a contract that expired on 2027-01-15 08:10:00 UTC; ask for a new one"
        for name in ("bank", "clinic")
    ]
    assert _told(SIGNED, now=NOW + 599) == []


def test_an_expired_certificate() -> None:
    old = expired("bank")
    trust = TrustStore({"bank": old.certificate, "clinic": PEOPLE["clinic"].certificate})
    contract = draw_up(DEAL, {**KEYS, "bank": old.fingerprint}, NOW + 600)
    told = _told(_signed(contract, bank=old), trust)
    assert len(told) == 1
    assert told[0].startswith("party bank: its certificate expired on ")


def test_a_contract_that_contradicts_itself() -> None:
    replace = msgspec.structs.replace
    doubled = replace(DEAL.terms, provisions=(*DEAL.terms.provisions, DEAL.terms.provisions[0]))
    assert "only party of its name" in _told(_signed(replace(UNSIGNED, deal=replace(DEAL, terms=doubled))))[0]
    assert "attempt 4; the deal allows 1 to 3" in _told(_signed(replace(UNSIGNED, attempt=4)))[0]
    assert "nonce" in _told(_signed(replace(UNSIGNED, nonce="again")))[0]
    with pytest.raises(ParameterError, match="no fingerprint of clinic"):
        draw_up(DEAL, {"bank": KEYS["bank"]}, NOW)
    for text in (b"{}", b"[", b'{"deal":1}', b"\xff"):
        with pytest.raises(ParameterError, match=r"^contract: "):
            SignedContract.read(text)


def test_attempts_are_sessions_of_their_own() -> None:
    second = draw_up(DEAL, KEYS, NOW + 900, attempt=2)
    assert (second.attempt, second.signatures, second.deal) == (2, {}, DEAL)
    assert second.nonce != SIGNED.nonce
    assert second.hash != SIGNED.hash
    assert _told(_signed(second)) == []
    assert _told(msgspec.structs.replace(second, signatures=SIGNED.signatures)) != []
