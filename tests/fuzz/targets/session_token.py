"""Any bytes as a session token, its claims signed by the coordinator or not: accepted, or NotAllowed."""

from __future__ import annotations

import msgspec

from fuzz.oracle import allowing
from masquerade.errors import NotAllowed
from masquerade.service.agree.signing import Claims, Nonces, TokenIssuer, TokenVerifier, _encoded, _signed
from service.party_nodes import PEOPLE

COORDINATOR = PEOPLE["coordinator"]


def fuzz(data: bytes) -> None:
    claims = _encoded(data)
    signed = f"mqs1.{claims}.{_encoded(_signed(COORDINATOR, claims))}"
    for token in (data.decode("utf-8", "surrogateescape"), signed):
        with allowing(NotAllowed):
            verifier = TokenVerifier(lambda: COORDINATOR.certificate, Nonces())
            verifier.verify(token, audience="bank", contract_hash="0f" * 32)


def seeds() -> dict[str, bytes]:
    return {
        "claims": msgspec.json.encode(Claims("bank", "0f" * 32, "ab" * 16, 1_700_000_000, 4_102_444_800)),
        "token": TokenIssuer(COORDINATOR).issue("bank", "0f" * 32).encode(),
    }
