"""What is done when the coordinator starts, and now and then: nothing is left lying about, nothing waits for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from masquerade.errors import Conflict
from masquerade.service.coordinator import metrics
from masquerade.service.store import FINAL, WAITING, Session, Status, Store

if TYPE_CHECKING:
    from masquerade.service.coordinator.coordinator import Coordinator

log = structlog.get_logger("masquerade.coordinator")

RESTARTED = "the coordinator was restarted"
LOST_DATABASE = "the coordinator lost its database"


def after_restart(coordinator: Coordinator) -> None:
    """Sessions that were interrupted are tried again, or fail; folders that were never published go."""
    store = coordinator.store
    for session in store.sessions.interrupted():
        moved = metrics.moved(store.sessions.retry(session, RESTARTED))
        log.warning("interrupted", session=session.id, next=moved.status.value)
    for session in store.sessions.in_states(*WAITING - {Status.AWAITING_CLIENT}):
        gone = [party for party in session.providers if party not in coordinator.settings.parties]
        if gone:
            cause = f"party {gone[0]}: is not among the parties of this coordinator any more"
            metrics.moved(store.sessions.advance(session, Status.FAILED, cause))
    orphans = coordinator.files.sweep(store.releases.kept())
    if orphans:
        log.info("swept", folders=len(orphans))


def take_up(coordinator: Coordinator, session: Session) -> None:
    """A session that computes, but that nobody carries: what came of its attempt could not be stored.

    Whether it was stored after all, the move itself finds out: it waits for what the database still has in hand.
    """
    store = coordinator.store
    try:
        moved = metrics.moved(store.sessions.retry(session, LOST_DATABASE))
    except Conflict:  # it was stored, or somebody has cancelled it
        return
    log.warning("interrupted", session=session.id, next=moved.status.value)
    coordinator.files.discard(session.id, store.releases.kept())


def retire(coordinator: Coordinator) -> None:
    """End what waited too long, and delete the files of releases that expired."""
    found = coordinator.store.expire()
    for path in found.files:
        coordinator.files.remove(path)
    if found.releases:
        coordinator.store.releases.forget(found.releases)
    for _session in found.sessions:
        metrics.statuses.labels(Status.EXPIRED.value).inc()
    if found.releases or found.sessions:
        log.info("retired", releases=len(found.releases), sessions=len(found.sessions))


def give_up(store: Store, session_id: str, kind: str) -> None:
    """A failure of our own: the session ends with it instead of being tried for ever."""
    session = store.sessions.get(session_id)
    if session.status in FINAL:
        return
    try:
        cause = f"a failure of the coordinator ({kind}); its log says more"
        metrics.moved(store.sessions.advance(session, Status.FAILED, cause))
    except Conflict:  # somebody else has ended it
        return
