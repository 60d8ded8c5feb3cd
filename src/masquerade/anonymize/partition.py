"""The groups of one QID, and how an instruction would split them.

All that is asked of records is in three methods: `parts`, `histograms` and `relabel`. Where records are in chunks,
`chunked/groups.py` has others for them; what follows from the counts is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from masquerade.anonymize.instruction import Instruction
from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, Flags, Rows, weighted_counts, which_occur
from masquerade.engine.numbering import look_up, occurring, renumber, rows_by_rank
from masquerade.privacy.requirement import GroupRequirement


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
        self.n_rows = n_rows
        self.labels: Counts = np.zeros(n_rows, np.int64)  # each record's group
        self.sizes: Counts = np.array([n_rows])  # of each group; an emptied group stays, with size 0
        self._keys: tuple[Instruction, Counts] | None = (
            None  # of the last one, which is often asked for again
        )
        self.whole = {name: coded.histogram() for name, coded in sensitive.items()}

    @property
    def anonymity(self) -> int:
        """A(QID): the size of the smallest group."""
        return int(self.sizes[self.sizes > 0].min())

    def allows(self, carriers: Rows | None, instruction: Instruction) -> bool:
        """Return whether every group that the instruction would make satisfies the requirements."""
        return all(
            self._satisfied(requirement, carriers, instruction).all() for requirement in self.requirements
        )

    def _satisfied(
        self, requirement: GroupRequirement, carriers: Rows | None, instruction: Instruction
    ) -> Flags:
        """Return for each (group, child) that occurs, in order, whether it satisfies the requirement."""
        if requirement.sensitive is None:
            sizes = self.parts(carriers, instruction)[1]
            return requirement.holds(sizes.reshape(-1, 1), np.array([[self.n_rows]]), ())
        histogram = self.histograms(carriers, instruction, requirement.sensitive)
        names = self.sensitive[requirement.sensitive].labels
        return requirement.holds(histogram, self.whole[requirement.sensitive], names)

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, in as many pieces as it comes."""
        yield self.labels

    def rows_by_group(self) -> Rows:
        """Return the records sorted by their group, those of one group in order."""
        return rows_by_rank(self.labels, int(self.sizes.size))

    def holds(self) -> bool:
        """Return whether every current group satisfies the requirements."""
        nothing = Instruction("", 0, 1, np.zeros(self.labels.size, np.uint8))
        return self.allows(None, nothing)

    def anonymity_after(self, carriers: Rows | None, instruction: Instruction) -> int:
        """Return A(QID) as it would be after the instruction."""
        found, counts = self.parts(carriers, instruction)
        smallest = int(counts.min())
        # Records of a group agree on the attribute, so a group carries the value as a whole or not at all.
        touched = which_occur(found // instruction.n_children, self.sizes.size)
        untouched = self.sizes[(self.sizes > 0) & ~touched]
        return min(smallest, int(untouched.min())) if untouched.size else smallest

    def split(self, carriers: Rows | None, instruction: Instruction) -> None:
        """Split groups by child: the first child keeps its groups' numbers, the others get new ones."""
        found, counts = self.parts(carriers, instruction)
        groups, children = np.divmod(found, instruction.n_children)
        newcomers = np.flatnonzero(children)
        newcomers = newcomers[np.argsort(children[newcomers], kind="stable")]
        numbers = groups.copy()
        numbers[newcomers] = np.arange(self.sizes.size, self.sizes.size + newcomers.size)
        self.relabel(carriers, instruction, found, numbers)
        moved = counts[newcomers]
        left = self.sizes - weighted_counts(groups[newcomers], moved, self.sizes.size).astype(np.int64)
        self.sizes = np.concatenate([left, moved])

    def parts(self, carriers: Rows | None, instruction: Instruction) -> tuple[Counts, Counts]:
        """Return the (group, child) pairs that occur, as numbers in order, and how many records have each."""
        return occurring(*self.keys(carriers, instruction))

    def histograms(self, carriers: Rows | None, instruction: Instruction, name: str) -> Counts:
        """Count the values of a sensitive attribute in each (group, child) that occurs, in order."""
        groups, found = renumber(*self.keys(carriers, instruction))
        return self.sensitive[name].histograms(groups, found.size, carriers)

    def relabel(
        self, carriers: Rows | None, instruction: Instruction, found: Counts, numbers: Counts
    ) -> None:
        """Give the carriers of each (group, child) that occurs its number as their group."""
        keys, bound = self.keys(carriers, instruction)
        self._keys = None
        of_carrier = look_up(keys, found, numbers, bound)
        if carriers is None:
            self.labels = of_carrier
        else:
            self.labels[carriers] = of_carrier

    def keys(self, carriers: Rows | None, instruction: Instruction) -> tuple[Counts, int]:
        """Return a number for each carrier's (group, child), and an exclusive upper bound of those numbers."""
        n_children = instruction.n_children
        if self._keys is None or self._keys[0] is not instruction:
            labels = self.labels if carriers is None else self.labels.take(carriers)
            keys = labels * n_children
            keys += instruction.children
            self._keys = instruction, keys
        return self._keys[1], self.sizes.size * n_children
