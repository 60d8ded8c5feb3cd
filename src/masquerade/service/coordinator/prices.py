"""What a release costs, by the deal that all parties signed."""

from __future__ import annotations

import msgspec

from masquerade.errors import Bug
from masquerade.service.signing import SignedContract
from masquerade.service.store import Session


def contract_of(session: Session) -> SignedContract:
    """The contract of a session that has one."""
    if session.contract is None:
        raise Bug(f"session {session.id} has no contract")
    return msgspec.convert(session.contract, SignedContract)


def prices(session: Session, rows: int) -> dict[str, int]:
    """By party, in cents: the fixed sum and so much for each released record."""
    agreed = contract_of(session).deal.prices
    return {party: price.fixed + price.per_record * rows for party, price in agreed.items()}
