"""For operators: whether the coordinator is alive and ready, and its metrics. Outside `/api/v1`.

Health needs no token and so names no party. Metrics do name them: they need an admin's token or a local request.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field
from starlette.responses import JSONResponse, Response

from masquerade.errors import NotAllowed
from masquerade.service.accounts import require
from masquerade.service.api.measure import Measures
from masquerade.service.api.middleware import HEADERS
from masquerade.service.api.problems import NEEDED, problem
from masquerade.service.coordinator import metrics as coordinator_metrics
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Resource, Role

_FRESH = 1.0  # seconds: within this time the database is asked only once

router = APIRouter()


class Ready(Resource):
    """Whether work can be done."""

    status: str = Field(description="ready, or not ready")
    database: str = Field(description="ok, does not answer, or cannot be written")
    files: str = Field(description="those of the state folder: ok, or cannot be written")
    parties: int = Field(description="how many parties there are")
    reachable: int = Field(description="how many of them answered when they were last asked")
    queue: int | None = Field(description="how many sessions wait for their turn; null: not known")
    running: int | None = Field(description="how many are computed now; null: not known")


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
    told = Ready(
        status="ready" if seen["ready"] else "not ready",
        database=seen["database"],
        files=seen["files"],
        parties=len(parties),
        reachable=sum(1 for each in parties if each["reachable"]),
        queue=seen["queue"],
        running=seen["running"],
    )
    return JSONResponse(told.model_dump(), 200 if seen["ready"] else 503, headers=HEADERS)


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
