"""For operators: whether the coordinator is alive and ready, and its metrics. Outside `/api/v1`.

Health needs no token and so names no party. Metrics do name them: they need an admin's token or a local request.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.errors import NotAllowed
from masquerade.service.accounts import require
from masquerade.service.api.events import Streams
from masquerade.service.api.middleware import HEADERS, HttpMiddleware
from masquerade.service.api.problems import NEEDED, problem
from masquerade.service.coordinator import metrics as coordinator_metrics
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Role

_FRESH = 1.0  # seconds: within this time the database is asked only once

router = APIRouter()


class CachedHealth:
    """The coordinator's health, cached for a moment."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._seen: tuple[float, dict[str, Any]] | None = None

    def look(self) -> dict[str, Any]:
        """Return the health, at most `_FRESH` seconds old."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH:
                self._seen = (time.monotonic(), self._coordinator.health())
            return self._seen[1]


@router.get("/health/live")
async def live() -> Response:
    """Whether the process answers."""
    return JSONResponse({"status": "live"}, headers=HEADERS)


@router.get("/health/ready")
def ready(request: Request) -> Response:
    """Whether database and files can be used, and how much waits; 503 when no work can be done."""
    seen = request.app.state.health.look()
    parties = seen["parties"].values()
    told = {
        "status": "ready" if seen["ready"] else "not ready",
        "database": seen["database"],  # ok, does not answer, or cannot be written
        "files": seen["files"],  # those of the state folder: ok, or cannot be written
        "parties": len(parties),
        "reachable": sum(1 for each in parties if each["reachable"]),
        **{key: seen[key] for key in ("queue", "running")},  # how many sessions; null: not known
    }
    return JSONResponse(told, 200 if seen["ready"] else 503, headers=HEADERS)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """What is counted, as Prometheus reads it."""
    coordinator: Coordinator = request.app.state.coordinator
    if not _from_here(request):
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            told = "metrics are for this machine, or for the token of an admin"
            return problem(401, [told], {**HEADERS, **NEEDED})
        try:
            user = coordinator.accounts.authenticate(token.strip())
        except NotAllowed as error:
            return problem(401, error.problems, {**HEADERS, **NEEDED})
        require(user, Role.ADMIN)
    measures: Measures = request.app.state.measures
    content = generate_latest(coordinator_metrics.registry) + generate_latest(measures.registry)
    return Response(content, media_type=CONTENT_TYPE_LATEST, headers=HEADERS)


def _from_here(request: Request) -> bool:
    """Return whether the request comes from this machine itself, not through a proxy on it."""
    if any(name in request.headers for name in ("forwarded", "x-forwarded-for", "x-real-ip", "via")):
        return False
    try:
        return ipaddress.ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:
        return False


# --- measures -----------------------------------------------------------------------------------------------
# Metrics of the API. A route is labelled by its pattern, never by an identifier.

_STREAM = b"text/event-stream"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Measures:
    """Requests, their durations, and open streams of one app."""

    def __init__(self, streams: Streams) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "masquerade_http_requests", "Requests to the API.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "masquerade_http_seconds", "How long an answer took, streams apart.", ["route"], registry=self.registry
        )
        self.registry.register(_OpenStreams(streams))


class _OpenStreams(Collector):
    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def collect(self) -> list[GaugeMetricFamily]:
        open_now = self._streams.open.total()
        return [GaugeMetricFamily("masquerade_http_streams", "Streams of events that are open.", open_now)]


class Measure(HttpMiddleware):
    """Count each request once it is answered."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        super().__init__(app)
        self.measures = measures

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count it and measure its duration."""
        began = time.perf_counter()
        status, stream = 500, False

        async def sent(message: Message) -> None:
            nonlocal status, stream
            if message["type"] == "http.response.start":
                status = message["status"]
                stream = any(name == b"content-type" and _STREAM in value for name, value in message["headers"])
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.measures.requests.labels(method, route, str(status)).inc()
            if not stream:
                self.measures.seconds.labels(route).observe(time.perf_counter() - began)
