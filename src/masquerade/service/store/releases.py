"""Releases: stored in the same transaction that publishes their session, served again from the cache, retired.

The files are written completely beforehand; a release cut off by a crash has no row here and was never published.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, exists, false, or_, select, update
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import Conflict, NotFound, ParameterError, shown
from masquerade.service.session_states import COMPUTING, Status
from masquerade.service.store import database as checks
from masquerade.service.store.database import StoreSection
from masquerade.service.store.events import last_move
from masquerade.service.store.records import NewRelease, SessionRecord, StoredRelease, charge, reachable_by
from masquerade.service.store.sessions import concerns, move
from masquerade.service.store.tables import ProviderRow, ReleaseRow, ReleaseSnapshotRow, SessionRow, StaleSnapshotRow


class Releases(StoreSection):
    """Published tables, and those that wait for their client's decision."""

    def publish(
        self, session: SessionRecord, release: NewRelease, prices: Mapping[str, int] | None = None
    ) -> SessionRecord:
        """Publish an assembled and verified table: the release, the session's end and the charges together.

        In one transaction: nobody looks at a session that is over again, so a release without its charge, or an end
        without its release, would stay as it is.
        """
        with self._database.writing() as transaction:
            now = self._database.clock()
            row = move(transaction, session, Status.PUBLISHED, now)
            _require_was(session, Status.ASSEMBLING)
            _add(transaction, row, release, now, published=now)
            charge(transaction, row, prices or {}, now)
            return SessionRecord.model_validate(row)

    def hold(self, session: SessionRecord, release: NewRelease, missed: Mapping[str, Any]) -> SessionRecord:
        """Keep a table that missed the wished quality until the client decides; `missed` says by how much."""
        with self._database.writing() as transaction:
            now = self._database.clock()
            row = move(transaction, session, Status.AWAITING_CLIENT, now, details={"missed": dict(missed)})
            _require_was(session, Status.ASSEMBLING)
            _add(transaction, row, release, now, published=None)
            return SessionRecord.model_validate(row)

    def hold_on(self, session: SessionRecord, cause: str, reasons: Sequence[str]) -> SessionRecord | None:
        """Keep the held table waiting after the parties refused the client's relaxed request.

        The request is reset to the one that the table was made for. Return None when no table is held.
        """
        with self._database.writing() as transaction:
            now = self._database.clock()
            relaxed = last_move(transaction, session.id)
            before = relaxed.data.get("relaxed") if relaxed is not None else None
            if before is None or transaction.scalars(_held(session.id, now)).first() is None:
                return None
            details = {"missed": before["missed"], "reasons": list(reasons)}
            row = move(transaction, session, Status.AWAITING_CLIENT, now, cause, details)
            row.request = before["request"]
            return SessionRecord.model_validate(row)

    def accept(
        self, session: SessionRecord, prices: Mapping[str, int] | None = None, request: Mapping[str, Any] | None = None
    ) -> SessionRecord:
        """Publish the held table; with `request`, because it meets that request."""
        with self._database.writing() as transaction:
            now = self._database.clock()
            row = move(transaction, session, Status.PUBLISHED, now)
            _require_was(session, Status.AWAITING_CLIENT)
            held = transaction.scalars(_held(session.id, now)).first()
            if held is None:
                raise Conflict(f"session {session.id}: the table that was held is no longer kept")
            held.published = now
            if request is not None:
                row.request = checks.document(request, "the request")
            charge(transaction, row, prices or {}, now)
            return SessionRecord.model_validate(row)

    def publish_cached(
        self, session: SessionRecord, release: StoredRelease, prices: Mapping[str, int] | None = None
    ) -> SessionRecord:
        """Serve a session with fully agreed terms from an earlier release for the same terms."""
        with self._database.writing() as transaction:
            now = self._database.clock()
            row = move(transaction, session, Status.PUBLISHED, now, details={"cached": True})
            _require_was(session, Status.AGREED, Status.QUEUED)
            # Looked up once more: since it was found a snapshot may have been replaced, or its client shut out.
            cached = _cached(row.terms_hash or "", row.client, now).where(ReleaseRow.id == release.id)
            made = transaction.scalars(cached).first()
            if made is None:
                raise Conflict(f"session {session.id}: that release may not be served from the cache any more")
            copied = NewRelease(made.table_path, made.report_path, made.sha256, made.rows, made.expires, made.snapshots)
            _add(transaction, row, copied, now, published=now)
            charge(transaction, row, prices or {}, now)
            return SessionRecord.model_validate(row)

    def of(self, session_id: str, user: str | None = None) -> StoredRelease:
        """Return a session's release for a user (None: the coordinator itself); raise NotFound if none or expired."""
        now = self._database.clock()
        query = (
            select(ReleaseRow)
            .join(SessionRow, SessionRow.id == ReleaseRow.session)
            .where(ReleaseRow.session == checks.findable(session_id), *_served(now))
        )
        if user is not None:
            query = query.where(concerns(user))
        found = self._database.read_first(StoredRelease, query)
        if found is None:
            raise NotFound(f"session {shown(session_id)} has no release that is kept")
        return found

    def rows(self, session_ids: Iterable[str], user: str) -> dict[str, int]:
        """Count the rows published by those sessions whose releases a user may have, by session, in one query."""
        query = (
            select(ReleaseRow.session, ReleaseRow.rows)
            .join(SessionRow, SessionRow.id == ReleaseRow.session)
            .where(ReleaseRow.session.in_(session_ids), concerns(user), *_served(self._database.clock()))
        )
        with self._database.reading() as transaction:
            return dict(transaction.execute(query).all())

    def held(self, session_id: str) -> StoredRelease | None:
        """Return the table that waits for its client's decision, for the coordinator itself."""
        query = _held(checks.findable(session_id), self._database.clock())
        return self._database.read_first(StoredRelease, query)

    def kept(self) -> set[str]:
        """Return the paths of all tables that are held, published or still to be deleted."""
        with self._database.reading() as transaction:
            return set(transaction.scalars(select(ReleaseRow.table_path).where(ReleaseRow.removed.is_(None))))

    def cached(self, terms_hash: str, user: str) -> StoredRelease | None:
        """Return a release for these terms that a user may have now, or None.

        The user must be client or recipient of a session whose parties signed exactly these terms and must still be
        allowed to ask every provider of the release, and none of its snapshots may have been replaced.
        """
        return self._database.read_first(StoredRelease, _cached(terms_hash, user, self._database.clock()))

    def of_terms(self, terms_hash: str) -> StoredRelease | None:
        """Return the newest published release of these terms that is kept, for the coordinator itself."""
        query = select(ReleaseRow).where(
            ReleaseRow.terms_hash == checks.findable(terms_hash), *_served(self._database.clock())
        )
        return self._database.read_first(StoredRelease, query.order_by(ReleaseRow.id.desc()))

    def has_any(self, user: str, snapshots: Mapping[str, str]) -> bool:
        """Return whether a user may have a release that was made from one of these parties' snapshots."""
        made = [
            and_(ReleaseSnapshotRow.party == party, ReleaseSnapshotRow.commitment == commitment)
            for party, commitment in snapshots.items()
        ]
        query = (
            select(ReleaseRow.id)
            .join(SessionRow, SessionRow.id == ReleaseRow.session)
            .join(ReleaseSnapshotRow, ReleaseSnapshotRow.release == ReleaseRow.id)
            .where(or_(false(), *made), concerns(user), *_served(self._database.clock()))
        )
        with self._database.reading() as transaction:
            return transaction.scalars(query.limit(1)).first() is not None

    def terms_among(self, terms: Iterable[str]) -> set[str]:
        """Return those of these terms that have a published release that is kept, in one query."""
        query = select(ReleaseRow.terms_hash).where(
            ReleaseRow.terms_hash.in_(list(terms)), *_served(self._database.clock())
        )
        with self._database.reading() as transaction:
            return set(transaction.scalars(query))

    def replace_snapshots(self, party: str, current: Collection[str], replaced: Collection[str]) -> tuple[int, int]:
        """Store which snapshots are current and which were replaced; the cache serves none of the latter.

        Return how many of them are newly replaced, and how many releases leave the cache. Nothing is stored twice.
        """
        for commitment in (*current, *replaced):
            checks.checked_text(commitment, "the snapshot's commitment", longest=256)
        with self._database.reading() as transaction:
            stale = _stale(transaction, party)
        gone = sorted(set(replaced) - set(current))
        if not stale.intersection(current) and stale.issuperset(gone):
            return 0, 0
        now = self._database.clock()
        with self._database.writing() as transaction:
            if transaction.get(ProviderRow, checks.findable(party), with_for_update=True) is None:
                raise NotFound(f"there is no provider {shown(party)}")
            back = delete(StaleSnapshotRow).where(StaleSnapshotRow.party == party)
            transaction.execute(back.where(StaleSnapshotRow.commitment.in_(list(current))))
            stale = _stale(transaction, party)
            news = [commitment for commitment in gone if commitment not in stale]
            transaction.add_all(StaleSnapshotRow(party=party, commitment=each, since=now) for each in news)
            made_of = exists().where(
                ReleaseSnapshotRow.release == ReleaseRow.id,
                ReleaseSnapshotRow.party == party,
                ReleaseSnapshotRow.commitment.in_(news),
            )
            left = transaction.scalars(select(ReleaseRow.id).where(made_of, *_served(now))).all()
            return len(news), len(left)

    def forget(self, release_ids: Iterable[int]) -> None:
        """Record that the files of these expired releases are deleted; retention no longer names them."""
        with self._database.writing() as transaction:
            now = self._database.clock()
            gone = update(ReleaseRow).where(ReleaseRow.id.in_(list(release_ids)), ReleaseRow.expires <= now)
            transaction.execute(gone.values(removed=now))


def expired(transaction: Transaction, now: datetime) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return expired releases and their files, except files that another release still needs.

    Skip sessions that compute again: they overwrite their old files before the new ones have a row.
    """
    computing = exists().where(SessionRow.id == ReleaseRow.session, SessionRow.status.in_(COMPUTING))
    over = transaction.scalars(
        select(ReleaseRow)
        .where(ReleaseRow.expires <= now, ReleaseRow.removed.is_(None), ~computing)
        .order_by(ReleaseRow.id)
    ).all()
    files = {path for row in over for path in (row.table_path, row.report_path)}
    living = select(ReleaseRow.table_path, ReleaseRow.report_path).where(ReleaseRow.expires > now)
    needed = {path for paths in transaction.execute(living) for path in paths} if files else set()
    return tuple(row.id for row in over), tuple(sorted(files - needed))


def purge_stale(transaction: Transaction, now: datetime, before: datetime) -> None:
    """Delete snapshots that were replaced before a given time and have no kept release."""
    needed = exists().where(
        ReleaseSnapshotRow.party == StaleSnapshotRow.party,
        ReleaseSnapshotRow.commitment == StaleSnapshotRow.commitment,
        ReleaseRow.id == ReleaseSnapshotRow.release,
        ReleaseRow.expires > now,
    )
    transaction.execute(delete(StaleSnapshotRow).where(StaleSnapshotRow.since < before, ~needed))


def _stale(transaction: Transaction, party: str) -> set[str]:
    told = select(StaleSnapshotRow.commitment).where(StaleSnapshotRow.party == checks.findable(party))
    return set(transaction.scalars(told))


def _require_was(session: SessionRecord, *allowed: Status) -> None:
    if session.status not in allowed:
        raise Conflict(f"session {session.id} is {session.status}: this needs one that is {' or '.join(allowed)}")


def _add(
    transaction: Transaction, session: SessionRow, new: NewRelease, now: datetime, published: datetime | None
) -> None:
    parties = set(session.providers)
    if set(new.snapshots) != parties:
        raise ParameterError(f"a release names one snapshot of each of {', '.join(sorted(parties))}")
    if session.terms_hash is None:
        raise Conflict(f"session {session.id} has no agreed terms")
    if new.rows < 0:
        raise ParameterError(f"a release cannot have {new.rows} rows")
    row = ReleaseRow(
        session=session.id,
        terms_hash=session.terms_hash,
        table_path=checks.checked_text(new.table_path, "the table's path"),
        report_path=checks.checked_text(new.report_path, "the report's path"),
        sha256=checks.sha256(new.sha256, "the table's sha256"),
        rows=new.rows,
        created=now,
        published=published,
        expires=new.expires,
    )
    row.made_from = [
        ReleaseSnapshotRow(party=party, commitment=checks.checked_text(commitment, "a commitment", longest=256))
        for party, commitment in sorted(new.snapshots.items())
    ]
    transaction.add(row)
    transaction.flush()


def _served(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return ReleaseRow.published.is_not(None), ReleaseRow.expires > now, ReleaseRow.removed.is_(None)


def _held(session_id: str, now: datetime) -> Select[ReleaseRow]:
    waiting = (ReleaseRow.published.is_(None), ReleaseRow.expires > now)
    return select(ReleaseRow).where(ReleaseRow.session == session_id, *waiting).order_by(ReleaseRow.id.desc())


def _cached(terms_hash: str, user: str, now: datetime) -> Select[ReleaseRow]:
    terms_hash = checks.findable(terms_hash)
    agreed = exists().where(SessionRow.terms_hash == terms_hash, SessionRow.contract_hash.is_not(None), concerns(user))
    replaced = exists().where(
        ReleaseSnapshotRow.release == ReleaseRow.id,
        StaleSnapshotRow.party == ReleaseSnapshotRow.party,
        StaleSnapshotRow.commitment == ReleaseSnapshotRow.commitment,
    )
    out_of_reach = exists().where(
        ReleaseSnapshotRow.release == ReleaseRow.id, ProviderRow.party == ReleaseSnapshotRow.party, ~reachable_by(user)
    )
    return (
        select(ReleaseRow)
        .where(ReleaseRow.terms_hash == terms_hash, agreed, ~replaced, ~out_of_reach, *_served(now))
        .order_by(ReleaseRow.expires.desc(), ReleaseRow.id)
    )
