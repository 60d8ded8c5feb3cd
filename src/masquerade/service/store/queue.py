"""The queue: which session is next, among those whose parties all have a free slot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Select, exists, func, select
from sqlalchemy.orm import aliased

from masquerade.service.session_states import COMPUTING, Status
from masquerade.service.store.database import Database
from masquerade.service.store.records import SessionRecord
from masquerade.service.store.session_rows import is_over, move
from masquerade.service.store.tables import SessionPartyRow, SessionRow, UserRow


class Queue:
    """The sessions that wait for their turn."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
