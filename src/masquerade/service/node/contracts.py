"""What is wrong with a contract before anybody looks at the policy: parties, keys, expiry, version."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.errors import PeerRefused
from masquerade.net.channel import PROTOCOL_VERSION
from masquerade.protocol.contract import EVERYBODY
from masquerade.protocol.party import ASSEMBLER
from masquerade.service.node.settings import Settings
from masquerade.service.signing import SignedContract


def faults(contract: SignedContract, settings: Settings, now: int) -> Iterator[str]:
    """Why this party would not sign such a contract, whatever its policy says."""
    terms = contract.deal.terms
    if settings.name not in contract.parties:
        yield f"{settings.name} is none of the contract's parties"
    if len(set(contract.parties)) < len(contract.parties):
        yield "a party is named twice"
    if len(contract.parties) < 2:
        yield "a mashup needs at least two parties"
    for outsider in (settings.coordinator.name, ASSEMBLER):
        if outsider in contract.parties:
            yield f"{outsider} puts the release together; it cannot be a party"
    if terms.version != PROTOCOL_VERSION:
        yield f"the contract is for version {terms.version} of the protocol; this node speaks {PROTOCOL_VERSION}"
    if contract.expiry <= now:
        yield "the contract has expired"
    if not 1 <= contract.attempt <= contract.deal.attempts:
        yield f"attempt {contract.attempt}; the deal allows 1 to {contract.deal.attempts}"
    holders = {column.holder for column in terms.columns} | ({terms.class_from} - {None})
    known = {*contract.parties} if terms.collaboration is None else {EVERYBODY}
    for stranger in sorted(map(str, holders - known)):
        yield f"{stranger} is to hand in columns, and is none of the parties"
    for party in contract.parties:
        try:
            ours = (
                settings.identity.fingerprint if party == settings.name else settings.trust.fingerprint(party)
            )
        except PeerRefused:
            yield f"party {party} is not in our trust store"
            continue
        if contract.keys.get(party) != ours:
            yield f"party {party} has another key in the contract than in our trust store"
