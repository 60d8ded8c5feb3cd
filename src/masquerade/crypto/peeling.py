"""Solve for the slots of a key-value store: peel off items that are alone in a slot, and solve for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import value_counts, weighted_counts
from masquerade.engine.numbering import distinct_values
from masquerade.errors import Bug

Words = NDArray[np.uint64]
Places = NDArray[np.intp]

_MOST_CORE = 4096  # items that do not peel; a store of the right size leaves a handful


def peel(sparse: Sequence[Places], third: int) -> tuple[list[tuple[Places, Places]], Places]:
    """Return the rounds of peeling, each the items and a slot that each of them has to itself then, and the rest.

    `sparse` has each item's slot in each third.
    """
    n = len(sparse[0])
    within = [places - number * third for number, places in enumerate(sparse)]
    degree = np.concatenate([value_counts(places, third) for places in within])
    # The sum of a slot's items, which is the only one in the end; exact, as all sums are below 2^53.
    numbers = np.arange(n, dtype=np.float64)
    total = np.concatenate([weighted_counts(places, numbers, third) for places in within]).astype(np.int64)
    owner: Places = np.full(n, -1, np.intp)  # the slot by which an item was peeled
    last: Places = np.empty(3 * third, np.intp)
    rounds: list[tuple[Places, Places]] = []
    alone = np.flatnonzero(degree == 1)
    while alone.size:
        items = total[alone]
        owner[items] = alone
        first = owner[items] == alone  # an item may be alone in several of its slots
        items, alone = items[first], alone[first]
        rounds.append((items, alone))
        touched = np.concatenate([places[items] for places in sparse])
        np.subtract.at(degree, touched, 1)
        np.subtract.at(total, touched, np.tile(items, len(sparse)))
        alone = _each_once(touched[degree[touched] == 1], last)
    return rounds, np.flatnonzero(owner < 0)


def _each_once(slots: Places, last: Places) -> Places:
    """Return each slot once, without sorting; `last` is room for a number per slot."""
    numbers = np.arange(slots.size)
    last[slots] = numbers
    once: Places = slots[last[slots] == numbers]
    return once


def solve(store: Words, sparse: Sequence[Places], dense: Words, values: Words, first_dense: int) -> None:
    """Set slots so that each item of the core finds its value; Gaussian elimination over the bits of long integers.

    The dense slots follow `first_dense`, and are the lowest unknowns: they are solved for last, and set first.
    """
    if len(dense) > _MOST_CORE:
        raise Bug(f"a key-value store left {len(dense)} items unpeeled; its size does not fit")
    slots, _ = distinct_values(np.concatenate(list(sparse)))
    numbers = [np.searchsorted(slots, places) + 64 for places in sparse]
    pivots: dict[int, tuple[int, int]] = {}
    for item in range(len(dense)):
        row, value = int(dense[item]), int(values[item])
        for places in numbers:
            row ^= 1 << int(places[item])
        while row:
            top = row.bit_length() - 1
            if top not in pivots:
                pivots[top] = row, value
                break
            row, value = row ^ pivots[top][0], value ^ pivots[top][1]
        else:
            if value:
                raise Bug(
                    "a key-value store has no solution; this happens once in 2^40 sessions: start another"
                )
    for top in sorted(pivots):  # an equation has lower unknowns only, which are set by now or free
        row, value = pivots[top]
        rest = row ^ (1 << top)
        while rest:
            low = rest.bit_length() - 1
            value ^= int(store[_slot(low, slots, first_dense)])
            rest ^= 1 << low
        store[_slot(top, slots, first_dense)] = value


def _slot(unknown: int, slots: Places, first_dense: int) -> int:
    return first_dense + unknown if unknown < 64 else int(slots[unknown - 64])
