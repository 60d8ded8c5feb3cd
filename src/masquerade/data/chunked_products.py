"""Products of columns (`product.py`) where the rows are in chunks: combinations are numbered over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from masquerade.data.chunked_table import ChunkedTable, codes_of
from masquerade.data.column import Coded
from masquerade.data.product import Combination, Product
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts
from masquerade.engine.numbering import look_up
from masquerade.engine.sparse import SparseCounts
from masquerade.errors import DataError

_LARGEST_KEY = 1 << 62


def with_products(table: ChunkedTable, names: Iterable[str | None]) -> ChunkedTable:
    """Return the table with a column of codes for each of these names that is a product."""
    for name in dict.fromkeys(names):
        if not isinstance(name, Product):
            continue
        # A product of one column goes by that column's name, and has the same codes.
        if name not in table.coded or not isinstance(table.coded[name].name, Product):
            table = _with_product(table, name)
    return table


def _with_product(table: ChunkedTable, name: Product) -> ChunkedTable:
    members = [table.coded[each] for each in name.names]
    keys = _Combine(tuple((codes_of(each.name), max(len(each.labels), 1)) for each in members))
    if keys.bound > _LARGEST_KEY:
        text = f"{name} has more than 2^62 possible combinations of values; name fewer sensitive columns"
        raise DataError.about(table.name, text)
    counted = table.chunks.total(_Count(keys))
    places = np.unravel_index(counted.keys, [bound for _, bound in keys.columns])
    labels = tuple(
        Combination([each.labels[place] for each, place in zip(members, row, strict=True)], row)
        for row in zip(*(each.tolist() for each in places), strict=True)
    )
    table.chunks.change(_Number(keys, counted.keys, codes_of(name)))
    return replace(
        table,
        coded={**table.coded, name: Coded(name, np.empty(0, np.int32), labels)},
        whole={**table.whole, name: counted.counts.reshape(1, -1)},
    )


@dataclass(frozen=True)
class _Combine:
    """One number for the codes that each row has in several columns, the first of which weighs most."""

    columns: tuple[tuple[str, int], ...]  # the array of codes, and their bound

    @property
    def bound(self) -> int:
        return prod(bound for _, bound in self.columns)

    def __call__(self, chunk: Chunk) -> Counts:
        keys = np.zeros(chunk[self.columns[0][0]].size, np.int64)
        for name, bound in self.columns:
            keys *= bound
            keys += chunk[name]
        return keys


@dataclass(frozen=True)
class _Count:
    keys: _Combine

    def __call__(self, chunk: Chunk) -> SparseCounts:
        return SparseCounts.of(self.keys(chunk), self.keys.bound)


@dataclass(frozen=True, eq=False)
class _Number:
    keys: _Combine
    found: Counts
    name: str

    def __call__(self, chunk: Chunk) -> Arrays:
        numbers = look_up(self.keys(chunk), self.found, np.arange(self.found.size), self.keys.bound)
        return {self.name: numbers.astype(np.int32)}
