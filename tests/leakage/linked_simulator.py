"""What a simulator makes of a mashup by Mondrian over QIDs that share attributes, given the joined table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import masquerade as mq
from leakage.mashup_simulator import MashupSimulator
from leakage.views import Made
from masquerade.anonymize.mondrian.choices import CHOICES
from masquerade.anonymize.mondrian.linked_qids import LinkedGroups
from masquerade.data.column import Generalised
from masquerade.protocol.common_records import CommonRecords
from masquerade.protocol.contract import Contract
from masquerade.protocol.instruction_code import pack
from masquerade.protocol.multidimensional.method import JointMondrian, apart
from masquerade.protocol.multidimensional.party import own_axes, own_judge, qids_of, schema_of


@dataclass
class LinkedLevel:
    """What everybody sees of one level."""

    asked: int  # groups that are bid for
    best: dict[str, list[int]]  # by party: the attributes of the groups that it has won
    cuts: dict[str, tuple[list[int], list[int], list[int]]] = field(default_factory=dict)


class LinkedSimulator(MashupSimulator):
    """The levels instead of the rounds."""

    prepares = True

    def _rounds(self) -> None:
        self.groups = joined_groups(self.contract, self.own)
        for level in linked_levels(self.contract, self.groups):
            for name, positions in level.best.items():
                self._tell(name, Made("best-attributes", positions=_words(positions)))
            for name, (positions, n_parts, parts) in level.cuts.items():
                told = pack(np.array(parts, np.uint32), max(n_parts)) if parts else b""
                self._tell(
                    name, Made("level-cuts", positions=_words(positions), n_parts=_words(n_parts), parts=told)
                )
        labels = [numbers.astype("<i8").tobytes() for numbers, _ in self.groups.groups]
        for name in self.contract.parties:
            self._tell(name, Made("finished", digest=hashlib.sha256(b"".join(labels)).digest()))

    def released(self, name: str, column: str) -> Generalised:
        """A party's column as it is released."""
        return next(each for each in self.groups.released() if each.name == column)


def joined_groups(contract: Contract, own: dict[str, mq.Table]) -> LinkedGroups:
    """The groups of all QIDs as somebody with all columns sees them, before the first level."""
    method = JointMondrian.of(contract)
    (parts,) = apart(contract.parts)
    classes = own[contract.class_from or contract.parties[0]].coded("Class")
    seen = {name: CommonRecords(table, classes, {}, {}, 0.0) for name, table in own.items()}
    axes = {at: axis for name in own for at, axis in own_axes(name, contract, parts, seen[name]).items()}
    anybody = seen[contract.parties[0]]
    judges = {
        qid: own_judge(method, contract, [part for part in parts if {*part.qid} == qid], anybody)
        for qid in qids_of(parts)
    }
    names = schema_of(contract, parts).attributes
    rows = len(anybody.own)
    return LinkedGroups(
        names, dict(sorted(axes.items())), judges, CHOICES[method.choose], rows, method.strict
    )


def linked_levels(contract: Contract, groups: LinkedGroups) -> Iterator[LinkedLevel]:
    """What each party tells on each level; best cuts are looked for anew each time, whether or not they are asked."""
    holders = schema_of(contract, apart(contract.parts)[0]).holders
    changed = [np.ones(numbers.size, bool) for numbers, *_ in groups.groups]
    while True:
        best = groups.best()
        asked: list[int] = []  # the attribute, or -1
        large = groups.large_enough()
        for at, (each, flags, (numbers, n_groups)) in enumerate(
            zip(best, changed, groups.groups, strict=True)
        ):
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


def _words(numbers: list[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()
