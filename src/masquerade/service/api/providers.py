"""Which parties can be asked for what, and previews of requests."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from masquerade.service.api.access import Reader, Service
from masquerade.service.api.problems import error_responses
from masquerade.service.api.request_body import DraftBody
from masquerade.service.api.shapes import Limit, page
from masquerade.service.resources import Page, Provider, RequestPreview

router = APIRouter(tags=["providers"])


@router.get("/providers", responses=error_responses(401, 403, 422, 429, 500, 503))
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


@router.get("/providers/{party}", responses=error_responses(401, 403, 404, 422, 429, 500, 503))
def provider(
    party: Annotated[
        str, Path(min_length=1, max_length=200, description="the party's name", examples=["bank"])
    ],
    user: Reader,
    coordinator: Service,
) -> Provider:
    """One party that you may ask. One that you may not looks as if it were not there."""
    return coordinator.provider(user, party)


@router.post("/previews", responses=error_responses(401, 403, 413, 422, 429, 500, 503))
def preview(request: DraftBody, user: Reader, coordinator: Service) -> RequestPreview:
    """What would come of a request, before it is made: who contributes, and what stands in the way."""
    return coordinator.preview(user, request)
