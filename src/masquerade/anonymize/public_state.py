"""What all parties of a top-down specialization know: the cut, and the groups of records it makes.

The state starts with every attribute at its topmost value and all records in one group. A specialization is given as
the rows of each child; whoever holds the attribute knows them from its data, everybody else from the holder's
instruction. Nothing here looks at a raw value, so one table and n parties share this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, pair_counts
from masquerade.privacy.requirement import GroupRequirement

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Prospect:
    """What a valid specialization would do to the anonymity A(QID) of each QID that it touches."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def anonymity_loss(self) -> float:
        """AnonyLoss: averaged over the QIDs that contain the attribute."""
        return mean_loss(self.before, self.after)


def mean_loss(before: Sequence[int], after: Sequence[int]) -> float:
    """The average fall from `before` to `after`, never below 0."""
    return sum(max(b - a, 0) for b, a in zip(before, after, strict=True)) / len(before) if before else 0.0


@dataclass
class Partition:
    """The groups of one QID: records that agree on the cut's values of its attributes."""

    qid: tuple[str, ...]
    requirements: tuple[GroupRequirement, ...]
    sensitive: Mapping[str, Coded]
    labels: Counts  # each record's group
    sizes: Counts = field(init=False)  # each group's records; a group that was emptied stays, with none

    def __post_init__(self) -> None:
        self.sizes = np.bincount(self.labels)
        self._whole = {
            name: np.bincount(coded.codes, minlength=len(coded.labels)).reshape(1, -1)
            for name, coded in self.sensitive.items()
        }

    @property
    def anonymity(self) -> int:
        """A(QID): the size of the smallest group."""
        return int(self.sizes[self.sizes > 0].min())

    def holds(self) -> bool:
        """Whether every group satisfies the requirements."""
        return self._satisfied(np.arange(self.labels.size), self.labels, self.sizes)

    def after_split(self, children: Sequence[Rows]) -> int | None:
        """A(QID) once these rows are told apart, or None when that would violate a requirement."""
        touched = np.zeros_like(self.sizes)
        smallest: int | None = None
        for rows in children:
            if not rows.size:
                continue
            labels = self.labels[rows]
            sizes = np.bincount(labels, minlength=self.sizes.size)
            if not self._satisfied(rows, labels, sizes):
                return None
            least = int(sizes[sizes > 0].min())
            smallest = least if smallest is None else min(smallest, least)
            touched += sizes
        untouched = self.sizes[(self.sizes > 0) & (touched == 0)]
        if untouched.size:
            least = int(untouched.min())
            smallest = least if smallest is None else min(smallest, least)
        return smallest if smallest is not None else self.anonymity

    def split(self, children: Sequence[Rows]) -> None:
        """Tell the rows of different children apart: the first child keeps its groups, the others get new ones."""
        for rows in children[1:]:
            labels = self.labels[rows]
            moved = np.bincount(labels, minlength=self.sizes.size)
            present = np.flatnonzero(moved)
            new_label = np.zeros(self.sizes.size, np.int64)
            new_label[present] = np.arange(self.sizes.size, self.sizes.size + present.size)
            self.labels[rows] = new_label[labels]
            self.sizes = np.concatenate([self.sizes - moved, moved[present]])

    def _satisfied(self, rows: Rows, labels: Counts, sizes: Counts) -> bool:
        present = sizes > 0
        for requirement in self.requirements:
            if requirement.sensitive is None:
                histogram, whole, names = sizes[present].reshape(-1, 1), sizes.reshape(-1, 1)[:1], ()
            else:
                coded = self.sensitive[requirement.sensitive]
                names = coded.labels
                counts = pair_counts(labels, coded.codes[rows], sizes.size, len(names))
                histogram, whole = counts[present], self._whole[requirement.sensitive]
            if not requirement.holds(histogram, whole, names).all():
                return False
        return True


@dataclass
class PublicState:
    """The cut of every attribute, as sorted range starts, and the partition of every QID."""

    cut: dict[str, list[int]]
    partitions: tuple[Partition, ...]

    @classmethod
    def topmost(
        cls,
        attributes: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        n_rows: int,
    ) -> PublicState:
        """Every attribute at its topmost value; one partition for each different QID."""
        by_qid: dict[frozenset[str], list[GroupRequirement]] = {}
        for requirement in requirements:
            by_qid.setdefault(frozenset(requirement.qid), []).append(requirement)
        partitions = tuple(
            Partition(
                parts[0].qid,
                tuple(parts),
                {part.sensitive: sensitive[part.sensitive] for part in parts if part.sensitive is not None},
                np.zeros(n_rows, np.int64),
            )
            for parts in by_qid.values()
        )
        return cls({name: [0] for name in attributes}, partitions)

    def touching(self, attribute: str) -> tuple[Partition, ...]:
        """The partitions whose QID contains the attribute."""
        return tuple(partition for partition in self.partitions if attribute in partition.qid)

    def prospect(self, attribute: str, children: Sequence[Rows]) -> Prospect | None:
        """What this specialization would do, or None when it is not valid."""
        before, after = [], []
        for partition in self.touching(attribute):
            anonymity = partition.after_split(children)
            if anonymity is None:
                return None
            before.append(partition.anonymity)
            after.append(anonymity)
        return Prospect(tuple(before), tuple(after))

    def specialise(self, attribute: str, starts: Sequence[int], children: Sequence[Rows]) -> None:
        """Replace a value of the cut by its children, which begin at `starts` (the first where the value did)."""
        self.cut[attribute] = sorted({*self.cut[attribute], *starts})
        for partition in self.touching(attribute):
            partition.split(children)
