"""What a method made: the released values, and where each row's is.

A method on records leaves the codes of released values in the chunks, and tells how a chunk finds those of its rows.
What is made of a table has them in its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.data.records import KEPT, Records, ranks_of
from masquerade.engine import Arrays, Chunk, Chunks, Ints, Rows


@dataclass(frozen=True)
class Step:
    """One specialization: a value of an attribute was replaced by its children."""

    attribute: str
    value: str
    children: tuple[str, ...]
    score: float
    party: str | None = None  # who holds the attribute, in a mashup

    def summary(self) -> dict[str, object]:
        """Return the step's entry in the JSON summary."""
        entry: dict[str, object] = {
            "attribute": self.attribute,
            "value": self.value,
            "children": list(self.children),
            "score": self.score,
        }
        return entry if self.party is None else {**entry, "party": self.party}


OnStep = Callable[[Step], None]


@dataclass(frozen=True)
class Tried:
    """A method that was tried: its name and parameters, its figure, and what it lost."""

    method: Mapping[str, Any]
    value: float | None  # None where the measure does not apply
    ncp: float | None

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        return {**_named(self.method), "value": self.value, "ncp": self.ncp}


@dataclass(frozen=True)
class FailedMethod:
    """A method of another package that failed: its name, with its parameters as far as they are known, and how."""

    method: Mapping[str, Any]
    reason: str

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        return {**_named(self.method), "reason": self.reason}


def _named(method: Mapping[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in method.items() if key != "name"}
    return {"method": method["name"], "settings": settings}


@dataclass(frozen=True)
class Choice:
    """Which method was chosen of several, by what, and what the others gave."""

    measure: str
    chosen: Tried
    tried: tuple[Tried, ...]  # with the chosen one
    left_out: tuple[Mapping[str, Any], ...]  # methods that would have taken too long
    failed: tuple[FailedMethod, ...]
    answers_queries: bool  # whether releases of the chosen method are judged by random queries
    spared: tuple[Mapping[str, Any], ...] = ()  # methods that could not have lost less

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        return {
            "measure": self.measure,
            **_named(self.chosen.method),
            "tried": [each.summary() for each in self.tried],
            "left_out": [dict(each) for each in self.left_out],
            "failed": [each.summary() for each in self.failed],
            "spared": [dict(each) for each in self.spared],
        }


_NOBODY = np.empty(0, np.int32)
_RELEASED = "released rows"


@dataclass(frozen=True, eq=False)
class ReleasedCodes:
    """The code of each row's released value: of its rank where a column is generalised as a whole, else its own."""

    name: str  # of the array that is looked up
    code_of_rank: NDArray[Any] | None = None

    def __call__(self, chunk: Chunk) -> Ints:
        """Return the codes of all rows of a chunk."""
        found = chunk[self.name]
        return found if self.code_of_rank is None else self.code_of_rank.take(found)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The released columns of the quasi-identifiers, and the steps that led to them.

    Made of a table, the columns have the codes of just the released rows, and `kept` are those rows, in order; None
    when all are. Made of records, the columns are without codes, which `codes` finds in a chunk.
    """

    columns: tuple[Generalised, ...]
    steps: tuple[Step, ...] = ()
    kept: NDArray[np.intp] | None = None
    choice: Choice | None = None  # where the method is the best of several
    codes: Mapping[str, ReleasedCodes] = field(default_factory=dict)  # by column
    released: str | None = None  # the array in which rows that are left out have a 0; None where none is
    chunks: Chunks | None = None  # the records that it is about; None for all

    def rows(self, chunk: Chunk) -> Rows | None:
        """Return the released rows of a chunk; None for all."""
        return None if self.released is None else np.flatnonzero(chunk[self.released])

    def beside(self, records: Records) -> tuple[Records, Outcome]:
        """Return the records whose chunks have just those of this outcome, and an outcome that kernels can take.

        They still count all records: those that are not in the chunks are suppressed.
        """
        if self.chunks is None:
            return records, self
        return replace(records, chunks=self.chunks), replace(self, chunks=None)

    def in_table(self, records: Records) -> Outcome:
        """Return the same of the table that is the records' one chunk: the columns have codes."""
        if not self.codes:
            return self
        chunks = self.chunks if self.chunks is not None else records.chunks
        return chunks.only(0, self._read)

    def _read(self, chunk: Chunk) -> Outcome:
        rows = self.rows(chunk)
        columns = []
        for column in self.columns:
            codes = self.codes[column.name](chunk).astype(np.int32, copy=False)
            made = replace(column, codes=codes)
            columns.append(made if rows is None else made.of_rows(rows))
        kept = rows
        if self.chunks is not None:
            kept = (chunk[KEPT] if rows is None else chunk[KEPT].take(rows)).astype(np.intp)
        return Outcome(tuple(columns), self.steps, kept, self.choice)

    def in_chunks(self, records: Records) -> Outcome:
        """Return the same of records whose one chunk is the table that it was made of: the chunk has the codes."""
        arrays: Arrays = {}
        for column in self.columns:
            arrays[_codes_of(column)] = column.codes
            if self.kept is not None:
                arrays[_codes_of(column)] = np.zeros(len(records), np.int32)
                arrays[_codes_of(column)][self.kept] = column.codes
        if self.kept is not None:
            arrays[_RELEASED] = np.zeros(len(records), np.uint8)
            arrays[_RELEASED][self.kept] = 1
        records.chunks.change(partial(_hold, arrays=arrays))
        return Outcome(
            tuple(replace(column, codes=_NOBODY) for column in self.columns),
            self.steps,
            choice=self.choice,
            codes={column.name: ReleasedCodes(_codes_of(column)) for column in self.columns},
            released=None if self.kept is None else _RELEASED,
        )


def _codes_of(column: Generalised) -> str:
    return f"released {column.name}"


def _hold(chunk: Chunk, *, arrays: Arrays) -> Arrays:
    return arrays


def by_cut(column: Generalised) -> ReleasedCodes:
    """Return the codes of a column that is generalised as a whole."""
    lengths = column.hi - column.lo
    width = np.min_scalar_type(max(len(column.labels) - 1, 0))
    return ReleasedCodes(ranks_of(column.name), np.repeat(np.arange(lengths.size), lengths).astype(width))
