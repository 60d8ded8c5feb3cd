"""Counts of groups by provider and sensitive value, from histograms over combinations of the two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.product import Combination, Product, columns_of
from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError


@dataclass(frozen=True, eq=False)
class ProviderCounts:
    """Where a histogram's columns stand in an array of providers × values."""

    providers: tuple[str, ...]
    n_values: int
    _places: NDArray[np.intp]
    # For each wrapped requirement: its own values by name, and which of them each value of the counts belongs to.
    values: tuple[tuple[tuple[str, ...], NDArray[np.intp]], ...]

    def counts(self, histogram: Counts) -> Counts:
        """The counts of each row as groups × providers × values."""
        n_providers = len(self.providers)
        dense = np.zeros((len(histogram), n_providers * self.n_values), np.int64)
        dense[:, self._places] = histogram
        return dense.reshape(len(histogram), n_providers, self.n_values)


@lru_cache(maxsize=16)
def provider_counts(
    labels: tuple[Any, ...], counted: Product, looked_at: tuple[str | None, ...]
) -> ProviderCounts:
    """The layout of a histogram whose columns are combinations of a provider and sensitive values.

    `counted` names what is combined, the provider first; `looked_at` is each wrapped requirement's sensitive attribute.
    """
    if not all(isinstance(label, Combination) for label in labels):
        raise ParameterError(
            "m-privacy: the counts must be of combinations of a provider and sensitive values"
        )
    providers = sorted({(label.places[0], label.values[0]) for label in labels})
    rows = {place: row for row, (place, _) in enumerate(providers)}
    combined = sorted({label.places[1:] for label in labels})
    columns = {places: column for column, places in enumerate(combined)}
    n_values = max(len(combined), 1)
    places = [rows[label.places[0]] * n_values + columns[label.places[1:]] for label in labels]
    names = {label.places[1:]: label.values[1:] for label in labels}
    values: list[tuple[tuple[str, ...], NDArray[np.intp]]] = []
    for sensitive in looked_at:
        if sensitive is None:
            values.append(((), np.zeros(n_values, np.intp)))
            continue
        at = [counted.names[1:].index(name) for name in columns_of(sensitive)]
        known = {tuple(each[i] for i in at): tuple(names[each][i] for i in at) for each in combined}
        order = {each: number for number, each in enumerate(sorted(known))}
        several = isinstance(sensitive, Product)
        texts = tuple(Combination(known[each], each) if several else known[each][0] for each in sorted(known))
        values.append((texts, np.array([order[tuple(each[i] for i in at)] for each in combined], np.intp)))
    names_of_providers = tuple(name for _, name in providers)
    return ProviderCounts(names_of_providers, n_values, np.array(places, np.intp), tuple(values))
