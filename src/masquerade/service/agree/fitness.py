"""Whether a dataset's columns, as its party declares them, fit what a request wants of them."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.errors import Problem
from masquerade.protocol.contract import MODEL, OUTCOMES
from masquerade.service.agree.request import Request
from masquerade.service.cards import ColumnCard, SchemaCard


def unfit_columns(request: Request, card: SchemaCard) -> Iterator[tuple[str, str]]:
    """Yield each column of a dataset that the request cannot have as it wants it, and why."""
    for name in request.contributed:
        column = card.column(name)
        if column is None or request.providers.get(name, card.party) != card.party:
            continue
        if why := _objection(request, column):
            yield name, why


def unfit_problems(request: Request, card: SchemaCard) -> Iterator[Problem]:
    """Yield the same as problems with the keys of the request."""
    for name, why in unfit_columns(request, card):
        yield Problem(f'"{name}" of {card.party} {why}', key=(request.key_of(name),))


def _objection(request: Request, column: ColumnCard) -> str | None:
    role = request.outcomes.get(column.name)
    if role == "duration" and column.kind != "continuous":
        return f"is {column.kind}; a duration is a number"
    if role is None and column.role in OUTCOMES:
        return f"is the {column.role} of models of survival; it is nothing else, and never released"
    if role is None and column.role != "attribute" and request.method.makes is MODEL:
        return f"is declared as {column.role}; a model takes attributes alone"
    return None
