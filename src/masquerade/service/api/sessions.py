"""Sessions: requesting, viewing, cancelling and deciding on them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from masquerade.errors import NotAllowed, NotFound, ParameterError
from masquerade.service.api.access import Body, Limit, Reader, Recipient, Requester, Service, SessionId, page
from masquerade.service.api.middleware import REPORT
from masquerade.service.api.problems import error_responses
from masquerade.service.api.request_body import DraftBody, RequestBody, RequestChange
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import (
    LedgerPage,
    Page,
    PartyOffer,
    Provider,
    PublishedRelease,
    RequestPreview,
    Role,
    Session,
    User,
)
from masquerade.service.session_states import Decision, Status
from masquerade.service.store import SessionRecord

# --- ledger -------------------------------------------------------------------------------------------------
# The price ledger: what sessions cost.

_LARGEST = 2**53 - 1

ledger_router = APIRouter(tags=["ledger"])


@ledger_router.get("/ledger", responses=error_responses(401, 403, 422, 429, 500, 503))
def ledger(
    user: Reader,
    coordinator: Service,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=_LARGEST, description="the last line of the page before")] = 0,
    of_user: Annotated[
        str | None, Query(alias="user", min_length=1, max_length=128, description="only this user's; for admins")
    ] = None,
    party: Annotated[str | None, Query(min_length=1, max_length=200, description="only this party's")] = None,
) -> LedgerPage:
    """Your lines of the price ledger; for admins everybody's."""
    if of_user not in (None, user.name) and user.role is not Role.ADMIN:
        raise NotAllowed("query user: others' lines are for admins")
    found = coordinator.ledger(user, of_user=of_user, party=party, limit=limit + 1, after=after)
    items, more = page(found, limit)
    owed = coordinator.owed(user, of_user=of_user, party=party)
    return LedgerPage(items=items, next=items[-1].id if more else None, owed=owed)


# --- providers ----------------------------------------------------------------------------------------------
# Which parties can be asked for what, and previews of requests.

providers_router = APIRouter(tags=["providers"])


@providers_router.get("/providers", responses=error_responses(401, 403, 422, 429, 500, 503))
def providers(
    user: Reader,
    coordinator: Service,
    limit: Limit = 50,
    after: Annotated[str, Query(max_length=200, description="the last party of the page before")] = "",
) -> Page[Provider]:
    """The parties that you may ask, and what they have."""
    found = [each for each in coordinator.providers(user) if each.party > after]
    items, more = page(found, limit)
    return Page[Provider](items=items, next=items[-1].party if more else None)


@providers_router.get("/providers/{party}", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def provider(
    party: Annotated[str, Path(min_length=1, max_length=200, description="the party's name", examples=["bank"])],
    user: Reader,
    coordinator: Service,
) -> Provider:
    """One party that you may ask. One that you may not looks as if it were not there."""
    return coordinator.provider(user, party)


@providers_router.post("/previews", responses=error_responses(401, 403, 413, 422, 429, 500, 503))
def preview(request: DraftBody, user: Reader, coordinator: Service) -> RequestPreview:
    """What would come of a request, before it is made: who contributes, and what stands in the way."""
    return coordinator.preview(user, request)


# --- releases -----------------------------------------------------------------------------------------------
# The release of a session, for its client and its recipients only.

releases_router = APIRouter(tags=["releases"])

_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet", "json": "application/json"}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


class Download(FileResponse):
    """A file sent whole; range requests are ignored."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        self.headers["Accept-Ranges"] = "none"
        whole = [header for header in scope["headers"] if header[0] not in (b"range", b"if-range")]
        await super().__call__({**scope, "headers": whole}, receive, send)


@releases_router.get("/sessions/{id}/release", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def release(id: SessionId, user: Recipient, coordinator: Service) -> PublishedRelease:
    """A release's facts and summary; 404 as long as nothing is published."""
    facts = dict(coordinator.release(user, id))
    return PublishedRelease(**facts, summary=coordinator.summary(user, id))


@releases_router.get(
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
        Literal["csv", "parquet", "json"], Query(description="how the table is written; a model and ratios are json")
    ] = "csv",
) -> Download:
    """The table itself, or the model."""
    path = coordinator.table(user, id, format)
    return Download(path, media_type=_TYPES[format], filename=f"release-{id}.{format}")


@releases_router.get(
    "/sessions/{id}/release/report",
    response_class=Download,
    responses={
        200: {"description": "One HTML file", "content": {"text/html": {"schema": {"type": "string"}}}},
        **error_responses(401, 403, 404, 422, 429, 500, 503),
    },
)
def report(id: SessionId, user: Recipient, coordinator: Service) -> Download:
    """The report: one HTML file without script, which needs no network."""
    path = coordinator.report(user, id)
    made = Download(path, media_type="text/html; charset=utf-8", filename=f"report-{id}.html")
    made.headers["Content-Security-Policy"] = REPORT
    return made


# --- sessions -----------------------------------------------------------------------------------------------

sessions_router = APIRouter(tags=["sessions"])


class DecisionBody(Body):
    """The client's word on a table that waits for it."""

    decision: Decision = Field(
        strict=False,
        description="accept: publish it as it is; relax: negotiate another request; withdraw: decline it, which"
        " deletes it, so that it does not bind later requests",
    )
    request: RequestChange | None = Field(
        None, description="with relax, and only then: the keys of the request that change"
    )


@sessions_router.post("/sessions", status_code=201, responses=error_responses(401, 403, 409, 413, 422, 429, 500, 503))
def ask(request: RequestBody, user: Requester, coordinator: Service, response: Response) -> Session:
    """Ask for a table. The session begins at once; its events show its course."""
    made = coordinator.ask(user, request)
    response.headers["Location"] = f"/api/v1/sessions/{made.id}"
    return _summary(coordinator, user, made)


@sessions_router.get("/sessions", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def sessions(
    user: Reader,
    coordinator: Service,
    status: Annotated[Status | None, Query(description="only those that stand there")] = None,
    limit: Limit = 50,
    after: Annotated[
        str | None, Query(pattern="^[0-9a-f]{32}$", description="the last session of the page before")
    ] = None,
    everyone: Annotated[bool, Query(description="everybody's sessions, for admins")] = False,
) -> Page[Session]:
    """The sessions that concern you, the newest first."""
    found = coordinator.sessions(user, status=status, limit=limit + 1, after=after, everyone=everyone)
    items, more = page(found, limit)
    told = tuple(coordinator.summaries(user, items))
    return Page[Session](items=told, next=items[-1].id if more else None)


@sessions_router.get("/sessions/{id}", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def session(id: SessionId, user: Reader, coordinator: Service) -> Session:
    """A session: for its client, its recipients and admins. 404 for all others."""
    return _summary(coordinator, user, coordinator.session(user, id))


@sessions_router.get("/sessions/{id}/offers", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def offers(id: SessionId, user: Reader, coordinator: Service) -> Page[PartyOffer]:
    """What the parties offered, round by round."""
    return Page[PartyOffer](items=tuple(coordinator.offers(user, id)))


@sessions_router.get("/sessions/{id}/contract", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def contract(id: SessionId, user: Reader, coordinator: Service) -> dict[str, Any]:
    """The contract that all parties signed, with their signatures; 404 before that."""
    signed = coordinator.contract(user, id)
    if signed is None:
        raise NotFound(f"session {id} has no contract yet")
    return dict(signed)


@sessions_router.post("/sessions/{id}/cancel", responses=error_responses(401, 403, 404, 409, 422, 429, 500, 503))
def cancel(id: SessionId, user: Requester, coordinator: Service) -> Session:
    """End a session wherever it stands. One that has ended stays as it is (409)."""
    return _summary(coordinator, user, coordinator.cancel(user, id))


@sessions_router.post("/sessions/{id}/decision", responses=error_responses(401, 403, 404, 409, 413, 422, 429, 500, 503))
def decide(id: SessionId, body: DecisionBody, user: Requester, coordinator: Service) -> Session:
    """Decide on a table that waits for its client, because of its losses or because an estimate was asked for."""
    if (body.decision is Decision.RELAX) != (body.request is not None):
        raise ParameterError("request: relax needs it, and the other decisions have none")
    if body.decision is Decision.ACCEPT:
        decided = coordinator.accept(user, id)
    elif body.decision is Decision.WITHDRAW:
        decided = coordinator.withdraw(user, id)
    else:
        decided = coordinator.relax(user, id, body.request)
    return _summary(coordinator, user, decided)


def _summary(coordinator: Coordinator, user: User, session: SessionRecord) -> Session:
    (summary,) = coordinator.summaries(user, [session])
    return summary
