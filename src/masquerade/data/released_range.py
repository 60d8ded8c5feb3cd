"""Read a released cell back: the ranks that it covers."""

from __future__ import annotations

import numpy as np

from masquerade.data.column import Domain
from masquerade.data.continuum import Continuum, Kind, read_number


def released_range(domain: Domain, label: str) -> tuple[int, int] | None:
    """Return the ranks that a released cell, generalised or raw, covers; None if it is not in the domain."""
    covered = domain.range_of(label)
    if covered is not None:
        return covered
    if isinstance(domain, Continuum):
        number = _number(label, domain.kind)
        if number is None:
            return None
        # A number that no record has covers no rank.
        lo, hi = (int(np.searchsorted(domain.values, number, side=side)) for side in ("left", "right"))
        return domain.first + lo, domain.first + hi
    if domain.edges is None:
        return None
    number = _number(label, "continuous")
    number = _number(label, "date") if number is None else number
    if number is None:
        return None
    rank = int(np.searchsorted(np.asarray(domain.edges), number, side="right")) - 1
    return (rank, rank + 1) if 0 <= rank < domain.size else None


def _number(label: str, kind: Kind) -> int | float | None:
    try:
        number = read_number(label, kind)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def allowed_cells(domain: Domain) -> str:
    """Say what the cells of a release of this domain may be."""
    if not isinstance(domain, Continuum):
        return f"the values of taxonomy {domain.source}"
    raw = "dates" if domain.kind == "date" else "numbers"
    return f"{raw} and intervals [lo, hi) of them"
