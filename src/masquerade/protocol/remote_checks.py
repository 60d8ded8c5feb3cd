"""Test whether a split satisfies a requirement on another party's sensitive attribute, revealing one bit only.

Before the winner of a round instructs, it and the holder of each such attribute obtain shares of the joint histogram of
the groups that the split would make and the sensitive values, and a circuit says whether every group satisfies
(protocol/joint_histogram*). When one does not, the winner withdraws its candidate and never offers it again.

A winner may lie about its groups, so the circuit itself adds up each one, and refuses what is neither empty nor as
large as the contract's requirements make every group (`least_size`): what is asked about fewer people is answered no,
whatever they have. The holder garbles, and so decides what is asked; it and all others count the withdrawals. A
withdrawn value stays in the cut for good, and splits into groups of that size: an honest party withdraws at most
once for each value of its cut that twice as many records carry, and who withdraws more often is named.

    who                    learns
    winner and holder      whether the winner's candidate satisfies the requirement: one bit
    everyone               that the winner withdraws, or else its instruction; of plain scores, those of who withdraws
    who may have to ask    once: how many different sensitive values the common records have (of those that the
                           requirement lists, where it lists some)

The winner asks whenever it holds any attribute of the requirement's QID, also when its candidate is of another one:
then no record counts. Rows are padded to ⌊n / s⌋, with s the size that every group has anyway. So the holder cannot
tell from what travels which attribute, how many children or how many carriers a refused candidate has.

Cost of a check, for n records, P = ⌊n / s⌋ and Q sensitive values: n·P·Q words of AES on each side (or n·Q / 100
encryptions, where that is cheaper: `joint_histogram/`), and a circuit of some 4·w·P·Q ANDs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.instruction import Instruction
from masquerade.anonymize.public_state import PublicState
from masquerade.crypto.circuit import Bits, Circuit, to_bits
from masquerade.crypto.count_circuits import sized
from masquerade.data.column import Coded
from masquerade.engine.counts import value_counts
from masquerade.engine.numbering import renumber
from masquerade.errors import Bug, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement, SharedRow
from masquerade.protocol.contract import Contract
from masquerade.protocol.joint_histogram.back_ends import rows_satisfy
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import BackEnd, Pair, prepare_pair
from masquerade.protocol.remote_sensitive import least_size, remote_qid

Labels = NDArray[np.uint64]


class SensitiveValues(Message, tag="sensitive-values", frozen=True):
    """The number of labels of the holder's values in a check; the requirement bounds the first `bounded` of them."""

    labels: int
    bounded: int


class Settled(Message, tag="settled", frozen=True):
    """Whether the winner instructs; otherwise it withdraws its candidate."""

    instructs: bool


@dataclass(frozen=True)
class Check:
    """One requirement, its holder, and the parties that have to ask it."""

    part: GroupRequirement
    holder: int
    asking: frozenset[int]
    least: int  # records of a group that is not empty
    n_values: int
    n_bounded: int

    def bounds(self, n_records: int) -> Bounds:
        """Return the size of the histogram: the holder's values, and the groups of the one who asks."""
        return Bounds(n_records, (self.n_values, max(1, n_records // self.least)))

    def circuit(self, n_records: int, width: int, together: int = 1) -> Circuit:
        """Return the test of one group, whose counts have `width` binary digits; `together` counts share one number."""
        row = SharedRow(self.n_values, self.n_bounded, n_records, width, together)
        return _circuit(self.part, row, self.least)


@lru_cache(maxsize=64)
def _circuit(part: GroupRequirement, row: SharedRow, least: int) -> Circuit:
    return sized(part.circuit(row), row.width, least, row.together)


def prepare_checks(
    me: int, contract: Contract, sensitive: dict[str, Coded], n_records: int
) -> Script[RemoteChecks | None]:
    """Agree on all checks of a session, and set up the pairs that make them; return None when none is needed."""
    parties = contract.parties
    holder = {column.name: column.holder for column in contract.columns}
    remote = [part for part in contract.parts if remote_qid(part, holder)]
    if not remote:
        return None
    checks: list[Check] = []
    own: list[Labels | None] = []
    for part in remote:
        assert part.sensitive is not None  # otherwise nothing is remote from it
        at = parties.index(holder[part.sensitive])
        asking = frozenset(parties.index(holder[name]) for name in part.qid) - {at}
        labels: Labels | None = None
        if me == at:
            labels, told = labelled_values(part, sensitive[part.sensitive])
            yield Send(tuple(parties[number] for number in sorted(asking)), told)
        elif me not in asking:
            continue
        else:
            told = yield Receive(parties[at], SensitiveValues)
            if not 1 <= told.labels <= n_records or not 0 <= told.bounded <= told.labels:
                raise PeerBrokeProtocol(parties[at], f"told of {told.labels} values for {n_records} records")
        checks.append(Check(part, at, asking, least_size(part, contract.parts), told.labels, told.bounded))
        own.append(labels)
    pairs: dict[tuple[int, int], Pair] = {}
    wanted = {(each.holder, asker) for each in checks for asker in each.asking if me in (each.holder, asker)}
    for at, asker in sorted(wanted):
        pairs[at, asker] = yield from prepare_pair(
            int(me == asker), (parties[at], parties[asker]), contract.hash
        )
    least = {
        name: max(least_size(part, contract.parts) for part in remote if name in part.qid)
        for name in {name for part in remote for name in part.qid}
    }
    return RemoteChecks(me, contract, tuple(checks), tuple(own), pairs, n_records, least)


@dataclass
class RemoteChecks:
    """One party's side of all checks; `prepare_checks` makes it."""

    me: int
    contract: Contract
    checks: tuple[Check, ...]
    own: tuple[Labels | None, ...]  # this party's sensitive values, where it is the holder
    pairs: dict[tuple[int, int], Pair]  # by holder, which garbles, and asker
    n_records: int
    least: Mapping[str, int]  # records of a group, by the attributes whose splits may be refused
    withdrawn: Counter[str] = field(default_factory=Counter)  # candidates, by party

    @property
    def histograms_by(self) -> tuple[BackEnd, ...]:
        """Return the back ends that our checks used for joint histograms."""
        return tuple(sorted(set[BackEnd]().union(*(pair.histograms_by for pair in self.pairs.values()))))

    def ask(self, instruction: Instruction, state: PublicState) -> Script[bool]:
        """Return whether our instruction, which passes all tests we can make alone, also passes the others."""
        valid = True
        for check in self.checks:
            if self.me in check.asking:
                labels = self._groups(check, instruction, state)
                answer = yield from self._judged(check, self.me, labels)
                valid = valid and answer
        return valid

    def instructs(self, winner: int, state: PublicState) -> Script[bool]:
        """Answer the winner's checks of attributes that we hold. Return whether it instructs, and may."""
        name, allowed = self.contract.parties[winner], True
        for check, labels in zip(self.checks, self.own, strict=True):
            if labels is not None and winner in check.asking:
                answer = yield from self._judged(check, winner, labels)
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
            (self.n_records if rows is None else rows.size) >= 2 * least
            for attribute, least in self.least.items()
            if attribute in held
            for rows in state.carriers[attribute].values()
        )
        if self.withdrawn[name] > most:
            raise PeerBrokeProtocol(
                name, f"withdrew {self.withdrawn[name]} candidates, and its cut has {most} values to split"
            )

    def _groups(self, check: Check, instruction: Instruction, state: PublicState) -> Labels:
        """Return each record's group after the instruction; records that it does not touch count nowhere."""
        nowhere = check.bounds(self.n_records).labels[1]
        labels: Labels = np.full(self.n_records, nowhere, np.uint64)
        if instruction.attribute in check.part.qid:
            partition = next(each for each in state.partitions if {*each.qid} == {*check.part.qid})
            carriers = state.carriers[instruction.attribute][instruction.value]
            groups, found = renumber(*partition.keys(carriers, instruction))
            if found.size > nowhere:
                raise Bug("a split makes more groups than their size allows")
            labels[slice(None) if carriers is None else carriers] = groups
        return labels

    def _whole(self, check: Check, labels: Labels) -> dict[str, Bits]:
        """Return the counts of the whole table, as the holder's input of a requirement that compares with them."""
        if self.me != check.holder or not check.part.compares_with_whole:
            return {}
        counts = value_counts(labels.astype(np.int64), check.n_values)
        return {"whole": to_bits(counts, self.n_records.bit_length()).T.ravel()}

    def _judged(self, check: Check, winner: int, labels: Labels) -> Script[bool]:
        return (
            yield from rows_satisfy(
                self.pairs[check.holder, winner],
                labels,
                partial(check.circuit, self.n_records),
                check.bounds(self.n_records),
                grouped_by=1,
                own=self._whole(check, labels),
            )
        )


def labelled_values(part: GroupRequirement, coded: Coded) -> tuple[Labels, SensitiveValues]:
    """Encode the holder's values as labels, those that the requirement bounds first; all others share one label."""
    codes, present = renumber(coded.codes, len(coded.labels))
    names = [coded.labels[code] for code in present]
    if part.values is None:
        return codes.astype(np.uint64), SensitiveValues(len(names), len(names))
    bounded = [number for number, name in enumerate(names) if name in part.values]
    label = np.full(len(names), len(bounded), np.uint64)
    label[bounded] = np.arange(len(bounded), dtype=np.uint64)
    rest = len(names) > len(bounded)
    return label[codes], SensitiveValues(len(bounded) + int(rest), len(bounded))
