"""Test whether a split satisfies a requirement on another party's sensitive attribute, revealing one bit only.

Before the winner of a round instructs, it and the holder of each such attribute obtain shares of the joint histogram of
the groups that the split would make and the sensitive values, and a circuit says whether every group satisfies
(`sensitive_checks.py`). When one does not, the winner withdraws its candidate and never offers it again.

A winner may lie about its groups, so the circuit itself adds up each one, and refuses what is neither empty nor as
large as the contract's requirements make every group (`least_size`): what is asked about fewer people is answered no,
whatever they have. The holder garbles, and so decides what is asked; it and all others count the withdrawals. A
withdrawn value stays in the cut for good, and splits into groups of that size: an honest party withdraws at most
once for each value of its cut that twice as many records carry, and who withdraws more often is named.

    who                    learns
    winner and holder      whether the winner's candidate satisfies the requirement: one bit
    everyone               that the winner withdraws, or else its instruction; of plain scores, those of who withdraws
    who may have to ask    once: how many different sensitive values there are (`sensitive_checks.py`)

The winner asks whenever it holds any attribute of the requirement's QID, also when its candidate is of another one:
then no record counts. All groups of that QID take part, each with ⌊g / s⌋ rows for g records, with s the size that
every group has anyway, and no more than the winner may split a group into. So the holder cannot tell from what travels
which attribute, how many children or how many carriers a refused candidate has. Cost: see `sensitive_checks.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from masquerade.anonymize.instruction import Split
from masquerade.anonymize.public_state import PublicState, QidGroups
from masquerade.engine.numbering import renumber
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script
from masquerade.protocol.joint_histogram.split_counts import Groups
from masquerade.protocol.remote_sensitive import least_size
from masquerade.protocol.sensitive_checks import Labels, SensitiveChecks, remote_parts


class Settled(Message, tag="settled", frozen=True):
    """Whether the winner instructs; otherwise it withdraws its candidate."""

    instructs: bool


@dataclass
class RemoteChecks(SensitiveChecks):
    """One party's side of all checks of a mashup by top-down specialization."""

    withdrawn: Counter[str] = field(default_factory=Counter)  # candidates, by party

    @cached_property
    def least(self) -> Mapping[str, int]:
        """Records of a group, by the attributes whose splits may be refused."""
        parts = remote_parts(self.contract)
        return {
            name: max(least_size(part, self.contract.parts) for part in parts if name in part.qid)
            for name in {name for part in parts for name in part.qid}
        }

    def ask(self, instruction: Split, state: PublicState) -> Script[bool]:
        """Return whether our instruction, which passes all tests we can make alone, also passes the others."""
        valid = True
        for at, check in enumerate(self.checks):
            if self.me in check.asking:
                answer = yield from self._judged(at, self.me, state, instruction)
                valid = valid and answer
        return valid

    def instructs(self, winner: int, state: PublicState) -> Script[bool]:
        """Answer the winner's checks of attributes that we hold. Return whether it instructs, and may."""
        name, allowed = self.contract.parties[winner], True
        for at, check in enumerate(self.checks):
            if check.holder == self.me and winner in check.asking:
                answer = yield from self._judged(at, winner, state)
                allowed = allowed and answer
        settled: Settled = yield Receive(name, Settled)
        if settled.instructs and not allowed:
            raise PeerBrokeProtocol(name, "goes on with a candidate that our check refused")
        if not settled.instructs:
            self._count_withdrawal(name, state)
        return settled.instructs

    def _count_withdrawal(self, name: str, state: PublicState) -> None:
        """Refuse more withdrawals than an honest party can come to."""
        self.withdrawn[name] += 1
        held = {column.name for column in self.contract.columns_of(name)}
        most = sum(
            n_carriers >= 2 * least
            for attribute, least in self.least.items()
            if attribute in held
            for n_carriers in state.all_carriers(attribute)
        )
        if self.withdrawn[name] > most:
            raise PeerBrokeProtocol(
                name, f"withdrew {self.withdrawn[name]} candidates, and its cut has {most} values to split"
            )

    def _judged(
        self, at: int, winner: int, state: PublicState, instruction: Split | None = None
    ) -> Script[bool]:
        """Return whether all groups that the winner's instruction would make satisfy; only the winner has it."""
        check = self.checks[at]
        partition = next(each for each in state.partitions if {*each.qid} == {*check.part.qid})
        filled = partition.sizes > 0
        groups = self._groups(winner, partition.rows_by_group(), partition.sizes[filled], check.least)
        parts = self._parts(groups, partition, instruction) if instruction is not None else None
        everything = [int(groups.n_parts.sum())]
        (good,) = yield from self._parts_satisfy(at, winner, groups, parts, check.least, everything)
        return bool(good)

    def _parts(self, groups: Groups, partition: QidGroups, instruction: Split) -> Labels:
        """Return each record's part of its group, group by group; records that we do not touch count nowhere."""
        parts: Labels = np.full(self.n_records, groups.most, np.uint64)
        if instruction.attribute in partition.qid:
            carriers, keys, bound = partition.split_keys(instruction)
            numbers, found = renumber(keys, bound)
            group = found // instruction.n_children
            part = np.arange(found.size) - np.searchsorted(group, group)
            parts[carriers] = part[numbers]
        return parts[groups.rows]
