"""The parties' answers in a negotiation, round by round, for everybody who may see the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from masquerade.errors import Conflict, ParameterError, shown
from masquerade.service.resources import PartyOffer
from masquerade.service.session_states import Status
from masquerade.service.store import database as checks
from masquerade.service.store.database import Database
from masquerade.service.store.sessions import existing
from masquerade.service.store.tables import OfferRow

MOST_ROUNDS = 1000


class Offers:
    """The parties' answers in negotiations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        session_id: str,
        party: str,
        round_number: int,
        terms: Mapping[str, Any],
        price_cents: int,
        reasons: Iterable[str] = (),
    ) -> PartyOffer:
        """Store a party's answer in one round of a negotiation; one answer per round."""
        if not 1 <= round_number <= MOST_ROUNDS:
            raise ParameterError(f"rounds count from 1 to {MOST_ROUNDS}; got {round_number}")
        row = OfferRow(
            session=session_id,
            party=party,
            round=round_number,
            terms=checks.document(terms, f"the terms of {shown(party)}"),
            price_cents=checks.cents(price_cents, f"the price of {shown(party)}"),
            reasons=[checks.checked_text(reason, f"a reason of {shown(party)}") for reason in reasons],
            time=self._database.clock(),
        )
        try:
            with self._database.writing() as transaction:
                session = existing(transaction, session_id, lock=True)
                if party not in session.providers:
                    raise ParameterError(f"{shown(party)} is no provider of session {session.id}")
                if session.status != Status.NEGOTIATING:
                    raise Conflict(f"session {session.id} is {session.status}: nothing is negotiated")
                transaction.add(row)
        except IntegrityError:
            raise Conflict(f"{party} has answered in round {round_number} already") from None
        return PartyOffer.model_validate(row)

    def of(self, session_id: str) -> list[PartyOffer]:
        """Return all answers of a session, by round and party."""
        query = select(OfferRow).where(OfferRow.session == checks.findable(session_id))
        return self._database.read(PartyOffer, query.order_by(OfferRow.round, OfferRow.party))
