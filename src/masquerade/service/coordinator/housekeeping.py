"""What the coordinator does at its start and now and then: nothing is left behind, nothing waits for ever."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from masquerade.errors import Conflict
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.session_states import FINAL, WAITING, Status
from masquerade.service.store import SessionRecord, Store

log = structlog.get_logger("masquerade.coordinator")

RESTARTED = "the coordinator was restarted"
LOST_DATABASE = "the coordinator lost its database"


def after_restart(store: Store, files: ReleaseFiles, parties: Collection[str]) -> None:
    """Retry or fail interrupted sessions, fail those of parties that are gone, delete folders without a release."""
    for session in store.sessions.interrupted():
        moved = metrics.moved(store.sessions.retry(session, RESTARTED))
        log.warning("interrupted", session=session.id, next=moved.status.value)
    for session in store.sessions.in_states(*WAITING - {Status.AWAITING_CLIENT}):
        gone = [party for party in session.providers if party not in parties]
        if gone:
            cause = f"party {gone[0]}: is not among the parties of this coordinator any more"
            metrics.moved(store.sessions.advance(session, Status.FAILED, cause))
    # Nobody delivers yet, so a folder without a row was left between the files and their row: it was never published.
    orphans = files.sweep(store.releases.kept())
    if orphans:
        log.info("swept", folders=len(orphans))


def resume(store: Store, files: ReleaseFiles, session: SessionRecord) -> None:
    """Retry a session that computes for the store, but for nobody here: how its attempt ended could not be stored.

    Whether it was stored after all, the move itself finds out: it waits for what the database still has in hand.
    """
    try:
        moved = metrics.moved(store.sessions.retry(session, LOST_DATABASE))
    except Conflict:  # it was stored, or somebody has cancelled it
        return
    log.warning("interrupted", session=session.id, next=moved.status.value)
    files.discard(session.id, store.releases.kept())


def retire(store: Store, files: ReleaseFiles) -> None:
    """End sessions that waited too long, and delete the files of releases that expired."""
    found = store.expire()
    for path in found.files:
        files.remove(path)
    if found.releases:
        store.releases.forget(found.releases)
    for _session in found.sessions:
        metrics.statuses.labels(Status.EXPIRED.value).inc()
    if found.releases or found.sessions:
        log.info("retired", releases=len(found.releases), sessions=len(found.sessions))


def give_up(store: Store, session_id: str, kind: str) -> None:
    """End a session with a failure of our own, of this kind, instead of trying it for ever."""
    session = store.sessions.get(session_id)
    if session.status in FINAL:
        return
    try:
        cause = f"a failure of the coordinator ({kind}); its log says more"
        metrics.moved(store.sessions.advance(session, Status.FAILED, cause))
    except Conflict:  # somebody else has ended it
        return
