"""What all parties of a top-down specialization know: who carries which value of the cut, and the groups they form.

The state starts with every attribute at its topmost value and all records in one group. A specialization is an
**instruction**: for each record that carries the value, in the order of the records, the number of its child. The
holder of the attribute makes it from its data; everybody else is told. Values are known by the order in which they
came into the cut. Nothing here knows a raw value or a rank, so one table and n parties share this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, look_up, occurring, pair_counts, renumber, sizes_of
from masquerade.privacy.requirement import GroupRequirement

Rows = NDArray[np.intp]  # record numbers, ascending
Children = NDArray[np.unsignedinteger[Any]]

_FEW = 8  # children; to look for so many, one by one, is faster than to sort


def child_numbers(n_children: int) -> Children:
    """0, 1, … for the children of a value, in the narrowest type that holds them: they travel, and sort fast."""
    numbers: Children = np.arange(n_children).astype(np.min_scalar_type(n_children))
    return numbers


def places_by_child(children: Children, n_children: int) -> list[Rows]:
    """Where each child stands in an instruction, in order."""
    if n_children <= _FEW:
        return [np.flatnonzero(children == child) for child in range(n_children)]
    ends = np.cumsum(np.bincount(children, minlength=n_children))[:-1]
    return np.split(np.argsort(children, kind="stable"), ends)


@dataclass(frozen=True, eq=False)
class Instruction:
    """How the records that carry one value of the cut go to its children."""

    attribute: str
    value: int  # its number in the cut
    n_children: int
    children: Children  # each carrier's child, in the order of the records


class Partition:
    """The groups of one QID: records that agree on the cut's values of its attributes."""

    def __init__(
        self,
        qid: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        n_rows: int,
    ) -> None:
        self.qid = tuple(qid)
        self.requirements = tuple(requirements)
        self.sensitive = sensitive
        self.labels: Counts = np.zeros(n_rows, np.int64)  # each record's group
        self.sizes: Counts = np.array([n_rows])  # of each group; one that was emptied stays, with none
        self._whole = {
            name: np.bincount(coded.codes, minlength=len(coded.labels)).reshape(1, -1)
            for name, coded in sensitive.items()
        }

    @property
    def anonymity(self) -> int:
        """A(QID): the size of the smallest group."""
        return int(self.sizes[self.sizes > 0].min())

    def allows(self, carriers: Rows | None, instruction: Instruction) -> bool:
        """Whether every group that the instruction would make satisfies the requirements."""
        keys, bound = self._keys(carriers, instruction)
        for requirement in self.requirements:
            if requirement.sensitive is None:
                names: tuple[str, ...] = ()
                histogram, whole = sizes_of(keys, bound).reshape(-1, 1), np.array([[self.labels.size]])
            else:
                coded = self.sensitive[requirement.sensitive]
                whole, names = self._whole[requirement.sensitive], coded.labels
                groups, n_groups = renumber(keys, bound)
                codes = coded.codes if carriers is None else coded.codes[carriers]
                histogram = pair_counts(groups, codes, n_groups, len(names))
            if not requirement.holds(histogram, whole, names).all():
                return False
        return True

    def holds(self) -> bool:
        """Whether every group, as it is, satisfies the requirements."""
        nothing = Instruction("", 0, 1, np.zeros(self.labels.size, np.uint8))
        return self.allows(None, nothing)

    def anonymity_after(self, carriers: Rows | None, instruction: Instruction) -> int:
        """A(QID) once the instruction is carried out."""
        keys, bound = self._keys(carriers, instruction)
        smallest = int(sizes_of(keys, bound).min())
        # Records of a group agree on the attribute, so a group carries the value as a whole or not at all.
        touched = np.bincount(keys // instruction.n_children, minlength=self.sizes.size)
        untouched = self.sizes[(self.sizes > 0) & (touched == 0)]
        return min(smallest, int(untouched.min())) if untouched.size else smallest

    def split(self, carriers: Rows | None, instruction: Instruction) -> None:
        """Tell the children's records apart: the first child keeps its groups' numbers, the others get new ones."""
        keys, bound = self._keys(carriers, instruction)
        n_children = instruction.n_children
        counts = np.bincount(keys, minlength=bound).reshape(-1, n_children)
        numbers = np.repeat(np.arange(self.sizes.size), n_children).reshape(-1, n_children)
        newcomers = counts[:, 1:].T > 0
        fresh = np.arange(self.sizes.size, self.sizes.size + np.count_nonzero(newcomers))
        numbers[:, 1:].T[newcomers] = fresh
        moved = counts[:, 1:].T[newcomers]
        self.sizes = np.concatenate([self.sizes - counts[:, 1:].sum(axis=1), moved])
        if carriers is None:
            self.labels = numbers.ravel()[keys]
        else:
            self.labels[carriers] = numbers.ravel()[keys]

    def _keys(self, carriers: Rows | None, instruction: Instruction) -> tuple[Counts, int]:
        """A number for each (group, child) of each carrier, and the bound of those numbers."""
        n_children = instruction.n_children
        labels = self.labels if carriers is None else self.labels.take(carriers)
        keys = labels * n_children
        keys += instruction.children
        return keys, self.sizes.size * n_children


class TolerantPartition(Partition):
    """The groups of one QID when some records may be left out of the release: those whose group violates.

    The requirements are hereditary: every part of a violating group violates. So a record that is left out
    stays left out, and nothing needs to tell such records apart any more: all of them are in group 0, and
    the other groups satisfy.
    """

    def __init__(
        self,
        qid: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        n_rows: int,
        may_suppress: int,
    ) -> None:
        super().__init__(qid, requirements, sensitive, n_rows)
        self.may_suppress = may_suppress
        self.labels = np.ones(n_rows, np.int64)
        self.sizes = np.array([0, n_rows])
        self._judged: tuple[Instruction, _Parts] | None = None  # the last, which often is asked about again

    def allows(self, carriers: Rows | None, instruction: Instruction) -> bool:
        """Whether afterwards no more records than may be are in violating groups."""
        return int(self.sizes[0]) + self.leaves_out(carriers, instruction) <= self.may_suppress

    def leaves_out(self, carriers: Rows | None, instruction: Instruction) -> int:
        """How many more records the instruction would leave out."""
        parts = self._parts(carriers, instruction)
        return int(parts.sizes[parts.violating].sum())

    def split(self, carriers: Rows | None, instruction: Instruction) -> None:
        """Tell the satisfying parts apart: the first of a group keeps its number, the others get new ones."""
        parts = self._parts(carriers, instruction)
        self._judged = None
        groups = parts.occurring // instruction.n_children
        satisfying = np.flatnonzero((groups > 0) & ~parts.violating)
        further = satisfying[np.diff(groups[satisfying], prepend=0) == 0]
        numbers = np.where(parts.violating, 0, groups)
        numbers[further] = np.arange(self.sizes.size, self.sizes.size + further.size)
        of_carrier = look_up(parts.keys, parts.occurring, numbers, parts.bound)
        if carriers is None:
            self.labels = of_carrier
        else:
            self.labels[carriers] = of_carrier
        self.sizes = np.bincount(self.labels, minlength=self.sizes.size + further.size)

    def _parts(self, carriers: Rows | None, instruction: Instruction) -> _Parts:
        if self._judged is not None and self._judged[0] is instruction:
            return self._judged[1]
        keys, bound = self._keys(carriers, instruction)
        found, sizes = occurring(keys, bound)
        violating = np.zeros(found.size, bool)
        for requirement in self.requirements:
            if requirement.sensitive is None:
                names: tuple[str, ...] = ()
                histogram, whole = sizes.reshape(-1, 1), np.array([[self.labels.size]])
            else:
                coded = self.sensitive[requirement.sensitive]
                whole, names = self._whole[requirement.sensitive], coded.labels
                codes = coded.codes if carriers is None else coded.codes[carriers]
                histogram = pair_counts(renumber(keys, bound)[0], codes, found.size, len(names))
            violating |= ~requirement.holds(histogram, whole, names)
        violating &= found >= instruction.n_children  # what is in group 0 was left out before
        parts = _Parts(keys, bound, found, sizes, violating)
        self._judged = instruction, parts
        return parts


@dataclass(frozen=True, eq=False)
class _Parts:
    """What an instruction would make of the groups: the (group, child) pairs that have records."""

    keys: Counts  # each carrier's pair, as a number below `bound`
    bound: int
    occurring: Counts  # the pairs that some carrier has, in order
    sizes: Counts  # how many have each of them
    violating: NDArray[np.bool_]  # those that would be left out, and were not before


class PublicState:
    """The carriers of every attribute's values in the cut, and the partition of every QID."""

    def __init__(
        self,
        attributes: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        n_rows: int,
        may_suppress: int = 0,
    ) -> None:
        """Every attribute at its topmost value; one partition for each different QID.

        Requirements on a sensitive attribute that is not in `sensitive` belong to its holder alone. As many
        records as `may_suppress` may be left out, when there is one QID and its requirements are hereditary.
        """
        self.n_rows = n_rows
        self.may_suppress = may_suppress
        # For each attribute, the numbers of the values in its cut and the records that carry them; None means all.
        self.carriers: dict[str, dict[int, Rows | None]] = {name: {0: None} for name in attributes}
        self._n_values = dict.fromkeys(attributes, 1)  # that have ever been in its cut
        by_qid: dict[frozenset[str], list[GroupRequirement]] = {}
        for requirement in requirements:
            by_qid.setdefault(frozenset(requirement.qid), []).append(requirement)
        self.partitions = tuple(
            self._partition(
                parts[0].qid,
                [part for part in parts if part.sensitive is None or part.sensitive in sensitive],
                sensitive,
            )
            for parts in by_qid.values()
        )
        self._touching = {
            name: tuple(partition for partition in self.partitions if name in partition.qid)
            for name in attributes
        }

    def _partition(
        self, qid: Sequence[str], parts: Sequence[GroupRequirement], sensitive: Mapping[str, Coded]
    ) -> Partition:
        if self.may_suppress:
            return TolerantPartition(qid, parts, sensitive, self.n_rows, self.may_suppress)
        return Partition(qid, parts, sensitive, self.n_rows)

    @property
    def kept(self) -> Rows | None:
        """The records to release, in order; None when all are."""
        for partition in self.partitions:
            if isinstance(partition, TolerantPartition) and partition.sizes[0]:
                return np.flatnonzero(partition.labels)
        return None

    def anonymity(self, attribute: str) -> tuple[int, ...]:
        """A(QID) of each QID that contains the attribute."""
        return tuple(partition.anonymity for partition in self._touching[attribute])

    def anonymity_after(self, instruction: Instruction) -> tuple[int, ...]:
        """A(QID), once the instruction is carried out, of each QID that contains its attribute."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return tuple(
            each.anonymity_after(carriers, instruction) for each in self._touching[instruction.attribute]
        )

    def allows(self, instruction: Instruction) -> bool:
        """Whether the specialization is valid: every requirement that it touches still holds afterwards."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return all(each.allows(carriers, instruction) for each in self._touching[instruction.attribute])

    def leaves_out(self, instruction: Instruction) -> int:
        """How many more records would not be released."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return sum(
            each.leaves_out(carriers, instruction)
            for each in self._touching[instruction.attribute]
            if isinstance(each, TolerantPartition)
        )

    def specialise(self, instruction: Instruction) -> range:
        """Replace a value of the cut by its children; returns their numbers."""
        values = self.carriers[instruction.attribute]
        carriers = values.pop(instruction.value)
        for partition in self._touching[instruction.attribute]:
            partition.split(carriers, instruction)
        rows = places_by_child(instruction.children, instruction.n_children)
        if carriers is not None:
            rows = [carriers.take(places) for places in rows]
        first = self._n_values[instruction.attribute]
        numbers = range(first, first + instruction.n_children)
        self._n_values[instruction.attribute] = numbers.stop
        values.update(zip(numbers, rows, strict=True))
        return numbers
