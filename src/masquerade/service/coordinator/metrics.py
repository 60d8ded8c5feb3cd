"""What the coordinator counts, for Prometheus. The API shows `registry`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from masquerade.service.store import SessionRecord

registry = CollectorRegistry()

requests = Counter("masquerade_requests", "Requests for a table.", registry=registry)
statuses = Counter("masquerade_sessions", "Sessions that reached a status.", ["status"], registry=registry)
attempts = Counter(
    "masquerade_attempts", "Attempts to run a session, by how they ended.", ["outcome"], registry=registry
)
cached = Counter("masquerade_cached_releases", "Sessions that were served from the cache.", registry=registry)
failures = Counter("masquerade_party_failures", "Failures of a party, by kind.", ["party", "kind"], registry=registry)
released_rows = Counter("masquerade_released_rows", "Rows of published releases.", registry=registry)
charged = Counter("masquerade_charged_cents", "Cents that were charged.", ["party"], registry=registry)
queue_length = Gauge("masquerade_queue_length", "Sessions that wait for their turn.", registry=registry)
running = Gauge("masquerade_running_sessions", "Sessions that are computed now.", registry=registry)
party_reachable = Gauge("masquerade_party_reachable", "1 when a party answered last.", ["party"], registry=registry)
attempt_seconds = Histogram(
    "masquerade_attempt_seconds",
    "How long an attempt took.",
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=registry,
)


def moved(session: SessionRecord) -> SessionRecord:
    """Count the status that a session has reached; the session itself."""
    statuses.labels(session.status.value).inc()
    return session
