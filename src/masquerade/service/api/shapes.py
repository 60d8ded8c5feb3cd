"""What the answers and bodies of all routes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict

Item = TypeVar("Item")

MOST_ITEMS = 200
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="at most so many items")]


def _in_utc(value: object) -> object:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


Moment = Annotated[datetime, BeforeValidator(_in_utc)]


class Answer(BaseModel):
    """Anything that the API tells. Exactly these keys, so that a client can rely on them."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class Body(BaseModel):
    """Anything that the API is sent. Unknown keys are errors, and nothing is converted in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def page(found: Sequence[Item], limit: int) -> tuple[Sequence[Item], bool]:
    """The items of a page of which one more was looked for, and whether there are more."""
    return found[:limit], len(found) > limit
