"""The parties that contribute data: their addresses, who may ask them, and the schemas they published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import NotAllowed, NotFound, ParameterError, shown
from masquerade.net.identity import check_name
from masquerade.service.store import checks
from masquerade.service.store.database import Database, insert_if_new
from masquerade.service.store.records import RegisteredProvider
from masquerade.service.store.tables import ProviderRow, ProviderUserRow, UserRow


class Providers:
    """The providers that the coordinator knows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(
        self, party: str, address: str, fingerprint: str, *, public: bool = False, allowed: Iterable[str] = ()
    ) -> RegisteredProvider:
        """Register a provider, or change its entry. A new certificate discards the old one's schema."""
        check_name(party)
        checks.text(address, "the provider's address", longest=300)
        checks.text(fingerprint, "the certificate's fingerprint", longest=256)
        users = sorted(set(allowed))
        for user in users:
            checks.user_name(user)
        try:
            with self._database.writing() as transaction:
                new = {"party": party, "address": address, "fingerprint": fingerprint, "public": public}
                insert_if_new(transaction, ProviderRow, new)
                row = transaction.get_one(ProviderRow, party, with_for_update=True)
                if row.fingerprint != fingerprint:
                    row.schema = None
                row.address, row.fingerprint, row.public = address, fingerprint, public
                _allow(row, users)
                transaction.flush()
                return RegisteredProvider.model_validate(row)
        except IntegrityError:
            raise ParameterError(
                f"provider {party}: its allowed users must have accounts; got {', '.join(users)}"
            ) from None

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
    listed = exists().where(
        ProviderUserRow.party == ProviderRow.party, ProviderUserRow.user == checks.findable(user)
    )
    return or_(ProviderRow.public, listed)


def _allow(row: ProviderRow, users: Iterable[str]) -> None:
    kept = {each.user: each for each in row.users}
    row.users = [kept.get(user) or ProviderUserRow(party=row.party, user=user) for user in users]
