"""Sessions: requesting, viewing, cancelling and deciding on them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from masquerade.errors import NotFound, ParameterError
from masquerade.service.api.access import Reader, Requester, Service, SessionId
from masquerade.service.api.problems import error_responses
from masquerade.service.api.request_body import RequestBody, RequestChange
from masquerade.service.api.shapes import Body, Limit, page
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Page, PartyOffer, Session, User
from masquerade.service.session_states import Decision, Status
from masquerade.service.store import SessionRecord

router = APIRouter(tags=["sessions"])


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


@router.post("/sessions", status_code=201, responses=error_responses(401, 403, 409, 413, 422, 429, 500, 503))
def ask(request: RequestBody, user: Requester, coordinator: Service, response: Response) -> Session:
    """Ask for a table. The session begins at once; its events show its course."""
    made = coordinator.ask(user, request)
    response.headers["Location"] = f"/api/v1/sessions/{made.id}"
    return _summary(coordinator, user, made)


@router.get("/sessions", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
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


@router.get("/sessions/{id}", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def session(id: SessionId, user: Reader, coordinator: Service) -> Session:
    """A session: for its client, its recipients and admins. 404 for all others."""
    return _summary(coordinator, user, coordinator.session(user, id))


@router.get("/sessions/{id}/offers", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def offers(id: SessionId, user: Reader, coordinator: Service) -> Page[PartyOffer]:
    """What the parties offered, round by round."""
    return Page[PartyOffer](items=tuple(coordinator.offers(user, id)))


@router.get("/sessions/{id}/contract", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def contract(id: SessionId, user: Reader, coordinator: Service) -> dict[str, Any]:
    """The contract that all parties signed, with their signatures; 404 before that."""
    signed = coordinator.contract(user, id)
    if signed is None:
        raise NotFound(f"session {id} has no contract yet")
    return dict(signed)


@router.post("/sessions/{id}/cancel", responses=error_responses(401, 403, 404, 409, 422, 429, 500, 503))
def cancel(id: SessionId, user: Requester, coordinator: Service) -> Session:
    """End a session wherever it stands. One that has ended stays as it is (409)."""
    return _summary(coordinator, user, coordinator.cancel(user, id))


@router.post(
    "/sessions/{id}/decision", responses=error_responses(401, 403, 404, 409, 413, 422, 429, 500, 503)
)
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
