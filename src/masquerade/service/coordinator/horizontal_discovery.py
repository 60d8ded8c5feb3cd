"""Which parties can publish together: those that have all columns of a horizontal request, and have them alike.

Kinds, roles and taxonomies are compared here, by the cards; bounds show when the parties make their offers. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.errors import hint
from masquerade.service.card import ColumnCard, SchemaCard
from masquerade.service.control import PublishedDataset
from masquerade.service.coordinator.discovery import Found, Offered, holders_of, not_offered
from masquerade.service.horizontal import unsuitable
from masquerade.service.request import Request


def find_horizontal(request: Request, offered: Offered) -> Found:
    """Match a horizontal request with the datasets that its user may ask for."""
    holders = {name: holders_of(name, offered) for name in request.released}
    problems = [
        f"{'class' if name == request.class_name else 'attributes'}: {not_offered(name, offered)}"
        for name, held in holders.items()
        if not held
    ]
    cards: dict[str, SchemaCard] = {}
    for party in request.parties or sorted(offered):
        if party not in offered:
            known = sorted(offered)
            problems.append(
                f'parties: there is no provider "{party}"{hint(party, known)}; there are {", ".join(known) or "none"}'
            )
            continue
        card = _able(request, offered[party])
        if card is not None:
            cards[party] = card
        elif request.parties:
            problems.append(f"parties: {_lacking(party, request, offered[party])}")
    if request.privacy:  # what a policy adds is looked at when it is offered
        problems += [f"privacy: {why}" for why in unsuitable(request, request.colluding, request.privacy)]
    if not problems:
        problems += _unlike(request, cards)
    if not problems and len(cards) < 2:
        having = f"only {next(iter(cards))} has" if cards else "no party has"
        problems.append(
            f"attributes: {having} all of {', '.join(request.released)}; a horizontal session needs at least two"
        )
    datasets = {party: card.dataset for party, card in cards.items()}
    return Found(holders, datasets, tuple(dict.fromkeys(problems)))


def _able(request: Request, datasets: Sequence[PublishedDataset]) -> SchemaCard | None:
    """The first dataset of a party that has all columns and may be published together with others."""
    for each in datasets:
        if each.card.horizontal and all(each.card.column(name) is not None for name in request.released):
            return each.card
    return None


def _lacking(party: str, request: Request, datasets: Sequence[PublishedDataset]) -> str:
    names = {name for each in datasets for name in each.card.names}
    lacking = [name for name in request.released if name not in names]
    if lacking:
        return f"{party} has no {', '.join(lacking)}"
    if not any(each.card.horizontal for each in datasets):
        return f"{party} takes part in vertical sessions only"
    return f"no dataset of {party} has all of {', '.join(request.released)}; a session takes one dataset of each party"


def _unlike(request: Request, cards: dict[str, SchemaCard]) -> list[str]:
    """The columns that are of another kind, role or taxonomy here than there."""
    problems = []
    for name in request.released:
        ways: dict[ColumnCard | None, list[str]] = {}
        for party, card in cards.items():
            ways.setdefault(card.column(name), []).append(party)
        if len(ways) > 1:
            sides = "; ".join(f"{', '.join(parties)} {_way(column)}" for column, parties in ways.items())
            problems.append(
                f'attributes: "{name}" is not the same everywhere: {sides}; name those that go together in parties'
            )
    return problems


def _way(column: ColumnCard | None) -> str:
    if column is None:
        return "none"
    if column.role != "attribute":
        return f"as {column.role}"
    tree = column.taxonomy
    return f"as {column.kind}{f' with taxonomy {tree.fingerprint[:8]}' if tree is not None else ''}"
