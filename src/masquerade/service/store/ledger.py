"""The price ledger: who owes which party how much, for which session. It is append-only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import ParameterError, shown
from masquerade.service.resources import LedgerEntry
from masquerade.service.store import checks
from masquerade.service.store.database import Database
from masquerade.service.store.tables import LedgerRow, SessionRow


class Ledger:
    """The lines of the ledger. Charges are written in the transaction that publishes their release."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def entries(
        self,
        *,
        user: str | None = None,
        party: str | None = None,
        session: str | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[LedgerEntry]:
        """Return lines in order: the next `limit` after the number `after`."""
        query = select(LedgerRow).where(LedgerRow.id > after).order_by(LedgerRow.id).limit(checks.page(limit))
        wished = ((LedgerRow.user, user), (LedgerRow.party, party), (LedgerRow.session, session))
        for column, value in wished:
            if value is not None:
                query = query.where(column == checks.findable(value))
        return self._database.read(LedgerEntry, query)

    def owed(self, *, user: str | None = None, party: str | None = None) -> int:
        """Sum up, in cents, what a user owes, what a party is owed, or what a user owes a party."""
        query = select(func.coalesce(func.sum(LedgerRow.cents), 0))
        for column, value in ((LedgerRow.user, user), (LedgerRow.party, party)):
            if value is not None:
                query = query.where(column == checks.findable(value))
        with self._database.reading() as transaction:
            return int(transaction.scalars(query).one())


def charge(transaction: Transaction, session: SessionRow, prices: Mapping[str, int], now: datetime) -> None:
    """Charge the client of a session each party's price."""
    parties = set(session.providers)
    for party, cents in sorted(prices.items()):
        if party not in parties:
            raise ParameterError(f"{shown(party)} is no provider of session {session.id}: it cannot charge")
        checks.cents(cents, f"the price of {party}")
        transaction.add(
            LedgerRow(time=now, user=session.client, session=session.id, party=party, cents=cents)
        )
