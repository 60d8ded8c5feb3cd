"""Signatures over contracts: only those of all parties, over this contract, with the keys that we know."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from masquerade.errors import ParameterError, PeerRefused
from masquerade.net import Identity, TrustStore, self_signed
from masquerade.protocol import Contract, Contribution
from masquerade.service import SignedContract
from masquerade.service.agree.signing import draw_up, refusals, sign, verify_signatures
from masquerade.service.canonical import canonical, decimal_text, digest
from net.nodes import expired
from service.parties import NOW, dealt, request

PEOPLE = {name: self_signed(name) for name in ("bank", "clinic")}
TRUST = TrustStore({name: who.certificate for name, who in PEOPLE.items()})
KEYS = {name: who.fingerprint for name, who in PEOPLE.items()}
DEAL = dealt(request())


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
    assert len(_told(UNSIGNED)) == 2
    only = UNSIGNED.with_signature("bank", sign(PEOPLE["bank"], UNSIGNED.hash))
    assert _told(only) == ["party clinic: has not signed the contract"]
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
    bare = PEOPLE["bank"].sign(SIGNED.hash)
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


# --- Canonical JSON: the RFC's own cases, and what has no place in it ---

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_the_rfcs_key_order() -> None:
    # RFC 8785, 3.2.3: the surrogates of an emoji sort before U+FB33, although its code point is larger.
    keys = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    expected = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]
    assert list(json.loads(canonical(keys)).values()) == expected
    assert sorted(keys)[-1] == "\U0001f600"  # by code points it would stand last


def test_the_rfcs_escapes() -> None:
    # RFC 8785, 3.2.2: the string of its example, and its literals.
    value = {"string": '\u20ac$\u000f\u000aA\'B"\\\\"/', "literals": [None, True, False]}
    assert canonical(value) == (b'{"literals":[null,true,false],"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}')
    assert canonical("\b\t\n\f\r\x00\x1f\x7f<>&\u2028") == (b'"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f<>&\xe2\x80\xa8"')
    assert canonical([]) == b"[]"
    assert canonical({"b": (), "a": -7}) == b'{"a":-7,"b":[]}'


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"t": 0.5}, "0.5 has no place in it; a decimal is written as text"),
        ([2**53], "not a whole number of at most 2\\^53"),
        ([-(2**53)], "not a whole number"),
        ("\ud800", "half a character"),
        ({"\udc00": 1}, "half a character"),
        ({1: "a"}, "a key must be text; got 1"),
    ],
)
def test_what_has_no_canonical_form(value: object, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        canonical(value)


@given(VALUES)
def test_it_reads_back_and_is_its_own_canonical_form(value: object) -> None:
    once = canonical(value)
    assert json.loads(once) == value
    assert canonical(json.loads(once)) == once


@given(st.dictionaries(st.text(), st.integers(0, 9), min_size=2))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(st.text(), st.text())
def test_a_protocols_contract_has_the_same_form(name: str, qid: str) -> None:
    contract = Contract(
        ("a", "b"), (Contribution(name, "a", "attribute"),), ({"model": "k", "qid": [qid], "k": 3},), "gain"
    )
    assert canonical(contract) == contract.canonical()
    assert digest(contract) == contract.hash


def test_decimals() -> None:
    texts = " ".join(map(decimal_text, (1, 1.0, "1.00", 0.1, "0.10", 1e-9)))
    assert texts == "1 1 1 0.1 0.1 1e-09"
