"""The release of a session, for its client and its recipients only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from masquerade.service.api.access import Recipient, Service, SessionId
from masquerade.service.api.headers import REPORT
from masquerade.service.api.problems import error_responses
from masquerade.service.resources import PublishedRelease

router = APIRouter(tags=["releases"])

_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


class Download(FileResponse):
    """A file sent whole; range requests are ignored."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        self.headers["Accept-Ranges"] = "none"
        whole = [header for header in scope["headers"] if header[0] not in (b"range", b"if-range")]
        await super().__call__({**scope, "headers": whole}, receive, send)


@router.get("/sessions/{id}/release", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def release(id: SessionId, user: Recipient, coordinator: Service) -> PublishedRelease:
    """A release's facts and summary; 404 as long as nothing is published."""
    facts = dict(coordinator.release(user, id))
    return PublishedRelease(**facts, summary=coordinator.summary(user, id))


@router.get(
    "/sessions/{id}/release/table",
    response_class=Download,
    responses={
        200: {
            "description": "The table, the model or the answer",
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": _BINARY,
                "application/json": {"schema": {"type": "object"}},
            },
        },
        **error_responses(401, 403, 404, 422, 429, 500, 503),
    },
)
def table(
    id: SessionId,
    user: Recipient,
    coordinator: Service,
    format: Annotated[
        Literal["csv", "parquet", "json"],
        Query(description="how the table is written; a model and ratios are json"),
    ] = "csv",
) -> Download:
    """The table itself, or the model."""
    return _download(coordinator.table(user, id, format), _TYPES[format], f"release-{id}.{format}")


@router.get(
    "/sessions/{id}/release/report",
    response_class=Download,
    responses={
        200: {"description": "One HTML file", "content": {"text/html": {"schema": {"type": "string"}}}},
        **error_responses(401, 403, 404, 422, 429, 500, 503),
    },
)
def report(id: SessionId, user: Recipient, coordinator: Service) -> Download:
    """The report: one HTML file without script, which needs no network."""
    made = _download(coordinator.report(user, id), "text/html; charset=utf-8", f"report-{id}.html")
    made.headers["Content-Security-Policy"] = REPORT
    return made


def _download(path: Path, media_type: str, name: str) -> Download:
    return Download(path, media_type=media_type, filename=name, content_disposition_type="attachment")
