"""Which values each column may have, agreed on before anything is counted.

A taxonomy lists them, and is the same everywhere. Of a column without one, and of the class, every holder tells its
peers the values that its records have. The parties also tell the magnitude of their numbers of records, a power of two,
and whether they have missing numbers to fill in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from masquerade.data.schema import Attribute
from masquerade.data.table import Table
from masquerade.data.taxonomy import FLAT, Taxonomy
from masquerade.errors import DataError, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send

MOST_VALUES = 10_000
_LEAST_BITS = 8  # fewer records than this many bits can count are not told from each other

Values = Mapping[str, tuple[str, ...]]
Codes = NDArray[np.int64]


class ColumnValues(Message, tag="learn-values", frozen=True):
    """The values of the sender's columns, by column, and how many bits its number of records has."""

    values: Annotated[
        dict[str, Annotated[tuple[str, ...], Meta(max_length=MOST_VALUES)]], Meta(max_length=MOST_VALUES)
    ]
    bits: Annotated[int, Meta(ge=_LEAST_BITS, le=64)]
    has_gaps: bool  # whether a number is missing, and to be filled in


@dataclass(frozen=True)
class Agreed:
    """The values of all parties' columns, bits of the largest number of records, and whether numbers are missing."""

    values: Values
    most_bits: int
    has_gaps: bool


def own_codes(table: Table, name: str) -> tuple[Codes, tuple[str, ...]]:
    """Return each record's code in a column, and the values by code: a taxonomy's leaves, or what occurs."""
    attribute = table.schema[name] if name in table.schema else Attribute(name)
    if attribute.taxonomy is not None:
        column = table.column(name)
        assert isinstance(column.domain, Taxonomy)
        return column.ranks.astype(np.int64), column.domain.leaves
    coded = table.coded(name)
    return coded.codes.astype(np.int64), coded.labels


def agree_on_values(me: int, parties: tuple[str, ...], table: Table, names: Iterable[str]) -> Script[Agreed]:
    """Tell all parties which values one's own columns have, and hear theirs."""
    own = {name: own_codes(table, name)[1] for name in names}
    for name, values in own.items():
        if len(values) > MOST_VALUES:
            text = f"column {name} has {len(values)} values; a model takes at most {MOST_VALUES}"
            raise DataError.about(table.origin.name, f"{text}: give a taxonomy, or intervals")
    bits, has_gaps = max(len(table).bit_length(), _LEAST_BITS), table.keeps_missing
    others = tuple(name for number, name in enumerate(parties) if number != me)
    if others:
        yield Send(others, ColumnValues(own, bits, has_gaps))
    told = {parties[me]: own}
    for name in others:
        heard = yield Receive(name, ColumnValues)
        told[name], bits, has_gaps = heard.values, max(bits, heard.bits), has_gaps or heard.has_gaps
    joined = {column: _union(column, told, table) for column in dict.fromkeys(_all(told))}
    return Agreed(joined, bits, has_gaps)


def _all(told: Mapping[str, Values]) -> Iterable[str]:
    return (column for values in told.values() for column in values)


def _union(column: str, told: Mapping[str, Values], table: Table) -> tuple[str, ...]:
    """Return all values of a column: a taxonomy's in its order, others sorted, as numbers if all are."""
    lists = {party: values[column] for party, values in told.items() if column in values}
    for party, values in lists.items():
        if len(set(values)) < len(values):
            raise PeerBrokeProtocol(party, f"has a value of {column} twice")
    first = next(iter(lists.values()))
    if len(lists) == 1 or all(values == first for values in lists.values()):
        return first
    if column in table.schema and table.schema[column].taxonomy not in (None, FLAT):
        raise DataError(f"attribute {column}: {' and '.join(lists)} have different taxonomies; use the same")
    return tuple(sorted({value for values in lists.values() for value in values}, key=_order(lists)))


def _order(lists: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    try:
        for values in lists.values():
            list(map(float, values))
    except ValueError:
        return str
    return lambda value: (float(value), value)
