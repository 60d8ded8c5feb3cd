"""Columns that several parties hold, and whether the parties describe them alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.service.card import ColumnCard, SchemaCard
from masquerade.service.resources import Provider


@dataclass(frozen=True)
class Shared:
    """A column name, with its description by each party that holds it."""

    name: str
    holders: tuple[str, ...]
    cards: tuple[ColumnCard, ...]

    @property
    def is_alike(self) -> bool:
        """Whether kind, role and taxonomy are the same everywhere."""
        return len(set(self.cards)) == 1


def pooling(found: Sequence[Provider]) -> list[Provider]:
    """Return the parties with only those datasets that may be published together with others'."""
    kept = [
        each.model_copy(update={"datasets": tuple(card for card in each.datasets if card.horizontal)})
        for each in found
    ]
    return [each for each in kept if each.datasets]


def by_name(found: Sequence[Provider]) -> list[Shared]:
    """Return every column once, in the order of parties and datasets."""
    held: dict[str, list[tuple[str, ColumnCard]]] = {}
    for each in found:
        for card in each.datasets:
            for column in card.columns:
                held.setdefault(column.name, []).append((each.party, column))
    return [
        Shared(name, tuple(dict.fromkeys(party for party, _ in cards)), tuple(card for _, card in cards))
        for name, cards in held.items()
    ]


def same_elsewhere(card: SchemaCard, found: Sequence[Provider]) -> dict[str, tuple[str, ...]]:
    """Return, by party, the columns described exactly as in this dataset, which could be published together."""
    same: dict[str, tuple[str, ...]] = {}
    for each in pooling(found) if card.horizontal else ():
        columns = {column for other in each.datasets for column in other.columns}
        names = tuple(column.name for column in card.columns if column in columns)
        if names and each.party != card.party:
            same[each.party] = names
    return same
