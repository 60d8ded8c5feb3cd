"""What all parties of a top-down specialization know: who carries which value of the cut, and the groups they form.

The state starts with every attribute at its topmost value and all records in one group. A specialization is an
**instruction**: for each record that carries the value, in the order of the records, the number of its child. The
holder of the attribute makes it from its data and sends it to the others. Values that records have are numbered in the
order in which they came into the cut. Nothing here depends on a raw value or a rank, so one table and n parties share
this file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from masquerade.anonymize.instruction import Children, Instruction, RankSplit, places_by_child
from masquerade.anonymize.partition import Partition
from masquerade.anonymize.tolerant_partition import TolerantPartition
from masquerade.data.column import Coded, Column
from masquerade.engine.counts import Counts, Rows, pair_counts, value_counts
from masquerade.privacy.requirement import GroupRequirement


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
        """Start with every attribute at its topmost value, and one partition for each different QID.

        Requirements on a sensitive attribute that is not in `sensitive` are left to its holder. Up to
        `may_suppress` records may be left out, when there is one QID and its requirements are hereditary.
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
        """The records to release, in order; None for all."""
        for partition in self.partitions:
            if isinstance(partition, TolerantPartition) and partition.sizes[0]:
                return np.flatnonzero(partition.labels)
        return None

    def anonymity(self, attribute: str) -> tuple[int, ...]:
        """Return A(QID) of each QID that contains the attribute."""
        return tuple(partition.anonymity for partition in self._touching[attribute])

    def anonymity_after(self, instruction: Instruction) -> tuple[int, ...]:
        """Return A(QID), as it would be after the instruction, of each QID that contains its attribute."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return tuple(
            each.anonymity_after(carriers, instruction) for each in self._touching[instruction.attribute]
        )

    def instruct(self, split: RankSplit, column: Column) -> Instruction:
        """Return the instruction that sends each carrier of a value to the child of its rank."""
        carriers = self.carriers[split.attribute][split.value]
        ranks = column.ranks if carriers is None else column.ranks.take(carriers)
        return Instruction(split.attribute, split.value, split.n_children, split.children_of(ranks))

    def children(self, instruction: Instruction) -> Children:
        """Return the child of each carrier, in the order of the records, as it is sent to the others."""
        return instruction.children

    def told(self, instruction: Instruction) -> Instruction:
        """Take in an instruction that another party has given."""
        return instruction

    def n_carriers(self, attribute: str, value: int) -> int:
        """Return how many records carry a value of the cut."""
        carriers = self.carriers[attribute][value]
        return self.n_rows if carriers is None else int(carriers.size)

    def all_carriers(self, attribute: str) -> list[int]:
        """Return how many records carry each value of an attribute's cut."""
        return [self.n_carriers(attribute, value) for value in self.carriers[attribute]]

    def split_keys(self, partition: Partition, instruction: Instruction) -> tuple[Rows | None, Counts, int]:
        """Return the carriers, None for all, and the number of each one's (group, child), below the third."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return carriers, *partition.keys(carriers, instruction)

    def class_counts(self, instruction: Instruction, classes: Coded | None) -> Counts:
        """Count the carriers by child and class; without a class all are of one."""
        if classes is None:
            return value_counts(instruction.children, instruction.n_children).reshape(-1, 1)
        carriers = self.carriers[instruction.attribute][instruction.value]
        codes = classes.codes if carriers is None else classes.codes[carriers]
        return pair_counts(instruction.children, codes, instruction.n_children, len(classes.labels))

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, QID by QID, in as many pieces as it comes."""
        for partition in self.partitions:
            yield from partition.each_label()

    def allows(self, instruction: Instruction) -> bool:
        """Return whether the specialization is valid: every requirement that it touches still holds afterwards."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return all(each.allows(carriers, instruction) for each in self._touching[instruction.attribute])

    def leaves_out(self, instruction: Instruction) -> int:
        """Return how many more records would be left out of the release."""
        carriers = self.carriers[instruction.attribute][instruction.value]
        return sum(
            each.leaves_out(carriers, instruction)
            for each in self._touching[instruction.attribute]
            if isinstance(each, TolerantPartition)
        )

    def specialise(self, instruction: Instruction) -> range:
        """Replace a value of the cut by its children. Return their numbers."""
        values = self.carriers[instruction.attribute]
        carriers = values.pop(instruction.value)
        for partition in self._touching[instruction.attribute]:
            partition.split(carriers, instruction)
        rows = self._carriers_by_child(carriers, instruction)
        first = self._n_values[instruction.attribute]
        numbers = range(first, first + instruction.n_children)
        self._n_values[instruction.attribute] = numbers.stop
        values.update(zip(numbers, rows, strict=True))
        return numbers

    def _carriers_by_child(self, carriers: Rows | None, instruction: Instruction) -> Sequence[Rows | None]:
        rows = places_by_child(instruction.children, instruction.n_children)
        return rows if carriers is None else [carriers.take(places) for places in rows]
