"""What a simulator makes of a mashup by Mondrian over QIDs that share attributes, given the joined table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import masquerade as mq
from leakage.level_simulator import LevelSimulator, groups_of, levels
from leakage.mashup_simulator import common_of
from leakage.views import Made
from masquerade.anonymize import CHOICES
from masquerade.data import Generalised
from masquerade.protocol import Contract
from masquerade.protocol.boundaries import BoundaryStart
from masquerade.protocol.common_records import CommonRecords
from masquerade.protocol.mondrian.linked_groups import LinkedGroups
from masquerade.protocol.mondrian.method import JointMondrian, apart
from masquerade.protocol.mondrian.own_cuts import FinishedGroups
from masquerade.protocol.mondrian.party import own_axes, own_judge, qids_of, schema_of
from masquerade.protocol.tds.instruction_code import pack


@dataclass
class LinkedLevel:
    """What everybody sees of one level."""

    asked: int  # groups that are bid for
    best: dict[str, list[int]]  # by party: the attributes of the groups that it has won
    cuts: dict[str, tuple[list[int], list[int], list[int]]] = field(default_factory=dict)


class LinkedSimulator(LevelSimulator):
    """The levels of the union of the QIDs, which groups have equal cells, and the levels from there on."""

    def _rounds(self) -> None:
        super()._rounds()
        for name, partition in self.partitions.items():
            numbers = [_as_they_occur(own) for own in partition.cells]
            counts = tuple(max(each) + 1 for each in numbers)
            cells = tuple(pack(np.array(each), n) for each, n in zip(numbers, counts, strict=True))
            self._tell(name, Made("equal-cells", counts=counts, cells=cells))
        self.linked = joined_groups(self.contract, self.own, self.partitions)
        for level in linked_levels(self.contract, self.linked):
            for name, positions in level.best.items():
                self._tell(name, Made("best-attributes", positions=_words(positions)))
            for name, (positions, n_parts, parts) in level.cuts.items():
                told = pack(np.array(parts, np.uint32), max(n_parts)) if parts else b""
                self._tell(name, Made("level-cuts", positions=_words(positions), n_parts=_words(n_parts), parts=told))
        labels = [numbers.astype("<i8").tobytes() for numbers, _ in self.linked.groups]
        for name in self.contract.parties:
            self._tell(name, Made("finished", digest=hashlib.sha256(b"".join(labels)).digest()))

    def released(self, name: str, column: str) -> Generalised:
        """A party's column as it is released."""
        return next(each for each in self.linked.released() if each.name == column)


def union_of(contract: Contract, seen: dict[str, CommonRecords]) -> tuple[list[int], dict[str, FinishedGroups]]:
    """How many groups are bid for on each level over the union of the QIDs, and the groups as each party sees them."""
    groups = groups_of(contract, seen, BoundaryStart())
    waiting = [each for level in levels(contract, groups) for each in level.waiting]
    return waiting, {name: each.done() for name, each in groups.items()}


def joined_groups(contract: Contract, own: dict[str, mq.Table], union: dict[str, FinishedGroups]) -> LinkedGroups:
    """The groups of all QIDs as somebody with all columns sees them, once the union is cut."""
    method = JointMondrian.of(contract)
    (parts,) = apart(contract.parts)
    seen = common_of(contract, own)
    axes, cells = {}, {}
    for name in own:
        held = own_axes(name, contract, parts, seen[name])
        axes |= held
        cells |= dict(zip(held, union[name].cells, strict=True))
    anybody = seen[contract.parties[0]]
    judges = {
        qid: own_judge(method, contract, [part for part in parts if {*part.qid} == qid], anybody)
        for qid in qids_of(parts)
    }
    names = schema_of(contract, parts).attributes
    labels = union[contract.parties[0]].labels
    starts = {}
    for qid in judges:
        alike = np.concatenate([cells[at] for at, name in enumerate(names) if name in qid])
        found, number = np.unique(alike, axis=1, return_inverse=True)
        starts[qid] = number.ravel()[labels], found.shape[1]
    return LinkedGroups(
        names,
        dict(sorted(axes.items())),
        judges,
        CHOICES[method.choose],
        labels.size,
        method.strict,
        starts,
        {at: each[:, labels] for at, each in cells.items()},
    )


def linked_levels(contract: Contract, groups: LinkedGroups) -> Iterator[LinkedLevel]:
    """What each party tells on each level; best cuts are looked for anew each time, whether or not they are asked."""
    holders = schema_of(contract, apart(contract.parts)[0]).holders
    changed = [np.ones(numbers.size, bool) for numbers, *_ in groups.groups]
    while True:
        best = groups.best()
        asked: list[int] = []  # the attribute, or -1
        large = groups.large_enough()
        for at, (each, flags, (numbers, n_groups)) in enumerate(zip(best, changed, groups.groups, strict=True)):
            asked += [
                int(each.dimensions[group])
                for group in range(n_groups)
                if flags[numbers == group].any() and large[at][group]
            ]
        told = {
            name: [at for at in asked if at >= 0 and holders[at] == number]
            for number, name in enumerate(contract.parties)
        }
        level = LinkedLevel(len(asked), told if asked else {})
        settled = groups.settled([each.dimensions for each in best])
        if not settled:
            yield level
            return
        made = {at: groups.parts(at, batch) for at, batch in settled}
        for number, name in enumerate(contract.parties):
            own = [(at, batch) for at, batch in settled if holders[at] == number]
            level.cuts[name] = (
                [at for at, batch in own for _ in range(batch.n_groups)],
                [n for at, _ in own for n in made[at][0].tolist()],
                [part for at, _ in own for part in made[at][1].tolist()],
            )
        for at, batch in settled:
            groups.cut(at, batch, *made[at])
        changed = groups.changed(np.concatenate([batch.rows for _, batch in settled]))
        yield level


def _as_they_occur(cells: np.ndarray) -> list[int]:
    """The number of each group's cell, in the order in which they first occur."""
    seen: dict[tuple[int, int], int] = {}
    return [seen.setdefault((int(lo), int(hi)), len(seen)) for lo, hi in cells.T]


def _words(numbers: list[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()
