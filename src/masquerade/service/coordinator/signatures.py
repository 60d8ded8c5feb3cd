"""All parties sign one contract: asked at once, and verified against the coordinator's own trust store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from masquerade.errors import PeerRefused
from masquerade.net.trust import TrustStore
from masquerade.service.answering import Refusal
from masquerade.service.control import Pending, Signature
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.signing import SignedContract, verify_signatures


@dataclass(frozen=True)
class Unsigned:
    """Not everybody signed: who waits for a person, and who refuses with which reasons."""

    waiting: Mapping[str, str]
    refusals: tuple[Refusal, ...]


async def signed_by_all(
    links: PartyLinks, trust: TrustStore, session: str, contract: SignedContract, now: datetime
) -> SignedContract | Unsigned:
    """The contract with everybody's signature; PeerError when a party cannot be asked or signs something else."""
    answers = await asyncio.gather(*(links.sign(party, session, contract) for party in contract.parties))
    by_party = dict(zip(contract.parties, answers, strict=True))
    waiting = {party: said.reason for party, said in by_party.items() if isinstance(said, Pending)}
    refusals = tuple(said for said in by_party.values() if isinstance(said, Refusal))
    if waiting or refusals:
        return Unsigned(waiting, refusals)
    for party, said in by_party.items():
        assert isinstance(said, Signature)
        try:
            contract = contract.with_signature(party, bytes.fromhex(said.signature))
        except ValueError:
            raise PeerRefused(party, "signed with something that is no signature") from None
    verify_signatures(contract, trust, now=int(now.timestamp()))
    return contract
