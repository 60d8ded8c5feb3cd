"""The cache: a session whose terms were carried out before gets that release, if its client may have it."""

from __future__ import annotations

import structlog

from masquerade.errors import MasqueradeError
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.column_order import wanted_order
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.prices import prices
from masquerade.service.coordinator.quality import good_enough
from masquerade.service.store import Session

log = structlog.get_logger("masquerade.coordinator")


def serve_from_cache(coordinator: Coordinator, session: Session) -> bool:
    """Publish a session that is agreed or queued from a release of the same terms; False when there is none for it."""
    release = coordinator.store.releases.cached(session.terms_hash or "", session.client)
    if release is None:
        return False
    wished = session.request.get("most_error")
    try:
        summary = coordinator.files.summary(release.table_path)
        coordinator.files.whole(release.report_path)
    except (MasqueradeError, OSError, ValueError):  # a file that is gone or damaged: it is made anew
        return False
    if summary.get("columns") != wanted_order(session.request):  # the same terms, in another order
        return False
    if not good_enough((summary.get("quality") or {}).get("error"), wished):
        return False
    charges = prices(session, release.rows)
    session = metrics.moved(coordinator.store.releases.publish_cached(session, release, charges))
    metrics.cached.inc()
    for party, cents in charges.items():
        metrics.charged.labels(party).inc(cents)
    log.info("published from the cache", session=session.id, made_for=release.session)
    return True
