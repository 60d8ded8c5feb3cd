"""Agree on the axes and the sensitive values, where every provider knows its own values only.

Taxonomies are the same everywhere (`written_schema`). For a number without one, all providers together find out how
many decimals it has, whether it is ever negative, and the power of two that all its values stay below; nothing else of
the values shows. For a sensitive attribute they learn all values that occur, as the release will show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Attribute, Column, Continuum, Kind, ProductColumn, Table, Taxonomy, columns_of
from masquerade.errors import DataError
from masquerade.protocol.providers.axes import CategoryAxis, HalvingAxis, PublicAxis, Ranks
from masquerade.protocol.providers.third_party_counts import SensitiveCodes

MOST_DECIMALS = 6
MOST_BITS = 40  # numbers must lie below 2^40
SIGNALS = MOST_DECIMALS + 1 + MOST_BITS

KEEP_AMONG_PROVIDERS = (
    '"keep" is not possible among providers of the same columns, who agree on all values before they see any; '
    'use "drop" or "error", or write a value of its own into the cells and the taxonomies'
)

Bits = NDArray[np.uint8]
Value = tuple[str, ...]  # one text per column of a sensitive attribute


@dataclass(frozen=True)
class Range:
    """A number without a taxonomy, whose range is agreed on where the contract does not give it."""

    attribute: Attribute

    def signals(self, column: Column) -> Bits:
        """Encode what this holder's values need (decimals, sign, size) in unary, so that an OR takes the largest."""
        assert isinstance(column.domain, Continuum)
        values, step = column.domain.values, self.attribute.min_width
        if step is not None:  # values of a coarsened column are whole multiples of it
            values = np.rint(values / step).astype(np.int64)
        name = self.attribute.name
        if any(
            bound is not None and not abs(bound) <= 2**MOST_BITS
            for bound in (self.attribute.lower, self.attribute.upper)
        ):
            raise DataError(
                f"attribute {name}: min and max must lie between −2^{MOST_BITS} and 2^{MOST_BITS}, "
                "or numbers cannot be cut at public places; leave them out, or give a taxonomy of intervals"
            )
        decimals = next((d for d in range(MOST_DECIMALS + 1) if _fits(values, d)), None)
        if decimals is None:
            raise DataError(
                f"attribute {name}: numbers of more than {MOST_DECIMALS} decimals cannot be cut at public places; "
                "round them, or give a taxonomy of intervals"
            )
        largest = float(np.abs(values.astype(np.float64)).max(initial=0))
        if largest >= 2**MOST_BITS:
            raise DataError(
                f"attribute {name}: numbers must lie between −2^{MOST_BITS} and 2^{MOST_BITS}; "
                "give a taxonomy of intervals"
            )
        bits = np.zeros(SIGNALS, np.uint8)
        bits[:decimals] = 1
        if self.attribute.lower is None:
            bits[MOST_DECIMALS] = bool((values < 0).any())
        if self.attribute.lower is None or self.attribute.upper is None:
            bits[MOST_DECIMALS + 1 :] = largest >= 2.0 ** np.arange(MOST_BITS)
        return bits

    def axis(self, signals: Bits) -> HalvingAxis:
        """Return the axis that fits the OR of all signals."""
        attribute, step = self.attribute, self.attribute.min_width
        decimals = int(signals[:MOST_DECIMALS].sum())
        unit = 10**decimals if step is None else 1
        bounds = [
            None if bound is None else bound * unit if step is None else bound / step
            for bound in (attribute.lower, attribute.upper)
        ]
        largest = (1 << int(signals[MOST_DECIMALS + 1 :].sum())) * unit
        lo = -largest if signals[MOST_DECIMALS] else 0
        hi = largest
        if bounds[0] is not None:
            lo = int(np.floor(bounds[0]))
            hi = max(hi, lo + 1)
        if bounds[1] is not None:
            hi = int(np.ceil(bounds[1]))
            lo = min(lo, hi - 1)
        kind: Kind = "date" if attribute.kind == "date" else "continuous"
        return HalvingAxis(
            attribute.name,
            (lo, hi),
            kind,
            decimals,
            float("-inf") if attribute.lower is None else attribute.lower,
            float("inf") if attribute.upper is None else attribute.upper,
            attribute.max_width,
            step,
        )


def ranges_of(table: Table, names: Iterable[str]) -> dict[str, Range]:
    """Return the numbers among these attributes that have no taxonomy."""
    return {name: Range(table.schema[name]) for name in names if isinstance(table.column(name).domain, Continuum)}


def axis_of(table: Table, name: str, signals: Bits | None) -> tuple[PublicAxis, Ranks]:
    """Return an attribute's axis, and the ranks of this table's rows along it."""
    column = table.column(name)
    if isinstance(column.domain, Taxonomy):
        return CategoryAxis(name, column.domain, column.boundary), column.ranks.astype(np.int64)
    assert signals is not None
    axis = Range(table.schema[name]).axis(signals)
    return axis, axis.ranks_of(column.domain.values)[column.ranks]


def values_of(table: Table, name: str) -> list[Value]:
    """Return the distinct values of a sensitive attribute, by code."""
    labels = table.coded(name).labels
    return [label.values if isinstance(name, ProductColumn) else (label,) for label in labels]  # type: ignore[attr-defined] # of a product


def sensitive_codes(table: Table, name: str, values: Sequence[Value]) -> SensitiveCodes:
    """Encode the rows' values by their numbers among those of all providers."""
    number = {value: at for at, value in enumerate(values)}
    places = np.array([number[value] for value in values_of(table, name)], np.int64)
    return SensitiveCodes(places[table.coded(name).codes], tuple(", ".join(value) for value in values))


def all_values(lists: Iterable[Iterable[Value]]) -> tuple[Value, ...]:
    """Return the union of all providers' values, sorted."""
    return tuple(sorted({value for values in lists for value in values}))


def is_value(value: Value, name: str) -> bool:
    """Return whether a value has one text per column of its attribute."""
    return len(value) == len(columns_of(name))


def _fits(values: NDArray[np.int64] | NDArray[np.float64], decimals: int) -> bool:
    if values.dtype.kind == "i":
        return True
    scaled = np.rint(values * 10**decimals)
    return bool((scaled / 10**decimals == values).all())
