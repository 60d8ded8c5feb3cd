"""Counts of more keys than may be held at once: a share of the keys in each pass over the chunks.

There may be as many keys as rows. Adding up chunks takes a few times the memory of the sum, so where all keys would be
too many, each pass counts those of one range. Ranges are cut where the keys of the first chunk suggest, hence all have
about as many; they are in ascending order, and so is what they give together.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from masquerade.engine.chunks import Chunk, Chunks, Engine, Here, Kernel, SparseCounts
from masquerade.engine.counts import Counts

_BYTES_PER_KEY = 64  # while counts of chunks are added up
_SAMPLED = 1 << 12  # keys by which ranges are cut
_WHOLE = np.iinfo(np.int64).max


def counted_shares(
    chunks: Chunks, kernel: Kernel[SparseCounts], engine: Engine, unit: int = 1
) -> Iterator[SparseCounts]:
    """Yield the counts of all keys, range by range; keys that are equal when divided by `unit` stay together."""
    if not len(chunks):
        return
    if isinstance(engine, Here):  # the rows are in memory, and so are their keys
        yield chunks.total(kernel)
        return
    n_keys, some = chunks.only(0, partial(_outline, kernel=kernel))
    shares = -(-n_keys * len(chunks) * _BYTES_PER_KEY // engine.summing_memory)
    if shares <= 1:
        yield chunks.total(kernel)
        return
    places = np.arange(1, shares) * some.size // shares
    ends = np.unique(some[places] // unit) * unit
    for lo, hi in pairwise([0, *ends.tolist(), _WHOLE]):
        yield chunks.total(partial(_within, kernel=kernel, lo=lo, hi=hi))


def counted_keys(chunks: Chunks, kernel: Kernel[SparseCounts], engine: Engine) -> SparseCounts:
    """Return the counts of all keys, which the caller must be able to hold."""
    parts = list(counted_shares(chunks, kernel, engine))
    if len(parts) == 1:
        return parts[0]
    empty: Counts = np.empty(0, np.int64)
    keys = np.concatenate([empty, *(each.keys for each in parts)])
    return SparseCounts(keys, np.concatenate([empty, *(each.counts for each in parts)]))


def _outline(chunk: Chunk, *, kernel: Kernel[SparseCounts]) -> tuple[int, Counts]:
    """Tell how many keys a chunk has, and some of them, evenly spread."""
    keys = kernel(chunk).keys
    return keys.size, keys[:: max(keys.size // _SAMPLED, 1)].copy()


def _within(chunk: Chunk, *, kernel: Kernel[SparseCounts], lo: int, hi: int) -> SparseCounts:
    """Count the keys of one range."""
    counted = kernel(chunk)
    first, last = np.searchsorted(counted.keys, [lo, hi])
    return SparseCounts(counted.keys[first:last].copy(), counted.counts[first:last].copy())
