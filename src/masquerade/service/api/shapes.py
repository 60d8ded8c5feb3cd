"""What the bodies and lists of all routes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")

MOST_ITEMS = 200
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="the largest number of items")]


class Body(BaseModel):
    """Anything that the API is sent. Unknown keys are errors, and nothing is converted in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def page(found: Sequence[Item], limit: int) -> tuple[tuple[Item, ...], bool]:
    """Split off the extra item that was fetched: return the page's items, and whether there are more."""
    return tuple(found[:limit]), len(found) > limit
