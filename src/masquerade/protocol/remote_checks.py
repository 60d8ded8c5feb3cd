"""Test whether a split satisfies a requirement on another party's sensitive attribute, revealing one bit only.

Before the winner of a round instructs, it and the holder of each such attribute obtain shares of the joint histogram of
the groups that the split would make and the sensitive values, and a circuit says whether every group satisfies
(protocol/joint_histogram*). When one does not, the winner withdraws its candidate and never offers it again.

    who                    learns
    winner and holder      whether the winner's candidate satisfies the requirement: one bit
    everyone               that the winner withdraws, or else its instruction; of plain scores, those of who withdraws
    who may have to ask    once: how many different sensitive values the common records have (of those that the
                           requirement lists, where it lists some)

The winner asks whenever it holds any attribute of the requirement's QID, also when its candidate is of another one:
then no record counts. Rows are padded to ⌊n / s⌋, with s the size that every group has anyway. So the holder cannot
tell from what travels which attribute, how many children or how many carriers a refused candidate has.

Cost of a check, for n records, P = ⌊n / s⌋ and Q sensitive values: n·P·Q words of AES on each side (or n·Q / 30
encryptions, where that is cheaper: `joint_histogram/`), and a circuit of some 3·w·P·Q ANDs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.instruction import Instruction
from masquerade.anonymize.public_state import PublicState
from masquerade.crypto.circuit import Circuit
from masquerade.data.column import Coded
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
    n_groups: int  # rows of the histogram
    n_values: int
    n_bounded: int

    def circuit(self, n_records: int, width: int, together: int = 1) -> Circuit:
        """Build the test of one group, whose counts have `width` binary digits; `together` counts share one number."""
        return self.part.circuit(SharedRow(self.n_values, self.n_bounded, n_records, width, together))


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
            labels, told = _labelled(part, sensitive[part.sensitive])
            yield Send(tuple(parties[number] for number in sorted(asking)), told)
        elif me not in asking:
            continue
        else:
            told = yield Receive(parties[at], SensitiveValues)
            if not 1 <= told.labels <= n_records or not 0 <= told.bounded <= told.labels:
                raise PeerBrokeProtocol(parties[at], f"told of {told.labels} values for {n_records} records")
        n_groups = n_records // least_size(part, contract.parts)
        checks.append(Check(part, at, asking, max(1, n_groups), told.labels, told.bounded))
        own.append(labels)
    pairs: dict[int, Pair] = {}
    peers = set[int]().union(*(each.asking if each.holder == me else {each.holder} for each in checks))
    for peer in sorted(peers):
        names = parties[min(me, peer)], parties[max(me, peer)]
        pairs[peer] = yield from prepare_pair(int(me > peer), names, contract.hash)
    return RemoteChecks(me, tuple(checks), tuple(own), pairs, n_records)


@dataclass
class RemoteChecks:
    """One party's side of all checks; `prepare_checks` makes it."""

    me: int
    checks: tuple[Check, ...]
    own: tuple[Labels | None, ...]  # this party's sensitive values, where it is the holder
    pairs: dict[int, Pair]
    n_records: int

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
                answer = yield from self._judged(check, self.me, check.holder, labels)
                valid = valid and answer
        return valid

    def answer(self, winner: int) -> Script[None]:
        """Answer the winner's checks of attributes that we hold."""
        for check, labels in zip(self.checks, self.own, strict=True):
            if labels is not None and winner in check.asking:
                yield from self._judged(check, winner, winner, labels)

    def _groups(self, check: Check, instruction: Instruction, state: PublicState) -> Labels:
        """Return each record's group after the instruction; records that it does not touch count nowhere."""
        nowhere = check.n_groups
        labels: Labels = np.full(self.n_records, nowhere, np.uint64)
        if instruction.attribute in check.part.qid:
            partition = next(each for each in state.partitions if {*each.qid} == {*check.part.qid})
            carriers = state.carriers[instruction.attribute][instruction.value]
            groups, found = renumber(*partition.keys(carriers, instruction))
            if found.size > nowhere:
                raise Bug("a split makes more groups than their size allows")
            labels[slice(None) if carriers is None else carriers] = groups
        return labels

    def _judged(self, check: Check, winner: int, peer: int, labels: Labels) -> Script[bool]:
        first = winner < check.holder  # of the pair
        sides = (check.n_groups, check.n_values) if first else (check.n_values, check.n_groups)
        bounds = Bounds(self.n_records, sides)
        return (
            yield from rows_satisfy(
                self.pairs[peer],
                labels,
                partial(check.circuit, self.n_records),
                bounds,
                grouped_by=0 if first else 1,
            )
        )


def _labelled(part: GroupRequirement, coded: Coded) -> tuple[Labels, SensitiveValues]:
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
