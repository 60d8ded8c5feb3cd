"""Sessions: created, read, moved from state to state. Every move is one transaction and one event.

A move is made on the session as it was read: if it was moved since, the move is refused (Conflict), and the caller
must read it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Transaction, aliased

from masquerade.errors import Conflict, NotFound, ParameterError, Problem, shown
from masquerade.service.resources import PartyOffer
from masquerade.service.session_states import ALLOWED, COMPUTING, NEEDS_CAUSE, WAITING, Status
from masquerade.service.store import database as checks, events
from masquerade.service.store.database import StoreSection
from masquerade.service.store.records import SessionRecord, reachable_by
from masquerade.service.store.tables import (
    DeclineRow,
    OfferRow,
    ProviderRow,
    RecipientRow,
    ReleaseRow,
    SessionPartyRow,
    SessionRow,
    UserRow,
)

# --- session rows -------------------------------------------------------------------------------------------
# The row of a session within a transaction: found, moved from state to state, and filtered by user.
#
# Every change of state in the store is a `move`, whatever else its transaction stores.

# A table that was held is kept until something else is agreed.
_HOLDING = (Status.AWAITING_CLIENT, Status.NEGOTIATING)


def existing(transaction: Transaction, session_id: str, lock: bool = False) -> SessionRow:
    """Find the row of a session, or raise NotFound."""
    query = select(SessionRow).where(SessionRow.id == checks.findable(session_id))
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    row = transaction.scalars(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no session {shown(session_id)}")
    return row


def concerns(user: str) -> ColumnElement[bool]:
    """Return the condition that a user is a session's client or a recipient."""
    name = checks.findable(user)
    receives = exists().where(RecipientRow.session == SessionRow.id, RecipientRow.user == name)
    return or_(SessionRow.client == name, receives)


def is_over(now: datetime) -> ColumnElement[bool]:
    """Return the condition that a session's time limit has passed."""
    return and_(SessionRow.expires.is_not(None), SessionRow.expires <= now)


def move(
    transaction: Transaction,
    session: SessionRecord,
    to: Status,
    now: datetime,
    cause: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> SessionRow:
    """Move a session within a transaction: lock its row, compare its version, and record the change as an event."""
    if cause is not None:
        checks.checked_text(cause, "the cause")
    elif to in NEEDS_CAUSE:
        raise ParameterError(f"a session never becomes {to} without a cause")
    # Locked before it is compared: of two who have read the same version only one may find it so.
    row = existing(transaction, session.id, lock=True)
    was = Status(row.status)
    if row.version != session.version:
        raise Conflict(f"session {row.id} was moved meanwhile: it is {was} now; look again")
    if to not in ALLOWED[was]:
        allowed = ", ".join(sorted(ALLOWED[was])) or "nothing"
        raise Conflict(f"session {row.id} is {was}: it cannot become {to}; allowed is {allowed}")
    if to is Status.RUNNING:
        row.attempts += 1
        row.started = now
    if to is Status.QUEUED:
        if row.attempts >= row.attempt_limit:
            raise Conflict(f"session {row.id} has used its {row.attempt_limit} attempts")
        row.queued = row.queued or now  # its old place: a party that fails must not cost it its turn
    if was in _HOLDING and to not in (*_HOLDING, Status.PUBLISHED):
        _discard_held(transaction, row, now)
    row.status, row.cause, row.updated = to, cause, now
    row.finished = now if to.final else None
    row.version += 1
    transaction.flush()
    # In this transaction, so that whoever follows the events knows the state, and no state is without its event: after
    # a crash the store is all that there is to go by.
    data = {**(details or {}), "from": was, "to": to, "cause": cause, "attempt": row.attempts}
    events.append(transaction, row.id, "status", data, now)
    return row


def _discard_held(transaction: Transaction, session: SessionRow, now: datetime) -> None:
    """Let go of the release that was held: its files are deleted, and its parties are to hear that it was declined."""
    query = select(ReleaseRow).where(ReleaseRow.session == session.id, ReleaseRow.published.is_(None))
    held = transaction.scalars(query).all()
    for release in held:  # only marked: files go once this is stored, or a row could outlive its files
        release.expires = min(release.expires, now)
    terms = ((session.contract or {}).get("deal") or {}).get("terms") or {}
    if held and session.contract_hash is not None and terms.get("source") is None:  # a roll-up shows nothing anew
        for party in session.providers:
            transaction.merge(DeclineRow(contract_hash=session.contract_hash, party=party))


def set_contract(transaction: Transaction, row: SessionRow, contract_hash: str, contract: Mapping[str, Any]) -> None:
    """Store the contract that a session runs by; raise Conflict when another session runs by it."""
    checks.sha256(contract_hash, "contract_hash")
    taken = select(SessionRow.id).where(SessionRow.contract_hash == contract_hash, SessionRow.id != row.id)
    if transaction.scalars(taken).first() is not None:
        raise Conflict(f"another session has the contract {contract_hash} already")
    row.contract_hash, row.contract = contract_hash, checks.document(contract, "the contract")


def end_waiting(transaction: Transaction, now: datetime) -> list[str]:
    """End the sessions that waited too long, or whose held release is no longer kept."""
    kept = exists().where(ReleaseRow.session == SessionRow.id, ReleaseRow.published.is_(None), ReleaseRow.expires > now)
    over = or_(is_over(now), and_(SessionRow.status == Status.AWAITING_CLIENT, ~kept))
    query = select(SessionRow).where(SessionRow.status.in_(WAITING), over).with_for_update(of=SessionRow)
    ended = [SessionRecord.model_validate(row) for row in transaction.scalars(query)]
    for session in ended:
        deadline = session.request.get("deadline")
        late = isinstance(deadline, int) and deadline <= now.timestamp()
        why = "its deadline passed" if late else "it waited too long"
        move(transaction, session, Status.EXPIRED, now, f"{why} while {session.status}")
    return [session.id for session in ended]


# --- queue --------------------------------------------------------------------------------------------------
# The queue: which session is next, among those whose parties all have a free slot.


class Queue(StoreSection):
    """The sessions that wait for their turn."""

    def next(self, free: Mapping[str, int]) -> SessionRecord | None:
        """Return the next session all of whose parties have a free slot.

        Users take turns: the user served longest ago comes first, with their oldest session.
        """
        return self._database.read_first(SessionRecord, _next(free, self._database.clock()))

    def claim(self, free: Mapping[str, int], only: SessionRecord | None = None) -> SessionRecord | None:
        """Take the next session (`only`: this one, if possible) and start an attempt. Callers never share one."""
        query = _next(free, self._database.clock())
        query = query if only is None else query.where(SessionRow.id == only.id)
        with self._database.writing() as transaction:
            # What another caller has locked is skipped, not waited for: it is the other's, and the next one is as good.
            row = transaction.scalars(query.with_for_update(of=SessionRow, skip_locked=True)).first()
            if row is None:
                return None
            row = move(transaction, SessionRecord.model_validate(row), Status.RUNNING, self._database.clock())
            client = transaction.get_one(UserRow, row.client)
            client.turn = transaction.scalars(select(func.max(UserRow.turn))).one() + 1
            return SessionRecord.model_validate(row)

    def busy(self) -> dict[str, int]:
        """Count the sessions that each party is computing for."""
        query = (
            select(SessionPartyRow.party, func.count())
            .join(SessionRow, SessionRow.id == SessionPartyRow.session)
            .where(SessionRow.status.in_(COMPUTING))
            .group_by(SessionPartyRow.party)
        )
        with self._database.reading() as transaction:
            return dict(transaction.execute(query).all())


def _next(free: Mapping[str, int], now: datetime) -> Select[SessionRow]:
    able = sorted(party for party, slots in free.items() if slots > 0)
    blocked = exists().where(SessionPartyRow.session == SessionRow.id, SessionPartyRow.party.not_in(able))
    twin = aliased(SessionRow)  # its release, for the same terms, will serve this session too
    computed = exists().where(twin.terms_hash == SessionRow.terms_hash, twin.status.in_(COMPUTING))
    return (
        select(SessionRow)
        .join(UserRow, UserRow.name == SessionRow.client)
        .where(SessionRow.status == Status.QUEUED, ~blocked, ~computed, ~is_over(now))
        .order_by(UserRow.turn, SessionRow.queued, SessionRow.id)
        .limit(1)
    )


# --- sessions -----------------------------------------------------------------------------------------------

# What these states need is stored in the same transaction, so `advance` alone does not reach them.
_REACHED_BY = {
    Status.AGREED: "sessions.agree",
    Status.AWAITING_CLIENT: "releases.hold or hold_on",
    Status.PUBLISHED: "releases.publish, accept or publish_cached",
}
MOST_ATTEMPTS = 100


class Sessions(StoreSection):
    """The sessions of the coordinator."""

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
            purpose=checks.checked_text(purpose, "the purpose"),
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
        self, user: str | None = None, *, status: Status | None = None, limit: int = 50, after: str | None = None
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
        self, session: SessionRecord, to: Status, cause: str | None = None, details: Mapping[str, Any] | None = None
    ) -> SessionRecord:
        """Move a session on, with the details in its event. Raise Conflict if not allowed, or moved meanwhile."""
        if to in _REACHED_BY:
            raise ParameterError(f"a session becomes {to} by {_REACHED_BY[to]}")
        with self._database.writing() as transaction:
            return SessionRecord.model_validate(move(transaction, session, to, self._database.clock(), cause, details))

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
        with self._database.writing() as transaction:
            row = move(transaction, session, Status.AGREED, self._database.clock())
            row.terms_hash = terms_hash
            set_contract(transaction, row, contract_hash, contract)
            row.attempts, row.queued, row.started = 0, None, None
            row.expires = expires or row.expires
            return SessionRecord.model_validate(row)

    def retry(self, session: SessionRecord, cause: str, details: Mapping[str, Any] | None = None) -> SessionRecord:
        """Return a failed attempt to the queue, at its old place, or fail the session when no attempt is left."""
        again = session.attempts < session.attempt_limit
        return self.advance(session, Status.QUEUED if again else Status.FAILED, cause, details)

    def renew(self, session: SessionRecord, contract_hash: str, contract: Mapping[str, Any]) -> SessionRecord:
        """Store the contract of this attempt, signed anew, while the session is running."""
        with self._database.writing() as transaction:
            row = existing(transaction, session.id, lock=True)
            if row.version != session.version or row.status != Status.RUNNING:
                raise Conflict(f"session {row.id} was moved meanwhile: it is {row.status} now; look again")
            set_contract(transaction, row, contract_hash, contract)
            row.version += 1
            transaction.flush()
            return SessionRecord.model_validate(row)

    def put_back(
        self, session: SessionRecord, cause: str, contract_hash: str, contract: Mapping[str, Any]
    ) -> SessionRecord:
        """Return a session to the queue, at its old place, because a party was busy; the attempt does not count.

        The contract was shown, so it is not used again: another is stored, which is signed when its turn comes.
        """
        with self._database.writing() as transaction:
            row = existing(transaction, session.id, lock=True)
            # Before the move, which refuses a session without an attempt left: to have found a party busy was none.
            if row.version == session.version and row.status == Status.RUNNING:
                row.attempts -= 1
                transaction.flush()
            row = move(transaction, session, Status.QUEUED, self._database.clock(), cause)
            set_contract(transaction, row, contract_hash, contract)
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
            known = (DeclineRow.party == party, DeclineRow.contract_hash == contract)
            transaction.execute(delete(DeclineRow).where(*known))

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
    known = set(transaction.scalars(select(UserRow.name).where(UserRow.name.in_(map(checks.findable, users)))))
    client, *recipients = users
    if client not in known:
        raise ParameterError(f"there is no user {shown(client)}")
    if strangers := [user for user in recipients if user not in known]:
        raise ParameterError(*(Problem(f"there is no user {shown(user)}", key=("recipients",)) for user in strangers))
    named = ProviderRow.party.in_(map(checks.findable, parties))
    reached = set(transaction.scalars(select(ProviderRow.party).where(named, reachable_by(client))))
    for party in parties:
        if party not in reached:  # one message: a private provider looks nonexistent
            raise ParameterError(f"there is no provider {shown(party)} that {client} may ask")


# --- offers -------------------------------------------------------------------------------------------------
# The parties' answers in a negotiation, round by round, for everybody who may see the session.

MOST_ROUNDS = 1000


class Offers(StoreSection):
    """The parties' answers in negotiations."""

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
