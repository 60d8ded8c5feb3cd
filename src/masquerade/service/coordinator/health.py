"""How the coordinator is: whether its database answers, who is there, and how much waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from masquerade.service.coordinator.moments import iso
from masquerade.service.store import Status

if TYPE_CHECKING:
    from masquerade.service.coordinator.coordinator import Coordinator

log = structlog.get_logger("masquerade.coordinator")


def health(coordinator: Coordinator) -> dict[str, Any]:
    """What is told of it, whether or not there is a database to ask."""
    store, directory = coordinator.store, coordinator.directory
    try:
        store.ping()
        queue = store.sessions.count(Status.QUEUED)
        computing = store.sessions.count(Status.RUNNING, Status.ASSEMBLING)
        sights = directory.sights()
    except Exception as error:  # whatever a driver raises: the database is the matter
        log.error("no database", problem=store.reason(error))
        known = directory.answering()
        return {
            "ready": False,
            "database": "does not answer",
            "parties": {party: {"last_seen": None, "reachable": there} for party, there in known.items()},
            "queue": None,
            "running": None,
        }
    return {
        "ready": not coordinator.in_trouble,
        "database": "cannot be written" if coordinator.in_trouble else "ok",
        "parties": {
            party: {"last_seen": None if seen is None else iso(seen), "reachable": reachable}
            for party, (seen, reachable) in sights.items()
        },
        "queue": queue,
        "running": computing,
    }
