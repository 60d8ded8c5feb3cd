"""Who can be asked for what, and what a request would come to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path, Query
from pydantic import Field

from masquerade.service.api.access import Service, Someone
from masquerade.service.api.problems import told
from masquerade.service.api.request_body import DraftBody
from masquerade.service.api.shapes import Answer, Limit, Moment, page
from masquerade.service.coordinator.coordinator import Provided

router = APIRouter(tags=["providers"])


class TaxonomyAnswer(Answer):
    """What is told of a taxonomy."""

    fingerprint: str = Field(description="a digest of the whole tree: equal for equal trees")
    height: int = Field(description="levels below the root")
    root: str | None = Field(description="the name of the root; null: not told", examples=["Any job"])


class ColumnAnswer(Answer):
    """A column that can be asked for."""

    name: str = Field(description="the column's name", examples=["age"])
    kind: Literal["categorical", "continuous", "date"] = Field(description="what its values are")
    role: Literal["attribute", "sensitive", "class"] = Field(
        description="only an attribute can be in a QID; the others are released as they are"
    )
    taxonomy: TaxonomyAnswer | None = Field(description="its taxonomy; null: none that is told")


class DatasetAnswer(Answer):
    """A dataset, as its party has published it: never a value."""

    party: str = Field(description="whose it is", examples=["bank"])
    dataset: str = Field(description="its name", examples=["customers"])
    identifier: str = Field(description="the column that identifies people, which is never released")
    columns: list[ColumnAnswer] = Field(description="what can be asked for")
    records: int | None = Field(description="how many records there are, rounded up; null: not told")
    schema_digest: str = Field(alias="schema", description="a digest of how the columns are generalised")
    snapshot: str | None = Field(description="the commitment to the table as it stands; null: not read yet")
    horizontal: bool = Field(
        description="whether it may be published together with others that have the same columns"
    )


class ProviderAnswer(Answer):
    """A party that you may ask."""

    party: str = Field(description="the party's name", examples=["bank"])
    datasets: list[DatasetAnswer] = Field(description="its datasets that you may ask for")
    last_seen: Moment | None = Field(description="when it was last there; null: never")
    reachable: bool = Field(description="whether it answered when it was last asked")


class Providers(Answer):
    """The parties that you may ask, by name."""

    items: list[ProviderAnswer] = Field(description="the parties of this page")
    next: str | None = Field(
        description="`after` of the next page; null: this is the last", examples=["bank"]
    )


class PreviewAnswer(Answer):
    """What would come of a request; nothing is stored."""

    contributors: dict[str, list[str]] = Field(
        description="for each column that is wanted, the parties that hold it", examples=[{"age": ["bank"]}]
    )
    parties: list[str] = Field(description="who would take part", examples=[["bank", "clinic"]])
    requirement: list[str] = Field(description="the requirement that is wished, in words")
    problems: list[str] = Field(description="what stands in the way; none: the parties can be asked")


@router.get("/providers", responses=told(401, 422, 429, 500, 503))
def providers(
    user: Someone,
    coordinator: Service,
    limit: Limit = 50,
    after: Annotated[str, Query(max_length=200, description="the last party of the page before")] = "",
) -> Providers:
    """The parties that you may ask, and what they have."""
    found = [each for each in coordinator.providers(user) if each.party > after]
    items, more = page(found, limit)
    return Providers(items=[_answer(each) for each in items], next=items[-1].party if more else None)


@router.get("/providers/{party}", responses=told(401, 404, 422, 429, 500, 503))
def provider(
    party: Annotated[
        str, Path(min_length=1, max_length=200, description="the party's name", examples=["bank"])
    ],
    user: Someone,
    coordinator: Service,
) -> ProviderAnswer:
    """One party that you may ask. One that you may not looks as if it were not there."""
    return _answer(coordinator.provider(user, party))


@router.post("/previews", responses=told(401, 413, 422, 429, 500, 503))
def preview(request: DraftBody, user: Someone, coordinator: Service) -> PreviewAnswer:
    """What would come of a request, before it is made: who contributes, and what stands in the way."""
    seen = coordinator.preview(user, request)
    return PreviewAnswer(
        contributors={name: list(parties) for name, parties in seen.contributors.items()},
        parties=list(seen.parties),
        requirement=list(seen.requirement),
        problems=list(seen.problems),
    )


def _answer(provided: Provided) -> ProviderAnswer:
    plain: list[dict[str, Any]] = [msgspec.to_builtins(card) for card in provided.datasets]
    datasets = [DatasetAnswer.model_validate(card) for card in plain]
    return ProviderAnswer(
        party=provided.party, datasets=datasets, last_seen=provided.last_seen, reachable=provided.reachable
    )
