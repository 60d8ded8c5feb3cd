"""Wide tables of correlated columns whose smallest key is known, as ranks and as a file.

The key's columns are the digits of a row's number, in a base so chosen that fewer columns cannot tell all rows apart:
no column has more values than the base. All others follow from the digits, with a little noise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.risk import CodedRows

NOISE = 0.05


def smallest_base(rows: int, key: int) -> int:
    """The smallest base in which `key` digits number all rows."""
    base = 2
    while base**key < rows:
        base += 1
    return base


def columns(rows: int, width: int, key: int, seed: int = 7, chunk: int = 1 << 20) -> Iterator[list[NDArray[np.int32]]]:
    """The columns, a chunk of rows at a time; `key` of them are the smallest key."""
    random = np.random.default_rng(seed)
    base = smallest_base(rows, key)
    assert base ** (key - 1) < rows
    made = [
        (int(random.integers(key)), int(random.integers(key)), int(random.choice([2, 2, 2, 2, 3, 5, 7, base - 1])))
        for _ in range(width - key)
    ]
    order = random.permutation(width)
    # A multiplication by a number that shares no factor with the modulus shuffles without a table of all rows.
    modulus, step = base**key, _coprime(base**key)
    for start in range(0, rows, chunk):
        number = np.arange(start, min(start + chunk, rows), dtype=np.int64) * step % modulus
        found = [(number // base**digit % base).astype(np.int32) for digit in range(key)]
        for one, other, values in made:
            follows = (found[one] * 3 + found[other]) % values
            noisy = random.random(number.size) < NOISE
            found.append(np.where(noisy, random.integers(values, size=number.size), follows).astype(np.int32))
        yield [found[at] for at in order]


def wide_table(rows: int, width: int, key: int) -> CodedRows:
    """The whole table, as ranks in memory."""
    [found] = columns(rows, width, key, chunk=rows)
    columns_of = [(each, int(each.max()) + 1) for each in found]
    return CodedRows.of_codes([f"c{at}" for at in range(width)], columns_of, rows)


def batches(rows: int, width: int, key: int) -> Iterator[pa.Table]:
    """The table as Arrow data, a batch at a time."""
    for found in columns(rows, width, key):
        yield pa.table({f"c{at}": each for at, each in enumerate(found)})


def _coprime(modulus: int) -> int:
    step = int(modulus * 0.6180339887)
    while np.gcd(step, modulus) != 1:
        step += 1
    return step
