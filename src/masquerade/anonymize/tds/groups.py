"""What all parties of a top-down specialization know: the values of the cut, and the groups that records form.

The state starts with every attribute at its topmost value and all records in one group. A specialization replaces one
value of the cut by its children. Whoever holds the attribute makes it from ranks (`RankSplit`), and sends the others an
**instruction**: for each record that carries the value, in the order of the records, the number of its child. Values
that records have are numbered in the order in which they came into the cut.

All that is asked of records are counts, so one table, a table in chunks, and each of n parties share this file. A chunk
has each record's group of every QID; and of an attribute that others hold the value that each record carries, and the
children of the last instruction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Coded, Column, Records, codes_of, ranks_of
from masquerade.engine import (
    Arrays,
    Chunk,
    Counts,
    Flags,
    Ints,
    Rows,
    SparseCounts,
    look_up,
    pair_counts,
    rows_by_rank,
    value_counts,
    weighted_counts,
    which_occur,
)
from masquerade.privacy import GroupRequirement

# --- instructions -------------------------------------------------------------------------------------------
# A specialization: as ranks tell it to whoever holds them (`RankSplit`), and as it is sent to those who do not
# (`Instruction`).

Children = NDArray[np.unsignedinteger[Any]]


def child_numbers(n_children: int) -> Children:
    """Return 0, 1, … for the children of a value, in the narrowest type: they are sent, and sort faster."""
    numbers: Children = np.arange(n_children).astype(np.min_scalar_type(n_children))
    return numbers


@dataclass(frozen=True, eq=False)
class Split(ABC):
    """Which records of a chunk carry a value that is specialised, and the child that each goes to."""

    attribute: str
    value: int  # its number in the cut
    n_children: int  # that some record goes to

    @abstractmethod
    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        """Return the rows, None for all, and their children."""


@dataclass(frozen=True, eq=False)
class RankSplit(Split):
    """How the ranks `[lo, hi)` of one value of the cut go to its children."""

    lo: int
    child_of_rank: Children  # for each rank from `lo`

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        """Return the rows with ranks of the value, None for all, and their children."""
        ranks, hi, rows = chunk[ranks_of(self.attribute)], self.lo + self.child_of_rank.size, None
        inside = ranks < hi if self.lo == 0 else (ranks >= self.lo) & (ranks < hi)
        if not inside.all():
            rows = np.flatnonzero(inside)
            ranks = ranks.take(rows)
        return rows, self.child_of_rank.take(ranks - self.lo if self.lo else ranks)


@dataclass(frozen=True, eq=False)
class Instruction:
    """How the records that carry one value of the cut go to its children."""

    attribute: str
    value: int  # its number in the cut
    n_children: int  # that some carrier goes to
    children: Children  # each carrier's child, in the order of the records


# --- state --------------------------------------------------------------------------------------------------

Keys = tuple[Rows | None, Counts]  # which rows carry a value, None for all, and the (group, child) of each

_CHILDREN = "children"  # of the carriers, by the last instruction that was taken in


class PublicState:
    """The numbers of the values in every attribute's cut, and the groups of every QID."""

    def __init__(
        self,
        records: Records,
        attributes: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        may_suppress: int = 0,
    ) -> None:
        """Start with every attribute at its topmost value, and one partition for each different QID.

        Requirements on a sensitive attribute that is not in `sensitive` are left to its holder. Up to
        `may_suppress` records may be left out, when there is one QID and its requirements are hereditary.
        """
        self.n_rows = len(records)
        self.may_suppress = may_suppress
        self.cut: dict[str, list[int]] = {name: [0] for name in attributes}
        self._records = records
        self._n_values = dict.fromkeys(attributes, 1)  # that have ever been in its cut
        self._told: set[str] = set()  # attributes whose values are in the chunks, because others cut them
        # Of records at hand, which are often asked for again:
        self._last: tuple[Split, _Found] | None = None
        self._carried: tuple[tuple[str, int], Rows] | None = None
        by_qid: dict[frozenset[str], list[GroupRequirement]] = {}
        for requirement in requirements:
            by_qid.setdefault(frozenset(requirement.qid), []).append(requirement)
        self.partitions = tuple(
            QidGroups(
                records,
                parts[0].qid,
                [part for part in parts if part.sensitive is None or part.sensitive in sensitive],
                sensitive,
                may_suppress,
            )
            for parts in by_qid.values()
        )
        self._touching = {
            name: tuple(partition for partition in self.partitions if name in partition.qid) for name in attributes
        }

    @property
    def released(self) -> str | None:
        """The name of the array in which records that are left out have a 0; None where nobody is."""
        return next((each.label for each in self.partitions if each.left_out), None)

    def anonymity(self, attribute: str) -> tuple[int, ...]:
        """Return A(QID) of each QID that contains the attribute."""
        return tuple(partition.anonymity for partition in self._touching[attribute])

    def anonymity_after(self, split: Split) -> tuple[int, ...]:
        """Return A(QID), as it would be after the split, of each QID that contains its attribute."""
        found = self._found(split)
        return tuple(each.anonymity_after(found) for each in self._touching[split.attribute])

    def scored(self, columns: Sequence[Column], target: str | None) -> dict[str, Counts]:
        """Count the records with each rank and class, for each of these attributes; without a class all are of one."""
        coded = self._records.coded[target] if target is not None else None
        sizes = {column.name: column.domain.size for column in columns}
        kernel = partial(
            _count_ranks,
            sizes=sizes,
            classes=codes_of(target) if target is not None else None,
            n_classes=len(coded.labels) if coded is not None else 1,
        )
        return dict(zip(sizes, self._records.chunks.total(kernel), strict=True))

    def children(self, split: Split) -> Children:
        """Return the child of each carrier, in the order of the records, as it is sent to the others."""
        found: Children = np.concatenate(self._records.chunks.each(partial(_give_children, split=self._found(split))))
        return found

    def told(self, instruction: Instruction) -> Split:
        """Take in an instruction that another party has given: each chunk gets the children of its own carriers."""
        chunks = self._records.chunks
        told = _Told(instruction.attribute, instruction.value, instruction.n_children)
        if told.attribute not in self._told:
            # Every record carries the topmost value, which has number 0.
            chunks.change(partial(_fill, name=_value_of(told.attribute), value=0))
            self._told.add(told.attribute)
        if self._records.at_hand:
            return _Found(told.attribute, told.value, told.n_children, self._carriers(told), instruction.children)
        here = chunks.each(partial(_count_carriers, told=told))
        ends = np.cumsum(here)
        chunks.change(
            [
                partial(_take_in, told=told, children=instruction.children[end - n : end])
                for n, end in zip(here, ends, strict=True)
            ]
        )
        return told

    def n_carriers(self, attribute: str, value: int) -> int:
        """Count the records that carry a value of the cut of an attribute that others hold."""
        if attribute not in self._told:
            return self.n_rows
        told = _Told(attribute, value, 0)
        if self._records.at_hand:
            return int(self._carriers(told).size)
        return sum(self._records.chunks.each(partial(_count_carriers, told=told)))

    def _carriers(self, told: _Told) -> Rows:
        """Return the records here that carry a value of an attribute that others hold."""
        of = told.attribute, told.value
        if self._carried is None or self._carried[0] != of:
            self._carried = of, self._records.chunks.only(0, told.rows)
        return self._carried[1]

    def all_carriers(self, attribute: str) -> list[int]:
        """Count the records that carry each value of the cut of an attribute that others hold, in one pass."""
        if attribute not in self._told:
            return [self.n_rows]
        counts = self._records.chunks.total(
            partial(_count_values, attribute=attribute, n_values=self._n_values[attribute])
        )
        return [int(counts[value]) for value in self.cut[attribute]]

    def class_counts(self, split: Split, classes: Coded | None) -> Counts:
        """Count the carriers by child and class; without a class all are of one."""
        kernel = partial(_count_classes, split=self._found(split))
        if classes is not None:
            kernel = partial(kernel, classes=codes_of(classes.name), n_classes=len(classes.labels))
        return self._records.chunks.total(kernel)

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, QID by QID, in as many pieces as it comes."""
        for partition in self.partitions:
            yield from partition.each_label()

    def allows(self, split: Split) -> bool:
        """Return whether the specialization is valid: every requirement that it touches still holds afterwards."""
        found = self._found(split)
        return all(each.allows(found) for each in self._touching[split.attribute])

    def leaves_out(self, split: Split) -> int:
        """Return how many more records would be left out of the release."""
        found = self._found(split)
        return sum(each.leaves_out(found) for each in self._touching[split.attribute])

    def specialise(self, split: Split | Instruction) -> range:
        """Replace a value of the cut by its children. Return their numbers."""
        told = self.told(split) if isinstance(split, Instruction) else split
        found = self._found(told)
        for partition in self._touching[told.attribute]:
            partition.split(found)
        first = self._n_values[told.attribute]
        numbers = range(first, first + told.n_children)
        self._n_values[told.attribute] = numbers.stop
        self.cut[told.attribute].remove(told.value)
        self.cut[told.attribute] += numbers
        if told.attribute in self._told:
            self._records.chunks.change(partial(_carry, split=found, first=first))
            self._carried = None
        return numbers

    def _found(self, split: Split) -> Split:
        """Return a split that has found its records, where those are one chunk here: then that is done once for all."""
        if isinstance(split, _Found) or not self._records.at_hand:
            return split
        if self._last is None or self._last[0] is not split:
            rows, children = self._records.chunks.only(0, split)
            self._last = split, _Found(split.attribute, split.value, split.n_children, rows, children)
        return self._last[1]


class QidGroups:
    """The groups of one QID: records that agree on the cut's values of its attributes, each with its group's number.

    Where records may be left out, those are all in group 0, and the other groups satisfy. The requirements are
    hereditary then: every part of a violating group violates. So a record that is left out stays left out, and such
    records need not be distinguished any more.
    """

    def __init__(
        self,
        records: Records,
        qid: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        may_suppress: int = 0,
    ) -> None:
        self.qid = tuple(qid)
        self.requirements = tuple(requirements)
        self.sensitive = sensitive
        self.may_suppress = may_suppress
        self.n_rows = len(records)
        self.label = f"groups {' '.join(qid)}"  # the array that has each record's group
        # Of each group; an emptied one stays, with size 0.
        self.sizes: Counts = np.array([0, self.n_rows] if may_suppress else [self.n_rows])
        self._chunks, self._at_hand = records.chunks, records.at_hand
        self._whole = records.whole
        self._last: tuple[Split, SparseCounts] | None = None  # which is often asked for again
        self._judged: tuple[Split, Flags] | None = None
        self._keys: tuple[Split, Keys] | None = None  # of records that are one chunk here
        self._chunks.change(partial(_fill, name=self.label, value=self.sizes.size - 1))

    @property
    def anonymity(self) -> int:
        """A(QID): the size of the smallest group."""
        return int(self.sizes[self.sizes > 0].min())

    @property
    def left_out(self) -> int:
        """The number of records that are left out."""
        return int(self.sizes[0]) if self.may_suppress else 0

    def holds(self) -> bool:
        """Return whether every current group satisfies the requirements."""
        return self.allows(_Everybody("", 0, 1))

    def allows(self, split: Split) -> bool:
        """Return whether every group that the split would make satisfies the requirements.

        Or whether the records in violating groups would stay within the allowance.
        """
        if self.may_suppress:
            return self.left_out + self.leaves_out(split) <= self.may_suppress
        return all(self._satisfied(requirement, split).all() for requirement in self.requirements)

    def leaves_out(self, split: Split) -> int:
        """Return how many more records the split would leave out."""
        return int(self._parts(split).counts[self._violating(split)].sum()) if self.may_suppress else 0

    def anonymity_after(self, split: Split) -> int:
        """Return A(QID) as it would be after the split."""
        parts = self._parts(split)
        smallest = int(parts.counts.min())
        # Records of a group agree on the attribute, so a group carries the value as a whole or not at all.
        touched = which_occur(parts.keys // split.n_children, self.sizes.size)
        untouched = self.sizes[(self.sizes > 0) & ~touched]
        return min(smallest, int(untouched.min())) if untouched.size else smallest

    def split(self, split: Split) -> None:
        """Split groups by child: of each group one part keeps its number, the others get new ones.

        That is the part of the first child; or of those that satisfy the first, where the others are left out.
        """
        parts = self._parts(split)
        groups, children = np.divmod(parts.keys, split.n_children)
        if self.may_suppress:
            violating = self._violating(split)
            satisfying = np.flatnonzero((groups > 0) & ~violating)
            further = satisfying[np.diff(groups[satisfying], prepend=0) == 0]
            numbers = np.where(violating, 0, groups)
        else:
            further = np.flatnonzero(children)
            further = further[np.argsort(children[further], kind="stable")]
            numbers = groups.copy()
        n_groups = self.sizes.size + further.size
        numbers[further] = np.arange(self.sizes.size, n_groups)
        self._chunks.change(partial(_relabel, count=self._count(split), found=parts.keys, numbers=numbers))
        sizes = np.append(self.sizes, np.zeros(further.size, np.int64))
        sizes -= weighted_counts(groups, parts.counts, n_groups).astype(np.int64)
        self.sizes = sizes + weighted_counts(numbers, parts.counts, n_groups).astype(np.int64)
        self._last = self._judged = self._keys = None

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, chunk by chunk."""
        for at in range(len(self._chunks)):
            yield self._chunks.only(at, partial(_labels_of, name=self.label)).astype(np.int64)

    def rows_by_group(self) -> Rows:
        """Return the records sorted by their group, those of one group in order; four bytes of each are fetched."""
        labels = np.concatenate(self._chunks.each(partial(_labels_of, name=self.label)))
        return rows_by_rank(labels, int(self.sizes.size))

    def split_keys(self, split: Split) -> tuple[Rows, Counts, int]:
        """Fetch the carriers, and the number of each one's (group, child), below the third."""
        count = self._count(split)
        found = self._chunks.each(partial(_keys_of_rows, count=count))
        firsts = np.cumsum([0, *(size for size, *_ in found[:-1])])
        rows = np.concatenate([first + rows for first, (_, rows, _) in zip(firsts, found, strict=True)])
        return rows, np.concatenate([keys for *_, keys in found]), count.n_groups * split.n_children

    def _satisfied(self, requirement: GroupRequirement, split: Split) -> Flags:
        """Return for each (group, child) that occurs, in order, whether it satisfies the requirement."""
        if requirement.sensitive is None:
            sizes = self._parts(split).counts
            return requirement.holds(sizes.reshape(-1, 1), np.array([[self.n_rows]]), ())
        labels = self.sensitive[requirement.sensitive].labels
        histogram = self._histograms(split, requirement.sensitive)
        return requirement.holds(histogram, self._whole[requirement.sensitive], labels)

    def _violating(self, split: Split) -> Flags:
        """Return for each (group, child) that occurs whether it would be left out newly."""
        if self._judged is None or self._judged[0] is not split:
            found = self._parts(split).keys
            violating = np.zeros(found.size, bool)
            for requirement in self.requirements:
                violating |= ~self._satisfied(requirement, split)
            self._judged = split, violating & (found >= split.n_children)  # group 0 was left out before
        return self._judged[1]

    def _parts(self, split: Split) -> SparseCounts:
        """Count the (group, child) pairs that occur."""
        if self._last is None or self._last[0] is not split:
            self._last = split, self._chunks.total(self._count(split))
        return self._last[1]

    def _histograms(self, split: Split, name: str) -> Counts:
        """Count the values of a sensitive attribute in each (group, child) that occurs, in order."""
        n_values = len(self.sensitive[name].labels)
        counted = self._chunks.total(self._count(split, name))
        pairs, values = np.divmod(counted.keys, n_values)
        starts = np.diff(pairs, prepend=-1) > 0
        histogram = np.zeros((int(np.count_nonzero(starts)), n_values), np.int64)
        histogram[np.cumsum(starts) - 1, values] = counted.counts
        return histogram

    def _count(self, split: Split, name: str | None = None) -> _CountParts:
        count = _CountParts(split, self.label, int(self.sizes.size))
        if self._at_hand:
            if self._keys is None or self._keys[0] is not split:
                self._keys = split, self._chunks.only(0, count.keys)
            count = replace(count, known=self._keys[1])
        if name is None:
            return count
        return replace(count, codes=codes_of(name), n_values=len(self.sensitive[name].labels))


def _value_of(attribute: str) -> str:
    return f"value {attribute}"


def _n_rows(chunk: Chunk) -> int:
    return int(next(iter(chunk.values())).size)


class _Everybody(Split):
    """All records, which go to one child."""

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        return None, np.zeros(_n_rows(chunk), np.uint8)


class _Told(Split):
    """An instruction that has been taken in: the carriers by their value, their children beside them."""

    def rows(self, chunk: Chunk) -> Rows:
        return np.flatnonzero(chunk[_value_of(self.attribute)] == self.value)

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        rows = self.rows(chunk)
        return rows, chunk[_CHILDREN].take(rows)


@dataclass(frozen=True, eq=False)
class _Found(Split):
    """A split that has found its records."""

    rows: Rows | None
    children: Ints

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        return self.rows, self.children


def _fill(chunk: Chunk, *, name: str, value: int) -> Arrays:
    """Give all records of a chunk one number."""
    return {name: np.full(_n_rows(chunk), value, np.int32)}


def _count_carriers(chunk: Chunk, *, told: _Told) -> int:
    return int(np.count_nonzero(chunk[_value_of(told.attribute)] == told.value))


def _count_values(chunk: Chunk, *, attribute: str, n_values: int) -> Counts:
    return value_counts(chunk[_value_of(attribute)], n_values)


def _take_in(chunk: Chunk, *, told: _Told, children: Children) -> Arrays:
    made = np.zeros(_n_rows(chunk), children.dtype)
    made[told.rows(chunk)] = children
    return {_CHILDREN: made}


def _carry(chunk: Chunk, *, split: Split, first: int) -> Arrays:
    """Give the carriers of a value the numbers of its children."""
    values = np.array(chunk[_value_of(split.attribute)])
    rows, children = split(chunk)
    values[slice(None) if rows is None else rows] = first + children.astype(np.int32)
    return {_value_of(split.attribute): values}


def _give_children(chunk: Chunk, *, split: Split) -> Children:
    children: Children = np.asarray(split(chunk)[1])
    return children


def _count_classes(chunk: Chunk, *, split: Split, classes: str | None = None, n_classes: int = 1) -> Counts:
    rows, children = split(chunk)
    if classes is None:
        return value_counts(children, split.n_children).reshape(-1, 1)
    codes = chunk[classes] if rows is None else chunk[classes].take(rows)
    return pair_counts(children, codes, split.n_children, n_classes)


def _count_ranks(chunk: Chunk, *, sizes: Mapping[str, int], classes: str | None, n_classes: int) -> tuple[Counts, ...]:
    if classes is None:
        return tuple(value_counts(chunk[ranks_of(name)], size).reshape(-1, 1) for name, size in sizes.items())
    codes = chunk[classes]
    return tuple(pair_counts(chunk[ranks_of(name)], codes, size, n_classes) for name, size in sizes.items())


def _labels_of(chunk: Chunk, *, name: str) -> Ints:
    labels: Ints = chunk[name]
    return labels


@dataclass(frozen=True, eq=False)
class _CountParts:
    """Counts the (group, child) pairs of the records that carry a value, by sensitive value if asked."""

    split: Split
    labels: str
    n_groups: int
    codes: str | None = None
    n_values: int = 1
    known: Keys | None = None  # where they have been found before

    def __call__(self, chunk: Chunk) -> SparseCounts:
        rows, keys = self.keys(chunk)
        bound = self.n_groups * self.split.n_children
        if self.codes is None:
            return SparseCounts.of(keys, bound)
        values = chunk[self.codes] if rows is None else chunk[self.codes].take(rows)
        keys = keys * self.n_values
        keys += values
        return SparseCounts.of(keys, bound * self.n_values)

    def keys(self, chunk: Chunk) -> Keys:
        """Return the rows that carry the value, None for all, and the (group, child) of each."""
        if self.known is not None:
            return self.known
        rows, children = self.split(chunk)
        labels = chunk[self.labels] if rows is None else chunk[self.labels].take(rows)
        keys: Counts = np.multiply(labels, self.split.n_children, dtype=np.int64)
        keys += children
        return rows, keys


def _keys_of_rows(chunk: Chunk, *, count: _CountParts) -> tuple[int, Rows, Counts]:
    """Give the number of all rows, those that carry a value, and the (group, child) of each."""
    rows, keys = count.keys(chunk)
    return _n_rows(chunk), np.arange(keys.size) if rows is None else rows, keys


def _relabel(chunk: Chunk, *, count: _CountParts, found: Counts, numbers: Counts) -> Arrays:
    """Give the carriers of each (group, child) that occurs its number as their group."""
    rows, keys = count.keys(chunk)
    bound = count.n_groups * count.split.n_children
    new_groups = look_up(keys, found, numbers, bound).astype(np.int32, copy=False)
    if rows is None:
        return {count.labels: new_groups}
    labels = np.array(chunk[count.labels])
    labels[rows] = new_groups
    return {count.labels: labels}
