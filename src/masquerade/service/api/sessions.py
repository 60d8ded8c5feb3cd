"""Sessions: asked for, looked at, cancelled, decided."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from masquerade.errors import NotFound, ParameterError
from masquerade.service.api.access import Service, SessionId, Someone
from masquerade.service.api.problems import told
from masquerade.service.api.request_body import RequestBody, RequestChange
from masquerade.service.api.shapes import Answer, Body, Limit, Moment, page
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.session_summary import SessionSummary
from masquerade.service.store import Offer, Session, Status, User

router = APIRouter(tags=["sessions"])


class Missed(Answer):
    """How far a table is from the wished quality."""

    error: float | None = Field(description="the classification error; null: it could not be measured")
    most_error: float | None = Field(description="the one that was wished at most")


class SessionAnswer(Answer):
    """A request on its way."""

    id: str = Field(description="the session's identifier", examples=["0f" * 16])
    client: str = Field(description="who asked", examples=["ana"])
    recipients: list[str] = Field(description="who else may have the release")
    providers: list[str] = Field(description="the parties that take part", examples=[["bank", "clinic"]])
    purpose: str = Field(description="what the table is for", examples=["research"])
    status: Status = Field(description="where it stands")
    cause: str | None = Field(description="why it stands there, if there is something to tell")
    reasons: list[str] = Field(
        description="the cause line by line: of a refusal, every reason of every party"
    )
    attempts: int = Field(description="how often it was tried")
    attempt_limit: int = Field(description="how often it may be tried")
    request: dict[str, Any] = Field(description="what was asked for, as it was understood")
    agreed: list[str] = Field(
        description="the requirement that all parties signed; it may be stricter than the wished one. Empty: none yet",
        examples=[["k-anonymity (k = 50) over age, job"]],
    )
    terms_hash: str | None = Field(description="the digest of what was agreed; null: nothing yet")
    contract_hash: str | None = Field(description="the digest of the signed contract; null: none yet")
    created: Moment = Field(description="when it was asked for")
    updated: Moment = Field(description="when it last moved")
    queued: Moment | None = Field(description="since when it waits for its turn")
    started: Moment | None = Field(description="when the last attempt began")
    finished: Moment | None = Field(description="when it ended")
    expires: Moment | None = Field(description="until when it may wait")
    rows: int | None = Field(
        description="how many rows were published; null: none, no longer kept, or not for you"
    )
    cached: bool = Field(
        description="whether its release was made for the same terms before, and served again"
    )
    failed_by: str | None = Field(
        description="the party through which it failed: it could not be reached, was not who it should be, or broke"
        " the protocol; empty: one of them, and nobody can tell which; null: it did not fail, not through a party, or"
        " that is no longer known",
        examples=["bank"],
    )
    approvals: list[str] = Field(
        description="while it is negotiated: the parties where a person has to approve it before they sign"
    )
    missed: Missed | None = Field(
        description="while it awaits its client's word: by how much the wished quality is missed"
    )


class Sessions(Answer):
    """Sessions, the newest first."""

    items: list[SessionAnswer] = Field(description="the sessions of this page")
    next: str | None = Field(description="`after` of the next page; null: this is the last")


class OfferAnswer(Answer):
    """What a party answered in one round of the negotiation."""

    party: str = Field(description="who answered", examples=["bank"])
    round: int = Field(description="in which round, from 1")
    terms: dict[str, Any] = Field(description="what it offers")
    price_cents: int = Field(description="what it asks at most, in cents")
    reasons: list[str] = Field(description="why it refuses; none: it is an offer")
    time: Moment = Field(description="when it answered")


class Offers(Answer):
    """All answers, by round and party."""

    items: list[OfferAnswer] = Field(description="the answers")
    next: None = Field(default=None, description="always null: there is one page")


class Choice(StrEnum):
    """What a client can do with a table that missed the wished quality."""

    ACCEPT = "accept"
    RELAX = "relax"
    WITHDRAW = "withdraw"


class Decision(Body):
    """The client's word on a table that missed the wished quality."""

    decision: Choice = Field(
        strict=False,
        description="accept: publish it as it is; relax: negotiate another request; withdraw: end without a table",
    )
    request: RequestChange | None = Field(
        None, description="with relax, and only then: the keys of the request that change"
    )


@router.post("/sessions", status_code=201, responses=told(401, 403, 409, 413, 422, 429, 500, 503))
def ask(request: RequestBody, user: Someone, coordinator: Service, response: Response) -> SessionAnswer:
    """Ask for a table. The session begins at once; its course is told by its events."""
    made = coordinator.ask(user, request)
    response.headers["Location"] = f"/api/v1/sessions/{made.id}"
    return _answer(coordinator, user, made)


@router.get("/sessions", responses=told(401, 403, 404, 422, 429, 500, 503))
def sessions(
    user: Someone,
    coordinator: Service,
    status: Annotated[Status | None, Query(description="only those that stand there")] = None,
    limit: Limit = 50,
    after: Annotated[
        str | None, Query(pattern="^[0-9a-f]{32}$", description="the last session of the page before")
    ] = None,
    everyone: Annotated[bool, Query(description="everybody's sessions, for admins")] = False,
) -> Sessions:
    """The sessions that concern you, the newest first."""
    found = coordinator.sessions(user, status=status, limit=limit + 1, after=after, everyone=everyone)
    items, more = page(found, limit)
    summary = coordinator.session_summaries(user, items)
    told = [_told(each, summary[each.id]) for each in items]
    return Sessions(items=told, next=items[-1].id if more else None)


@router.get("/sessions/{id}", responses=told(401, 404, 422, 429, 500, 503))
def session(id: SessionId, user: Someone, coordinator: Service) -> SessionAnswer:
    """A session: for its client, its recipients and admins. For all others there is none."""
    return _answer(coordinator, user, coordinator.session(user, id))


@router.get("/sessions/{id}/offers", responses=told(401, 404, 422, 429, 500, 503))
def offers(id: SessionId, user: Someone, coordinator: Service) -> Offers:
    """What the parties offered, round by round."""
    return Offers(items=[_offer(each) for each in coordinator.offers(user, id)])


@router.get("/sessions/{id}/contract", responses=told(401, 404, 422, 429, 500, 503))
def contract(id: SessionId, user: Someone, coordinator: Service) -> dict[str, Any]:
    """The contract that all parties signed, with their signatures; 404 as long as there is none."""
    signed = coordinator.contract(user, id)
    if signed is None:
        raise NotFound(f"session {id} has no contract yet")
    return dict(signed)


@router.post("/sessions/{id}/cancel", responses=told(401, 403, 404, 409, 422, 429, 500, 503))
def cancel(id: SessionId, user: Someone, coordinator: Service) -> SessionAnswer:
    """End a session wherever it stands. One that has ended stays as it is (409)."""
    return _answer(coordinator, user, coordinator.cancel(user, id))


@router.post("/sessions/{id}/decision", responses=told(401, 403, 404, 409, 413, 422, 429, 500, 503))
def decide(id: SessionId, body: Decision, user: Someone, coordinator: Service) -> SessionAnswer:
    """Say what is to become of a table that missed the wished quality."""
    if (body.decision is Choice.RELAX) != (body.request is not None):
        raise ParameterError("request: relax needs it, and the other decisions have none")
    if body.decision is Choice.ACCEPT:
        decided = coordinator.accept(user, id)
    elif body.decision is Choice.WITHDRAW:
        decided = coordinator.withdraw(user, id)
    else:
        decided = coordinator.relax(user, id, body.request)
    return _answer(coordinator, user, decided)


def _answer(coordinator: Coordinator, user: User, session: Session) -> SessionAnswer:
    return _told(session, coordinator.session_summaries(user, [session])[session.id])


def _told(session: Session, summary: SessionSummary) -> SessionAnswer:
    return SessionAnswer(
        id=session.id,
        client=session.client,
        recipients=list(session.recipients),
        providers=list(session.providers),
        purpose=session.purpose,
        status=session.status,
        cause=session.cause,
        reasons=list(summary.reasons),
        attempts=session.attempts,
        attempt_limit=session.attempt_limit,
        request=_with_numbers(session.request),
        agreed=list(summary.agreed),
        terms_hash=session.terms_hash,
        contract_hash=session.contract_hash,
        created=session.created,
        updated=session.updated,
        queued=session.queued,
        started=session.started,
        finished=session.finished,
        expires=session.expires,
        rows=summary.rows,
        cached=summary.cached,
        failed_by=summary.failed_by,
        approvals=list(summary.approvals),
        missed=Missed(**{key: summary.missed.get(key) for key in Missed.model_fields})
        if summary.missed is not None
        else None,
    )


def _with_numbers(request: Mapping[str, Any]) -> dict[str, Any]:
    """As it is asked: what contracts write as text, because they have no fractions, are numbers here."""
    numbers = {key: float(request[key]) for key in ("most_error", "epsilon") if request.get(key) is not None}
    return {**request, **numbers}


def _offer(offer: Offer) -> OfferAnswer:
    return OfferAnswer(
        party=offer.party,
        round=offer.round,
        terms=dict(offer.terms),
        price_cents=offer.price_cents,
        reasons=list(offer.reasons),
        time=offer.time,
    )
