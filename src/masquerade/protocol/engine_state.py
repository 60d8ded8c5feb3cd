"""What a party of a top-down specialization counts on an engine: its groups of the common records, in chunks.

The party's process has what it sends and receives in any case: the order of the common records, the child of every
carrier in an instruction, the cells that it hands in; and while a requirement on another party's sensitive values is
tested, each record's group. Everything that is counted is in the engine's chunks, in the
common order: its ranks, the classes, sensitive values that it knows, which value of every attribute a record carries,
and its group. A candidate is scored and checked by counts alone. Instructions of others are cut into pieces,
one for each chunk; its own are made by the chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.chunked.groups import ChunkedState, carried_by
from masquerade.anonymize.instruction import Children, Instruction, RankSplit
from masquerade.data.column import Coded
from masquerade.data.records import Records, codes_of
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Ints, Rows, pair_counts, value_counts
from masquerade.privacy.requirement import GroupRequirement

_CHILDREN = "children"  # of the carriers, by the last instruction that was taken in
_BYTES_PER_CELL = 16
_NOBODY: NDArray[np.int32] = np.empty(0, np.int32)


class EngineState(ChunkedState):
    """A `PublicState` whose records are in an engine's chunks, and some of whose attributes others hold."""

    def __init__(
        self,
        table: Records,
        attributes: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
    ) -> None:
        table.chunks.change(_NobodyCut(tuple(attributes)))
        self._known = dict(sensitive)
        super().__init__(table, attributes, requirements, 0)

    @property
    def sensitive(self) -> Mapping[str, Coded]:
        """The sensitive attributes that this party knows."""
        return self._known

    def children(self, instruction: Instruction) -> Children:
        """Collect the children of an instruction of our own, chunk by chunk."""
        pieces = self._table.chunks.each(_GiveChildren(instruction))
        children: Children = np.concatenate(pieces)
        return children

    def n_carriers(self, attribute: str, value: int) -> int:
        """Count the records that carry a value of another's attribute."""
        return sum(self._table.chunks.each(_CountCarriers(attribute, value)))

    def all_carriers(self, attribute: str) -> list[int]:
        """Count the records that carry each value of an attribute's cut, in one pass."""
        counts = self._table.chunks.total(_CountValues(attribute, self._n_values[attribute]))
        return [int(counts[value]) for value in self.carriers[attribute]]

    def told(self, instruction: Instruction) -> Instruction:
        """Let each chunk have the children of its own carriers."""
        here = self._table.chunks.each(_CountCarriers(instruction.attribute, instruction.value))
        ends = np.cumsum(here)
        told = _Told(instruction.attribute, instruction.value, instruction.n_children)
        self._table.chunks.change(
            [_TakeIn(told, instruction.children[end - n : end]) for n, end in zip(here, ends, strict=True)]
        )
        return told  # type: ignore[return-value] # as for `ChunkedState.instruct`

    def class_counts(self, instruction: Instruction, classes: Coded | None) -> Counts:
        """Count the carriers by child and class on the chunks."""
        kernel = (
            _CountClasses(instruction)
            if classes is None
            else _CountClasses(instruction, codes_of(classes.name), len(classes.labels))
        )
        return self._table.chunks.total(kernel)

    def specialise(self, instruction: Instruction) -> range:
        """Replace a value by its children, also in what each record carries."""
        told = self.told(instruction) if isinstance(instruction, Instruction) else instruction
        numbers = super().specialise(told)
        if isinstance(told, _Told):
            self._table.chunks.change(_Carry(told, numbers.start))
        return numbers


def _value_of(attribute: str) -> str:
    return f"value {attribute}"


@dataclass(frozen=True)
class _NobodyCut:
    """Lets every record carry the topmost value of each attribute, which has number 0."""

    attributes: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> Arrays:
        size = next(iter(chunk.values())).size
        made = {_value_of(name): np.zeros(size, np.int32) for name in self.attributes}
        return {_CHILDREN: np.zeros(size, np.uint8), **made}


@dataclass(frozen=True)
class _Told:
    """An instruction that has been taken in: the carriers by their value, their children beside them."""

    attribute: str
    value: int
    n_children: int

    def rows(self, chunk: Chunk) -> Rows:
        return np.flatnonzero(chunk[_value_of(self.attribute)] == self.value)

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        rows = self.rows(chunk)
        return rows, chunk[_CHILDREN].take(rows)


@dataclass(frozen=True)
class _CountCarriers:
    attribute: str
    value: int

    def __call__(self, chunk: Chunk) -> int:
        return int(np.count_nonzero(chunk[_value_of(self.attribute)] == self.value))


@dataclass(frozen=True)
class _CountValues:
    attribute: str
    n_values: int

    def __call__(self, chunk: Chunk) -> Counts:
        return value_counts(chunk[_value_of(self.attribute)], self.n_values)


@dataclass(frozen=True, eq=False)
class _TakeIn:
    told: _Told
    children: Children

    def __call__(self, chunk: Chunk) -> Arrays:
        children = np.zeros(chunk[_CHILDREN].size, self.children.dtype)
        children[self.told.rows(chunk)] = self.children
        return {_CHILDREN: children}


@dataclass(frozen=True)
class _Carry:
    """Gives the carriers of a value the numbers of its children."""

    told: _Told
    first: int

    def __call__(self, chunk: Chunk) -> Arrays:
        values = np.array(chunk[_value_of(self.told.attribute)])
        rows, children = self.told(chunk)
        values[rows] = self.first + children.astype(np.int32)
        return {_value_of(self.told.attribute): values}


@dataclass(frozen=True, eq=False)
class _GiveChildren:
    instruction: Instruction | RankSplit

    def __call__(self, chunk: Chunk) -> Children:
        children: Children = np.asarray(carried_by(self.instruction)(chunk)[1])
        return children


@dataclass(frozen=True, eq=False)
class _CountClasses:
    instruction: Instruction | RankSplit
    classes: str | None = None
    n_classes: int = 1

    def __call__(self, chunk: Chunk) -> Counts:
        carried = carried_by(self.instruction)
        rows, children = carried(chunk)
        if self.classes is None:
            codes: Ints = np.zeros(children.size, np.int32)
        else:
            codes = chunk[self.classes] if rows is None else chunk[self.classes].take(rows)
        return pair_counts(children, codes, carried.n_children, self.n_classes)
