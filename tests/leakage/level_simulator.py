"""What a simulator makes of a mashup by Mondrian: the levels as a trusted party with the joined table cuts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from leakage.mashup_simulator import MashupSimulator
from leakage.views import Made
from masquerade.data import Generalised
from masquerade.protocol import Contract
from masquerade.protocol.boundaries import BoundaryStart
from masquerade.protocol.common_records import CommonRecords
from masquerade.protocol.mondrian.method import JointMondrian, apart
from masquerade.protocol.mondrian.own_cuts import OwnGroups, PartsOfGroups
from masquerade.protocol.mondrian.party import own_groups
from masquerade.protocol.sensitive.checks import remote_parts
from masquerade.protocol.tds.instruction_code import pack
from masquerade.protocol.tds.party import digest_of

Cut = tuple[str, list[int], list[int], list[int]]  # party: positions, numbers of parts, parts of records


@dataclass
class Level:
    """What everybody sees of one level."""

    asked: list[dict[str, list[int]]] = field(default_factory=list)  # by winner: the sizes of its groups
    settled: list[tuple[str, list[bool]]] = field(default_factory=list)  # by winner that asks: which cuts it makes
    waiting: list[int] = field(default_factory=list)  # groups that are bid for, each time
    cuts: list[Cut] = field(default_factory=list)


class LevelSimulator(MashupSimulator):
    """The levels instead of the rounds."""

    prepares = True

    def _rounds(self) -> None:
        self.groups = groups_of(self.contract, self.seen, self.start)
        self._levels()

    def _levels(self) -> None:
        for level in levels(self.contract, self.groups):
            for name, kept in level.settled:
                self._tell(name, Made("cuts-settled", cuts=np.packbits(kept).tobytes()))
                self.counted |= {name, *(holder for _, holder, asking in self._remote() if name in asking)}
            for name, positions, n_parts, parts in level.cuts:
                told = pack(np.array(parts, np.uint32), max(n_parts)) if parts else b""
                where, how_many = (np.array(each, "<u4").tobytes() for each in (positions, n_parts))
                self._tell(name, Made("level-cuts", positions=where, n_parts=how_many, parts=told))
        self.partitions = {name: each.done() for name, each in self.groups.items()}
        for name, partition in self.partitions.items():
            self._tell(name, Made("finished", digest=digest_of(partition.each_label())))

    def released(self, name: str, column: str) -> Generalised:
        """A party's column as it is released."""
        made = self.partitions[name].released()
        return next(each for each in made if each.name == column)


def groups_of(contract: Contract, seen: dict[str, CommonRecords], start: BoundaryStart) -> dict[str, OwnGroups]:
    """Each party's view of the groups of its QID, before the first level."""
    method = JointMondrian.of(contract)
    (parts,) = apart(contract.parts)
    return {name: own_groups(method, name, contract, parts, each, start) for name, each in seen.items()}


def levels(contract: Contract, groups: dict[str, OwnGroups]) -> Iterator[Level]:
    """What each party tells on each level, as somebody with all tables would have it."""
    names = contract.parties
    held = {name: [at for at, column in enumerate(contract.qid_columns) if column.holder == name] for name in names}
    while (batch := groups[names[0]].open) is not None:
        level = Level()
        best = {name: groups[name].best() for name in names}
        won: list[str | None] = [None] * batch.n_groups
        waiting = np.ones(batch.n_groups, bool)
        while waiting.any():
            level.waiting.append(int(waiting.sum()))
            for group in np.flatnonzero(waiting).tolist():
                bids = [
                    (-best[name].scores[group], held[name][best[name].axis[group]], name)
                    for name in names
                    if best[name].axis[group] >= 0
                ]
                won[group] = min(bids)[2] if bids else None
            asked = {
                name: waiting & np.array([each == name for each in won])
                for name in names
                if remote_parts(contract) and _asks(contract, name)
            }
            level.asked.append({name: batch.only(flags).sizes.tolist() for name, flags in asked.items()})
            waiting = np.zeros(batch.n_groups, bool)
            for name, flags in asked.items():
                if flags.any():
                    cuts, cut = best[name].of(flags), batch.only(flags)
                    kept = np.logical_and.reduce([groups[each].satisfied(cuts, cut) for each in names])
                    level.settled.append((name, kept.tolist()))
                    refused = flags.copy()
                    refused[flags] = ~kept
                    best[name] = best[name].without(refused)
                    waiting |= refused
        is_cut = np.array([each is not None for each in won])
        n_parts = np.ones(len(won), np.int64)
        parts = np.zeros(batch.n_records, np.int64)
        for name in names:
            mine = np.array([each == name for each in won])
            cuts = best[name].of(mine)
            n_parts[mine] = cuts.n_parts
            parts[np.repeat(mine, batch.sizes)] = cuts.part_of_row
            positions = [held[name][axis] for axis in best[name].axis[mine]]
            level.cuts.append((name, positions, cuts.n_parts.tolist(), cuts.part_of_row.tolist()))
        everybodys = PartsOfGroups(n_parts[is_cut], parts[np.repeat(is_cut, batch.sizes)])
        for name in names:
            mine = np.array([each == name for each in won])
            groups[name].cut(everybodys, is_cut, best[name], mine)
        if not is_cut.any():
            level.cuts = []
        yield level


def _asks(contract: Contract, name: str) -> bool:
    """Whether a party has to ask another about its cuts."""
    holder = contract.holders
    return any(
        holder[each] == name != holder[str(part.sensitive)] for part in remote_parts(contract) for each in part.qid
    )
