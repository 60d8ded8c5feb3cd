"""A party's identifiers as they are compared: text, normalised as the contract says, each once.

They lie one after the other in one array, with a few bytes each where Python's own texts take fifty: the twenty
million that a contract allows are 0.4 GB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data import Table, is_text, texts
from masquerade.engine import Rows, value_counts
from masquerade.errors import DataError

_AT_A_TIME = 1 << 16  # as Python's texts


class Identifiers(Sequence[bytes]):
    """Texts in the order of the rows."""

    def __init__(self, array: pa.LargeBinaryArray) -> None:
        self._array = array

    @classmethod
    def of(cls, identifiers: Sequence[bytes]) -> Identifiers:
        """Return any sequence of them as one array."""
        if isinstance(identifiers, Identifiers):
            return identifiers
        return cls(pa.array(identifiers, pa.large_binary()))

    @classmethod
    def joined(cls, lists: Sequence[Identifiers]) -> Identifiers:
        """Return some lists as one."""
        return cls(pa.concat_arrays([each._array for each in lists]))

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        found: bytes | list[bytes] = self._array[at].to_pylist() if isinstance(at, slice) else self._array[at].as_py()
        return found

    def __iter__(self) -> Iterator[bytes]:
        for part in self.parts():
            yield from part

    def parts(self) -> Iterator[list[bytes]]:
        """Yield them some at a time."""
        for start in range(0, len(self), _AT_A_TIME):
            yield self[start : start + _AT_A_TIME]

    def lengths(self) -> NDArray[np.int64]:
        """Return how many bytes each has."""
        found: NDArray[np.int64] = pc.binary_length(self._array).to_numpy()
        return found

    def may_repeat(self) -> bool:
        """Return whether two have the same hash: that takes a tenth of the memory of comparing them, and is rare."""
        hashes = np.fromiter(map(hash, self), np.int64, len(self))
        hashes.sort()
        return bool((hashes[1:] == hashes[:-1]).any())

    def take(self, rows: Rows) -> Identifiers:
        """Return those of some rows."""
        return Identifiers(self._array.take(pa.array(rows)))


def _stripped_and_casefolded(texts: pa.Array) -> pa.Array:
    stripped = pc.utf8_trim_whitespace(texts)
    if pc.all(pc.string_is_ascii(stripped), min_count=0).as_py():
        return pc.ascii_lower(stripped)
    return pa.array([text.casefold() for text in stripped.to_pylist()], texts.type)


NORMAL: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "none": lambda texts: texts,
    "strip": pc.utf8_trim_whitespace,  # what Python's str.strip takes away
    "casefold": _stripped_and_casefolded,
}


def identifiers(table: Table, column: str, normalize: str) -> Identifiers:
    """Return one identifier per row. Numbers and texts compare alike: 17, 17.0 and "17" are one identifier.

    Two rows with one identifier are an error, which names the rows but not the identifier.
    """
    parts = [_normal(chunk, normalize) for chunk in table.cells(column).chunks]
    normal = pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())
    found = Identifiers(normal)
    if found.may_repeat() and len(normal.unique()) < len(normal):
        raise _doubled(table, column, normal)
    return found


def _normal(cells: pa.Array, normalize: str) -> pa.LargeBinaryArray:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    written = cells if normalize == "none" and is_text(cells.type) else texts(cells)
    return NORMAL[normalize](written).cast(pa.large_binary())


def _doubled(table: Table, column: str, normal: pa.Array) -> DataError:
    numbers = normal.dictionary_encode().indices.to_numpy()
    counts = value_counts(numbers, int(numbers.max()) + 1)
    first, second = np.flatnonzero(numbers == int(np.argmax(counts > 1)))[:2]
    doubled = int(np.count_nonzero(counts > 1))
    more = f" (and {doubled - 1} more doubled identifiers)" if doubled > 1 else ""
    text = f"the same identifier as row {table.source_row(int(first)) + 1}{more}"
    return DataError(table.problem(f"{text}; each identifier must stand in one row", int(second), column))
