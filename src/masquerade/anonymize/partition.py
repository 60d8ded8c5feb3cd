"""The groups of one QID, and how an instruction would split them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from masquerade.anonymize.instruction import Instruction
from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, Rows, weighted_counts, which_occur
from masquerade.engine.numbering import look_up, occurring, renumber
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
        self.labels: Counts = np.zeros(n_rows, np.int64)  # each record's group
        self.sizes: Counts = np.array([n_rows])  # of each group; an emptied group stays, with size 0
        self._whole = {name: coded.histogram() for name, coded in sensitive.items()}

    @property
    def anonymity(self) -> int:
        """A(QID): the size of the smallest group."""
        return int(self.sizes[self.sizes > 0].min())

    def allows(self, carriers: Rows | None, instruction: Instruction) -> bool:
        """Return whether every group that the instruction would make satisfies the requirements."""
        keys, bound = self.keys(carriers, instruction)
        for requirement in self.requirements:
            if requirement.sensitive is None:
                names: tuple[str, ...] = ()
                histogram, whole = occurring(keys, bound)[1].reshape(-1, 1), np.array([[self.labels.size]])
            else:
                coded = self.sensitive[requirement.sensitive]
                whole, names = self._whole[requirement.sensitive], coded.labels
                groups, found = renumber(keys, bound)
                histogram = coded.histograms(groups, found.size, carriers)
            if not requirement.holds(histogram, whole, names).all():
                return False
        return True

    def holds(self) -> bool:
        """Return whether every current group satisfies the requirements."""
        nothing = Instruction("", 0, 1, np.zeros(self.labels.size, np.uint8))
        return self.allows(None, nothing)

    def anonymity_after(self, carriers: Rows | None, instruction: Instruction) -> int:
        """Return A(QID) as it would be after the instruction."""
        keys, bound = self.keys(carriers, instruction)
        smallest = int(occurring(keys, bound)[1].min())
        # Records of a group agree on the attribute, so a group carries the value as a whole or not at all.
        touched = which_occur(keys // instruction.n_children, self.sizes.size)
        untouched = self.sizes[(self.sizes > 0) & ~touched]
        return min(smallest, int(untouched.min())) if untouched.size else smallest

    def split(self, carriers: Rows | None, instruction: Instruction) -> None:
        """Split groups by child: the first child keeps its groups' numbers, the others get new ones."""
        keys, bound = self.keys(carriers, instruction)
        found, counts = occurring(keys, bound)
        groups, children = np.divmod(found, instruction.n_children)
        newcomers = np.flatnonzero(children)
        newcomers = newcomers[np.argsort(children[newcomers], kind="stable")]
        numbers = groups.copy()
        numbers[newcomers] = np.arange(self.sizes.size, self.sizes.size + newcomers.size)
        of_carrier = look_up(keys, found, numbers, bound)
        if carriers is None:
            self.labels = of_carrier
        else:
            self.labels[carriers] = of_carrier
        moved = counts[newcomers]
        left = self.sizes - weighted_counts(groups[newcomers], moved, self.sizes.size).astype(np.int64)
        self.sizes = np.concatenate([left, moved])

    def keys(self, carriers: Rows | None, instruction: Instruction) -> tuple[Counts, int]:
        """Return a number for each carrier's (group, child), and an exclusive upper bound of those numbers."""
        n_children = instruction.n_children
        labels = self.labels if carriers is None else self.labels.take(carriers)
        keys = labels * n_children
        keys += instruction.children
        return keys, self.sizes.size * n_children
