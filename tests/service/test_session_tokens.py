"""Session tokens, which the coordinator signs for parties: bound to party and contract, and good once."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from fake_clock import FakeClock
from masquerade.errors import NotAllowed, ParameterError
from masquerade.net import self_signed
from masquerade.service.agree.signing import Nonces, TokenIssuer, TokenVerifier
from service.credentials import refusal
from service.stores import at_once, digest

COORDINATOR = self_signed("coordinator")
CONTRACT = digest("contract")


@pytest.fixture
def issuer(clock: FakeClock) -> TokenIssuer:
    """The coordinator's."""
    return TokenIssuer(COORDINATOR, clock.now)


@pytest.fixture
def verifier(clock: FakeClock) -> TokenVerifier:
    """A party's."""
    return TokenVerifier(lambda: COORDINATOR.certificate, Nonces(clock.now), clock.now)


def shown(verifier: TokenVerifier, token: str, audience: str = "bank", contract: str = CONTRACT) -> str:
    """What a party is told that shows a token in vain."""
    return refusal(lambda: verifier.verify(token, audience=audience, contract_hash=contract))


def test_a_session_token_is_good_once(issuer: TokenIssuer, verifier: TokenVerifier) -> None:
    token = issuer.issue("bank", CONTRACT)
    claims = verifier.verify(token, audience="bank", contract_hash=CONTRACT)
    assert (claims.audience, claims.contract, claims.expires - claims.issued) == ("bank", CONTRACT, 300)
    assert shown(verifier, token) == "session token: it was used before"
    verifier.verify(issuer.issue("bank", CONTRACT), audience="bank", contract_hash=CONTRACT)


def test_a_session_token_is_bound(issuer: TokenIssuer, verifier: TokenVerifier, clock: FakeClock) -> None:
    token = issuer.issue("bank", CONTRACT)
    assert "for party bank, not for shop" in shown(verifier, token, "shop")
    assert "another contract" in shown(verifier, token, contract=digest("another"))
    clock.tick(minutes=5)
    assert "expired" in shown(verifier, token)
    clock.tick(minutes=-5, seconds=-31)
    assert "future" in shown(verifier, token)
    clock.tick(seconds=31)  # what was refused was not used up
    verifier.verify(token, audience="bank", contract_hash=CONTRACT)


def test_only_the_coordinator_signs(issuer: TokenIssuer, verifier: TokenVerifier, clock: FakeClock) -> None:
    forged = TokenIssuer(self_signed("coordinator"), clock.now).issue("bank", CONTRACT)
    assert shown(verifier, forged) == "session token: the coordinator did not sign it"
    version, written, signature = issuer.issue("bank", CONTRACT).split(".")
    claims = json.loads(base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)))
    claims["audience"] = "shop"
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    forged = f"{version}.{changed}.{signature}"
    assert "did not sign" in shown(verifier, forged, "shop")


def test_a_signature_has_one_spelling(issuer: TokenIssuer, verifier: TokenVerifier) -> None:
    token = issuer.issue("bank", CONTRACT)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]  # the last sign's low bits mean nothing
    assert base64.urlsafe_b64decode(twin.split(".")[2] + "==") == base64.urlsafe_b64decode(token.split(".")[2] + "==")
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256: n − s signs as well
    head, raw = token.rpartition(".")[0], base64.urlsafe_b64decode(token.split(".")[2] + "==")
    negated = raw[:32] + (order - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")
    mirrored = f"{head}.{base64.urlsafe_b64encode(negated).rstrip(b'=').decode()}"
    for other in (twin, mirrored, token + "=", token + "=="):
        assert "did not sign" in shown(verifier, other)


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_every_other_spelling_is_refused(data: st.DataObject) -> None:
    token = TokenIssuer(COORDINATOR).issue("bank", CONTRACT)
    at = data.draw(st.integers(0, len(token) - 1))
    sign = data.draw(st.characters(codec="ascii").filter(lambda sign: sign != token[at]))
    other = token[:at] + sign + token[at + 1 :]
    verifier = TokenVerifier(lambda: COORDINATOR.certificate, Nonces())
    shown(verifier, other)
    verifier.verify(token, audience="bank", contract_hash=CONTRACT)


@given(st.text(max_size=100) | st.just("mqs1." + "A" * 5000 + ".A") | st.just("mqs1..") | st.just("mqs1.\ud800.A"))
@settings(max_examples=examples(60), deadline=None)
def test_anything_else_is_refused(token: str) -> None:
    shown(TokenVerifier(lambda: COORDINATOR.certificate, Nonces()), token)


def test_of_many_replays_one_passes(issuer: TokenIssuer, verifier: TokenVerifier) -> None:
    token = issuer.issue("bank", CONTRACT)
    results = at_once(8, lambda _: verifier.verify(token, audience="bank", contract_hash=CONTRACT))
    assert sum(isinstance(result, NotAllowed) for result in results) == 7


def test_nonces_are_kept_as_long_as_their_tokens_live(clock: FakeClock) -> None:
    nonces = Nonces(clock.now)
    soon = clock.now() + timedelta(minutes=5)
    assert nonces.first_use("n", soon)
    clock.tick(minutes=4)
    assert not nonces.first_use("n", soon)
    clock.tick(minutes=1)
    assert nonces.first_use("n", clock.now() + timedelta(minutes=5))


def test_only_sensible_tokens_are_issued(issuer: TokenIssuer) -> None:
    for party, contract in (("Bank", CONTRACT), ("bank", "abc"), ("bank", CONTRACT.upper())):
        with pytest.raises(ParameterError):
            issuer.issue(party, contract)
