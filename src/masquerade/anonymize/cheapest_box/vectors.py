"""Which vectors of levels are searched: all of them where they are few, otherwise those learned from samples.

Learning: around each of some records drawn at random, the box that the nearest others need is a good box for their
neighbourhood, at the size of the smallest group and at multiples of it, because later groups have fewer records left to
choose from. What these boxes' vectors are is all that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from masquerade.anonymize.cheapest_box.levels import Levels
from masquerade.anonymize.cheapest_box.space import Records
from masquerade.engine.counts import Counts, Rows, which_occur

Vector = tuple[int, ...]  # a level for each attribute

MOST_VECTORS = 20_000  # that are searched without learning

_CENTRES, _NEIGHBOURS = 400, 4_000  # of a sample
_CENTRES_AT_A_TIME = 50
_MULTIPLES = (1, 2, 4, 8, 16, 64)
_SEED = 7


def vectors_of(levels: Sequence[Levels], records: Records, least: int) -> Counts:
    """Return the vectors to search for groups of at least `least` rows, the most general too; vector × attribute."""
    kept = [_different(each, ranks) for each, ranks in zip(levels, records.ranks, strict=True)]
    if prod(each.size for each in kept) <= MOST_VECTORS:
        chosen = np.indices([each.size for each in kept]).reshape(len(kept), -1)
        return np.stack([each[level] for each, level in zip(kept, chosen, strict=True)], axis=1)
    most_general = tuple(each.n_levels - 1 for each in levels)
    return np.array(list(dict.fromkeys([*_learned(levels, records, least), most_general])))


def _different(levels: Levels, ranks: Counts) -> Rows:
    """Return the levels that cut the values of these records differently, of equal ones the first, which costs least.

    Of a block of a large table they are few: its records have few of the values.
    """
    present = np.flatnonzero(which_occur(ranks, levels.nodes.shape[1]))
    cuts = np.diff(levels.nodes[:, present], axis=1) != 0  # a value's ranks lie side by side
    return np.array(
        list({cut.tobytes(): level for level, cut in reversed([*enumerate(cuts)])}.values())[::-1]
    )


def _learned(levels: Sequence[Levels], records: Records, least: int) -> Iterator[Vector]:
    random = np.random.default_rng(_SEED)
    sample = random.permutation(records.n)[:_NEIGHBOURS]
    centres = sample[:_CENTRES]
    share = records.sizes[sample].sum() / records.sizes.sum()
    for some in range(0, centres.size, _CENTRES_AT_A_TIME):
        yield from _around(levels, records, centres[some : some + _CENTRES_AT_A_TIME], sample, least * share)


def _around(
    levels: Sequence[Levels], records: Records, centres: Rows, sample: Rows, least: float
) -> Iterator[Vector]:
    """Yield the vectors of boxes around each centre with as many rows of the sample as multiples of `least`."""
    needed = [
        _levels_to(each, ranks[centres], ranks[sample])
        for each, ranks in zip(levels, records.ranks, strict=True)
    ]
    distance = sum(
        each.costs[level, records.ranks[at][centres][:, None]].astype(np.int64)
        for at, (each, level) in enumerate(zip(levels, needed, strict=True))
    )
    nearest = np.argsort(distance, axis=1, kind="stable")
    rows = np.cumsum(records.sizes[sample][nearest], axis=1)
    for multiple in _MULTIPLES:
        ends = (rows < multiple * least).sum(axis=1)  # the place of the last one needed
        for centre in np.flatnonzero(ends < sample.size):
            inside = nearest[centre, : ends[centre] + 1]
            yield tuple(
                _level_over(each, ranks[centres[centre]], ranks[sample[inside]])
                for each, ranks in zip(levels, records.ranks, strict=True)
            )


def _levels_to(levels: Levels, centres: Counts, others: Counts) -> Counts:
    """Return the cheapest level at which each centre and each other have one value."""
    found = np.full((centres.size, others.size), levels.n_levels - 1)
    best = np.full((centres.size, others.size), np.iinfo(np.int32).max, np.int32)
    for level in range(levels.n_levels):
        nodes = levels.nodes[level]
        cost = levels.costs[level, centres][:, None]
        better = (nodes[centres][:, None] == nodes[others]) & (cost < best)
        found[better] = level
        np.copyto(best, cost, where=better)
    return found


def _level_over(levels: Levels, centre: int, others: Counts) -> int:
    """Return the cheapest level at which a centre and all the others have one value."""
    same = (levels.nodes[:, others] == levels.nodes[:, centre][:, None]).all(axis=1)
    return int(np.where(same, levels.costs[:, centre], np.iinfo(np.int32).max).argmin())
