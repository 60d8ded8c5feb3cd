"""The price ledger: what sessions cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from masquerade.errors import NotAllowed
from masquerade.service.api.access import Reader, Service
from masquerade.service.api.problems import error_responses
from masquerade.service.api.shapes import Limit, page
from masquerade.service.resources import LedgerPage, Role

_LARGEST = 2**53 - 1

router = APIRouter(tags=["ledger"])


@router.get("/ledger", responses=error_responses(401, 403, 422, 429, 500, 503))
def ledger(
    user: Reader,
    coordinator: Service,
    limit: Limit = 100,
    after: Annotated[int, Query(ge=0, le=_LARGEST, description="the last line of the page before")] = 0,
    of_user: Annotated[
        str | None,
        Query(alias="user", min_length=1, max_length=128, description="only this user's; for admins"),
    ] = None,
    party: Annotated[str | None, Query(min_length=1, max_length=200, description="only this party's")] = None,
) -> LedgerPage:
    """Your lines of the price ledger; for admins everybody's."""
    if of_user not in (None, user.name) and user.role is not Role.ADMIN:
        raise NotAllowed("query user: others' lines are for admins")
    found = coordinator.ledger(user, of_user=of_user, party=party, limit=limit + 1, after=after)
    items, more = page(found, limit)
    return LedgerPage(
        items=items,
        next=items[-1].id if more else None,
        owed=coordinator.owed(user, of_user=of_user, party=party),
    )
