"""Sessions: created, read, moved from state to state. Every move is one transaction and one event.

A move is made on the session as it was read: if it was moved since, the move is refused (Conflict), and the caller
must read it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, or_, select
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import Conflict, NotFound, ParameterError, Problem, shown
from masquerade.service.session_states import COMPUTING, Status
from masquerade.service.store import checks, events
from masquerade.service.store.database import Database
from masquerade.service.store.providers import reachable_by
from masquerade.service.store.records import SessionRecord
from masquerade.service.store.session_rows import concerns, existing, move, set_contract
from masquerade.service.store.tables import (
    DeclineRow,
    ProviderRow,
    RecipientRow,
    SessionPartyRow,
    SessionRow,
    UserRow,
)

# What these states need is stored in the same transaction, so `advance` alone does not reach them.
_REACHED_BY = {
    Status.AGREED: "sessions.agree",
    Status.AWAITING_CLIENT: "releases.hold or hold_on",
    Status.PUBLISHED: "releases.publish, accept or publish_cached",
}
MOST_ATTEMPTS = 100


class Sessions:
    """The sessions of the coordinator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        client: str,
        providers: Iterable[str],
        purpose: str,
        request: Mapping[str, Any],
        *,
        recipients: Iterable[str] = (),
        attempt_limit: int = 3,
        expires: datetime | None = None,
    ) -> SessionRecord:
        """Create a session with providers that the client may ask; its identifier cannot be guessed."""
        parties, others = list(dict.fromkeys(providers)), sorted(set(recipients) - {client})
        if not parties:
            raise ParameterError("a session needs at least one provider")
        if not 1 <= attempt_limit <= MOST_ATTEMPTS:
            raise ParameterError(f"attempt_limit: must be from 1 to {MOST_ATTEMPTS}; got {attempt_limit}")
        now = self._database.clock()
        row = SessionRow(
            id=secrets.token_hex(16),
            client=client,
            purpose=checks.text(purpose, "the purpose"),
            request=checks.document(request, "the request"),
            status=Status.REQUESTED,
            attempt_limit=attempt_limit,
            created=now,
            updated=now,
            expires=expires,
        )
        row.parties = [SessionPartyRow(party=party, position=n) for n, party in enumerate(parties)]
        row.users = [RecipientRow(user=user) for user in others]
        with self._database.writing() as transaction:
            _refuse_unknown(transaction, [client, *others], parties)
            transaction.add(row)
            transaction.flush()
            events.append(transaction, row.id, "status", {"from": None, "to": row.status, "cause": None}, now)
            return SessionRecord.model_validate(row)

    def get(self, session_id: str) -> SessionRecord:
        """Return a session for the coordinator itself, or raise NotFound."""
        with self._database.reading() as transaction:
            return SessionRecord.model_validate(existing(transaction, session_id))

    def seen_by(self, session_id: str, user: str) -> SessionRecord:
        """Return a session to its client or a recipient; raise NotFound for all others."""
        query = select(SessionRow).where(SessionRow.id == checks.findable(session_id), concerns(user))
        found = self._database.read_first(SessionRecord, query)
        if found is None:
            raise NotFound(f"there is no session {shown(session_id)}")
        return found

    def recent(
        self,
        user: str | None = None,
        *,
        status: Status | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[SessionRecord]:
        """Return the newest sessions that concern a user (None: all), the next `limit` after the session `after`."""
        query = select(SessionRow).order_by(SessionRow.created.desc(), SessionRow.id.desc())
        query = query.limit(checks.page(limit))
        if user is not None:
            query = query.where(concerns(user))
        if status is not None:
            query = query.where(SessionRow.status == status)
        if after is not None:
            last = self.seen_by(after, user) if user is not None else self.get(after)
            same_time = and_(SessionRow.created == last.created, SessionRow.id < last.id)
            query = query.where(or_(SessionRow.created < last.created, same_time))
        return self._database.read(SessionRecord, query)

    # --- moves ---

    def advance(
        self,
        session: SessionRecord,
        to: Status,
        cause: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> SessionRecord:
        """Move a session on, with the details in its event. Raise Conflict if not allowed, or moved meanwhile."""
        if to in _REACHED_BY:
            raise ParameterError(f"a session becomes {to} by {_REACHED_BY[to]}")
        with self._database.writing() as transaction:
            return SessionRecord.model_validate(
                move(transaction, session, to, self._database.clock(), cause, details)
            )

    def agree(
        self,
        session: SessionRecord,
        terms_hash: str,
        contract_hash: str,
        contract: Mapping[str, Any],
        *,
        expires: datetime | None = None,
    ) -> SessionRecord:
        """Store the contract that all parties signed. Attempts are counted from here."""
        checks.sha256(terms_hash, "terms_hash")
        checks.sha256(contract_hash, "contract_hash")
        written = checks.document(contract, "the contract")
        with self._database.writing() as transaction:
            row = move(transaction, session, Status.AGREED, self._database.clock())
            row.terms_hash = terms_hash
            set_contract(transaction, row, contract_hash, written)
            row.attempts, row.queued, row.started = 0, None, None
            row.expires = expires or row.expires
            return SessionRecord.model_validate(row)

    def retry(
        self, session: SessionRecord, cause: str, details: Mapping[str, Any] | None = None
    ) -> SessionRecord:
        """Return a failed attempt to the queue, at its old place, or fail the session when no attempt is left."""
        again = session.attempts < session.attempt_limit
        return self.advance(session, Status.QUEUED if again else Status.FAILED, cause, details)

    def renew(self, session: SessionRecord, contract_hash: str, contract: Mapping[str, Any]) -> SessionRecord:
        """Store the contract of this attempt, signed anew, while the session is running."""
        checks.sha256(contract_hash, "contract_hash")
        written = checks.document(contract, "the contract")
        with self._database.writing() as transaction:
            row = existing(transaction, session.id, lock=True)
            if row.version != session.version or row.status != Status.RUNNING:
                raise Conflict(f"session {row.id} was moved meanwhile: it is {row.status} now; look again")
            set_contract(transaction, row, contract_hash, written)
            row.version += 1
            transaction.flush()
            return SessionRecord.model_validate(row)

    def put_back(
        self, session: SessionRecord, cause: str, contract_hash: str, contract: Mapping[str, Any]
    ) -> SessionRecord:
        """Return a session to the queue, at its old place, because a party was busy; the attempt does not count.

        The contract was shown, so it is not used again: another is stored, which is signed when its turn comes.
        """
        checks.sha256(contract_hash, "contract_hash")
        written = checks.document(contract, "the contract")
        with self._database.writing() as transaction:
            row = existing(transaction, session.id, lock=True)
            # Before the move, which refuses a session without an attempt left: to have found a party busy was none.
            if row.version == session.version and row.status == Status.RUNNING:
                row.attempts -= 1
                transaction.flush()
            row = move(transaction, session, Status.QUEUED, self._database.clock(), cause)
            set_contract(transaction, row, contract_hash, written)
            return SessionRecord.model_validate(row)

    def relax(
        self,
        session: SessionRecord,
        request: Mapping[str, Any],
        *,
        attempt_limit: int = 3,
        expires: datetime | None = None,
    ) -> SessionRecord:
        """Negotiate a changed request with the same parties; the held table is kept until they agree."""
        if not 1 <= attempt_limit <= MOST_ATTEMPTS:
            raise ParameterError(f"attempt_limit: must be from 1 to {MOST_ATTEMPTS}; got {attempt_limit}")
        written = checks.document(request, "the request")
        with self._database.writing() as transaction:
            if session.status is not Status.AWAITING_CLIENT:
                raise Conflict(f"session {session.id} is {session.status}: nothing waits for a word on it")
            held = events.last_move(transaction, session.id)
            before = {"request": dict(session.request), "missed": held.data.get("missed") if held else None}
            now = self._database.clock()
            row = move(transaction, session, Status.NEGOTIATING, now, details={"relaxed": before})
            row.request, row.expires, row.attempts, row.attempt_limit = written, expires, 0, attempt_limit
            return SessionRecord.model_validate(row)

    # --- what was declined ---

    def declines(self, parties: Collection[str]) -> list[tuple[str, str]]:
        """Return the contracts whose releases were declined, each with a party that does not know it yet."""
        query = select(DeclineRow.party, DeclineRow.contract_hash).where(DeclineRow.party.in_(list(parties)))
        with self._database.reading() as transaction:
            return [(party, contract) for party, contract in transaction.execute(query).all()]

    def decline_known(self, party: str, contract: str) -> None:
        """Record that a party knows of a declined release."""
        with self._database.writing() as transaction:
            transaction.execute(
                delete(DeclineRow).where(DeclineRow.party == party, DeclineRow.contract_hash == contract)
            )

    # --- by state ---

    def count(self, *states: Status) -> int:
        """Count the sessions in one of these states."""
        query = select(func.count()).select_from(SessionRow).where(SessionRow.status.in_(states))
        with self._database.reading() as transaction:
            return int(transaction.scalars(query).one())

    def interrupted(self) -> list[SessionRecord]:
        """Return the sessions that were computing when the coordinator stopped; `retry` each with a cause."""
        return self.in_states(*COMPUTING)

    def in_states(self, *states: Status) -> list[SessionRecord]:
        """Return every session in one of these states, oldest first."""
        query = select(SessionRow).where(SessionRow.status.in_(states))
        return self._database.read(SessionRecord, query.order_by(SessionRow.created, SessionRow.id))


def _refuse_unknown(transaction: Transaction, users: list[str], parties: list[str]) -> None:
    known = set(
        transaction.scalars(select(UserRow.name).where(UserRow.name.in_(map(checks.findable, users))))
    )
    client, *recipients = users
    if client not in known:
        raise ParameterError(f"there is no user {shown(client)}")
    if strangers := [user for user in recipients if user not in known]:
        unknown = (Problem(f"there is no user {shown(user)}", key=("recipients",)) for user in strangers)
        raise ParameterError(*unknown)
    reached = set(
        transaction.scalars(
            select(ProviderRow.party).where(
                ProviderRow.party.in_(map(checks.findable, parties)), reachable_by(users[0])
            )
        )
    )
    for party in parties:
        if party not in reached:  # one message: a private provider looks nonexistent
            raise ParameterError(f"there is no provider {shown(party)} that {users[0]} may ask")
