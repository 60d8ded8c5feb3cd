"""Numbers in place of cells, the same wherever the cell lies: so that chunks that never meet agree on what is equal.

A whole number is mixed, one to one: different numbers have different fingerprints. A text has a fingerprint of 64 bits:
twice the upper half of a multilinear hash, Σ wᵢ · (bᵢ + 1) modulo 2^64 over its bytes with random weights, by which two
different texts agree with a chance of about 2^-64 (Lemire and Kaser, "Strongly universal string hashing is fast"). The
weights are drawn anew for every table, so that nobody can write texts that agree on purpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.encoding import Codes, distinct, is_text, texts

Fingerprints = NDArray[np.uint64]

_HALF = np.uint64(32)
_BYTES_AT_ONCE = 1 << 18  # of texts: on the way each byte becomes a few numbers of 64 bits


def fingerprints(column: pa.ChunkedArray, secret: int) -> Fingerprints:
    """Return a number for each cell: equal for equal cells, as keys count them; a missing cell is a value, too.

    Texts that differ in surrounding space alone are equal; a missing text is an empty one.
    """
    codes, values = coded_fingerprints(column, secret)
    return values.take(codes)


def equal_cells(column: pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Return each cell's code, and the value of each code; texts that differ in surrounding space alone have one."""
    codes, values = distinct(column)
    if is_text(values.type):
        once = texts(values).dictionary_encode()
        if len(once.dictionary) < len(values):
            codes = once.indices.to_numpy().astype(np.int32, copy=False).take(codes)
        values = once.dictionary
    return codes, values


def coded_fingerprints(column: pa.ChunkedArray, secret: int) -> tuple[Codes, Fingerprints]:
    """Return each cell's code, and the fingerprint of each code."""
    codes, values = equal_cells(column)
    if is_text(values.type):
        return codes, _of_texts(values, secret)
    bits = _bits(values)
    found = mixed(bits) if bits is not None else _of_texts(values.cast(pa.string()).fill_null(""), secret)
    if values.null_count:  # missing cells have a number that no cell has by itself, but by chance
        missing = values.is_null().to_numpy(zero_copy_only=False)
        found = np.where(missing, np.uint64(0xA5A5_0F0F_3C3C_9696), found)
    return codes, found


def mixed(numbers: Fingerprints) -> Fingerprints:
    """Spread numbers over all 64 bits, one to one (the finalizer of SplitMix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _bits(values: pa.Array) -> Fingerprints | None:
    """Return 64 bits for each value, different for different ones; None for types with more."""
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.uint64)
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)  # there are many ways to write "no number"
    if pa.types.is_decimal(kind):
        return None
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int8() if pa.types.is_boolean(kind) else pa.int32())
    whole = values.cast(pa.int64(), safe=False).fill_null(0)
    return np.ascontiguousarray(whole.to_numpy(zero_copy_only=False), np.int64).view(np.uint64)


def _of_texts(values: pa.Array, secret: int) -> Fingerprints:
    written = values.cast(pa.large_binary())
    if not len(written):
        return np.empty(0, np.uint64)
    at_once = max(1, len(written) * _BYTES_AT_ONCE // max(written.nbytes, 1))
    starts = range(0, len(written), at_once)
    return np.concatenate([_of_some_texts(written.slice(start, at_once), secret) for start in starts])


def _of_some_texts(written: pa.LargeBinaryArray, secret: int) -> Fingerprints:
    _, at, bytes_ = written.buffers()
    offsets = np.frombuffer(at, np.int64)[written.offset : written.offset + len(written) + 1]
    start, lengths = int(offsets[0]), np.diff(offsets)
    data = np.frombuffer(bytes_ or b"", np.uint8)[start : int(offsets[-1])].astype(np.uint64) + np.uint64(1)
    first = offsets[:-1] - start
    within = np.arange(data.size) - np.repeat(first, lengths)  # each byte's place in its text
    halves = []
    for half in range(2):
        # A text has the same weights beside whatever longer ones: each half draws its own, from the first byte on.
        random = np.random.default_rng([secret, half])
        weights = random.integers(0, 1 << 64, int(lengths.max(initial=0)) + 1, np.uint64)
        halves.append(_sums(weights[1:].take(within) * data, first, lengths, weights[0]) >> _HALF)
    return (halves[0] << _HALF) | halves[1]


def _sums(terms: Fingerprints, first: NDArray[Any], lengths: NDArray[Any], more: np.uint64) -> Fingerprints:
    """Add up the terms of each text, modulo 2^64; an empty one has none."""
    found = np.full(lengths.size, more, np.uint64)
    some = np.flatnonzero(lengths)
    if some.size:
        found[some] += np.add.reduceat(terms, first[some])
    return found
