"""What sessions cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from masquerade.errors import NotAllowed
from masquerade.service.api.access import Service, Someone
from masquerade.service.api.problems import told
from masquerade.service.api.shapes import Answer, Limit, Moment, page
from masquerade.service.store import EntryKind, Role

_LARGEST = 2**53 - 1

router = APIRouter(tags=["ledger"])


class LineAnswer(Answer):
    """One line of the price ledger, which is only ever added to."""

    id: int = Field(description="the line's number")
    time: Moment = Field(description="when it was written")
    user: str = Field(description="who owes, or is given back")
    session: str = Field(description="for which session")
    party: str = Field(description="to or from which party", examples=["bank"])
    cents: int = Field(description="how much, in cents")
    kind: EntryKind = Field(description="charge: the user owes it; refund: the party gives it back")


class LedgerAnswer(Answer):
    """Lines in their order."""

    items: list[LineAnswer] = Field(description="the lines of this page")
    next: int | None = Field(description="`after` of the next page; null: this is the last")
    owed: int = Field(description="charges less refunds of all these lines, on whichever page, in cents")


@router.get("/ledger", responses=told(401, 403, 422, 429, 500, 503))
def ledger(
    user: Someone,
    coordinator: Service,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=_LARGEST, description="the last line of the page before")] = 0,
    of_user: Annotated[
        str | None,
        Query(alias="user", min_length=1, max_length=128, description="only this user's; for admins"),
    ] = None,
    party: Annotated[str | None, Query(min_length=1, max_length=200, description="only this party's")] = None,
) -> LedgerAnswer:
    """Your lines of the price ledger; for admins everybody's."""
    if of_user not in (None, user.name) and user.role is not Role.ADMIN:
        raise NotAllowed("query user: others' lines are for admins")
    found = coordinator.ledger(user, of_user=of_user, party=party, limit=limit + 1, after=after)
    items, more = page(found, limit)
    return LedgerAnswer(
        items=[LineAnswer.model_validate(each) for each in items],
        next=items[-1].id if more else None,
        owed=coordinator.owed(user, of_user=of_user, party=party),
    )
