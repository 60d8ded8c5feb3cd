"""The row of a session within a transaction: found, moved from state to state, and filtered by user.

Every change of state in the store is a `move`, whatever else its transaction stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import Conflict, NotFound, ParameterError, shown
from masquerade.service.session_states import ALLOWED, NEEDS_CAUSE, WAITING, Status
from masquerade.service.store import checks, events
from masquerade.service.store.records import SessionRecord
from masquerade.service.store.tables import DeclineRow, RecipientRow, ReleaseRow, SessionRow

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
        checks.text(cause, "the cause")
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
    if (
        held and session.contract_hash is not None and terms.get("source") is None
    ):  # a roll-up shows nothing anew
        for party in session.providers:
            transaction.merge(DeclineRow(contract_hash=session.contract_hash, party=party))


def set_contract(
    transaction: Transaction, row: SessionRow, contract_hash: str, contract: dict[str, Any]
) -> None:
    """Store the contract that a session runs by; raise Conflict when another session runs by it."""
    taken = select(SessionRow.id).where(SessionRow.contract_hash == contract_hash, SessionRow.id != row.id)
    if transaction.scalars(taken).first() is not None:
        raise Conflict(f"another session has the contract {contract_hash} already")
    row.contract_hash, row.contract = contract_hash, contract


def end_waiting(transaction: Transaction, now: datetime) -> list[str]:
    """End the sessions that waited too long, or whose held release is no longer kept."""
    kept = exists().where(
        ReleaseRow.session == SessionRow.id, ReleaseRow.published.is_(None), ReleaseRow.expires > now
    )
    over = or_(is_over(now), and_(SessionRow.status == Status.AWAITING_CLIENT, ~kept))
    query = select(SessionRow).where(SessionRow.status.in_(WAITING), over).with_for_update(of=SessionRow)
    ended = [SessionRecord.model_validate(row) for row in transaction.scalars(query)]
    for session in ended:
        deadline = session.request.get("deadline")
        late = isinstance(deadline, int) and deadline <= now.timestamp()
        why = "its deadline passed" if late else "it waited too long"
        move(transaction, session, Status.EXPIRED, now, f"{why} while {session.status}")
    return [session.id for session in ended]
