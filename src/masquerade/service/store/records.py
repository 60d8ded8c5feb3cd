"""What the store returns beside the API's resources. Rows, password hashes and token digests stay inside the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy import ColumnElement, exists, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import NotAllowed, NotFound, ParameterError, shown
from masquerade.net import check_name
from masquerade.service.resources import LedgerEntry, ReleaseFacts, Resource, SessionFacts, Token
from masquerade.service.store import database as checks
from masquerade.service.store.database import StoreSection, insert_if_new
from masquerade.service.store.tables import LedgerRow, ProviderRow, ProviderUserRow, SessionRow, UserRow

# --- ledger -------------------------------------------------------------------------------------------------
# The price ledger: who owes which party how much, for which session. It is append-only.


class PriceLedger(StoreSection):
    """The lines of the ledger. Charges are written in the transaction that publishes their release."""

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
        query = select(LedgerRow).where(LedgerRow.id > after, *_lines(user=user, party=party, session=session))
        return self._database.read(LedgerEntry, query.order_by(LedgerRow.id).limit(checks.page(limit)))

    def owed(self, *, user: str | None = None, party: str | None = None) -> int:
        """Sum up, in cents, what a user owes, what a party is owed, or what a user owes a party."""
        query = select(func.coalesce(func.sum(LedgerRow.cents), 0)).where(*_lines(user=user, party=party))
        with self._database.reading() as transaction:
            return int(transaction.scalars(query).one())


def _lines(**of: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions that the lines are those of a user, a party or a session, each where it is given."""
    return [getattr(LedgerRow, name) == checks.findable(value) for name, value in of.items() if value is not None]


def charge(transaction: Transaction, session: SessionRow, prices: Mapping[str, int], now: datetime) -> None:
    """Charge the client of a session each party's price."""
    for party, cents in sorted(prices.items()):
        if party not in session.providers:
            raise ParameterError(f"{shown(party)} is no provider of session {session.id}: it cannot charge")
        checks.cents(cents, f"the price of {party}")
        transaction.add(LedgerRow(time=now, user=session.client, session=session.id, party=party, cents=cents))


# --- records ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignInFailures:
    """Recent failed guesses at a name from one source; kept for unknown names too, so that both look the same."""

    failures: int
    lockouts: int  # in a row, without a sign-in between them
    since: datetime  # of the first failure that counts
    locked_until: datetime | None


class ApiToken(Token):
    """A token's description; the token itself is shown once and never stored."""

    user: str
    revoked: datetime | None


class RegisteredProvider(Resource):
    """A party that contributes data: its address, and who may ask it."""

    party: str
    address: str
    fingerprint: str
    published: dict[str, Any] | None = Field(alias="schema")
    public: bool
    allowed: tuple[str, ...]
    last_seen: datetime | None


class SessionRecord(SessionFacts):
    """A session as it is stored. `version` changes with every move: a move is made on the version that was read."""

    contract: dict[str, Any] | None
    version: int


@dataclass(frozen=True)
class NewRelease:
    """A table from the assembler, before it is published."""

    table_path: str
    report_path: str
    sha256: str
    rows: int
    expires: datetime
    snapshots: Mapping[str, str] = field(default_factory=dict)  # party -> commitment


class StoredRelease(ReleaseFacts):
    """A verified table and its files. Until `published` is set it waits for the client's decision."""

    id: int
    table_path: str
    report_path: str


@dataclass(frozen=True)
class Expired:
    """The result of retention: releases whose files are to be deleted, and sessions that waited too long."""

    releases: tuple[int, ...]
    files: tuple[str, ...]
    sessions: tuple[str, ...]


# --- providers ----------------------------------------------------------------------------------------------
# The parties that contribute data: their addresses, who may ask them, and the schemas they published.


class ProviderRegistry(StoreSection):
    """The providers that the coordinator knows."""

    def register(
        self, party: str, address: str, fingerprint: str, *, public: bool = False, allowed: Iterable[str] = ()
    ) -> RegisteredProvider:
        """Register a provider, or change its entry. A new certificate discards the old one's schema."""
        check_name(party)
        checks.checked_text(address, "the provider's address", longest=300)
        checks.checked_text(fingerprint, "the certificate's fingerprint", longest=256)
        users = sorted(set(allowed))
        for user in users:
            checks.user_name(user)
        new = {"party": party, "address": address, "fingerprint": fingerprint, "public": public}
        try:
            with self._database.writing() as transaction:
                insert_if_new(transaction, ProviderRow, new)
                row = transaction.get_one(ProviderRow, party, with_for_update=True)
                if row.fingerprint != fingerprint:
                    row.schema = None
                row.address, row.fingerprint, row.public = address, fingerprint, public
                _allow(row, users)
                transaction.flush()
                return RegisteredProvider.model_validate(row)
        except IntegrityError:
            text = f"provider {party}: its allowed users must have accounts; got {', '.join(users)}"
            raise ParameterError(text) from None

    def publish_schema(
        self,
        party: str,
        fingerprint: str,
        schema: Mapping[str, Any],
        *,
        public: bool | None = None,
        allowed: Iterable[str] | None = None,
    ) -> RegisteredProvider:
        """Store the schema that a party publishes; accepted only from the certificate registered for it.

        The party may also state who may ask it; users that have no account (yet) are left out.
        """
        written = checks.document(schema, f"the schema of {shown(party)}")
        with self._database.writing() as transaction:
            row = self._own(transaction, party, fingerprint)
            row.schema, row.last_seen = written, self._database.clock()
            if public is not None:
                row.public = public
            if allowed is not None:
                names = [checks.findable(name) for name in allowed]
                known = transaction.scalars(select(UserRow.name).where(UserRow.name.in_(names)))
                _allow(row, sorted(set(known)))
            transaction.flush()
            return RegisteredProvider.model_validate(row)

    def seen(self, party: str, fingerprint: str) -> None:
        """Record that a party was reachable."""
        with self._database.writing() as transaction:
            self._own(transaction, party, fingerprint).last_seen = self._database.clock()

    def get(self, party: str) -> RegisteredProvider:
        """Return a provider, or raise NotFound."""
        query = select(ProviderRow).where(ProviderRow.party == checks.findable(party))
        found = self._database.read_first(RegisteredProvider, query)
        if found is None:
            raise NotFound(f"there is no provider {shown(party)}")
        return found

    def all(self) -> list[RegisteredProvider]:
        """Return every provider, by name."""
        return self._database.read(RegisteredProvider, select(ProviderRow).order_by(ProviderRow.party))

    def reachable(self, user: str) -> list[RegisteredProvider]:
        """Return the providers that a user may ask, by name."""
        query = select(ProviderRow).where(reachable_by(user)).order_by(ProviderRow.party)
        return self._database.read(RegisteredProvider, query)

    @staticmethod
    def _own(transaction: Transaction, party: str, fingerprint: str) -> ProviderRow:
        row = transaction.get(ProviderRow, checks.findable(party), with_for_update=True)
        if row is None or row.fingerprint != fingerprint:
            raise NotAllowed(f"the certificate is not the one that party {shown(party)} is known by here")
        return row


def reachable_by(user: str) -> ColumnElement[bool]:
    """Return the condition that a user may ask a provider."""
    listed = exists().where(ProviderUserRow.party == ProviderRow.party, ProviderUserRow.user == checks.findable(user))
    return or_(ProviderRow.public, listed)


def _allow(row: ProviderRow, users: Iterable[str]) -> None:
    kept = {each.user: each for each in row.users}
    row.users = [kept.get(user) or ProviderUserRow(party=row.party, user=user) for user in users]
