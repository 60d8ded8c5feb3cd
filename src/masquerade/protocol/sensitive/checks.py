"""Requirements on another party's sensitive attribute, prepared so that a circuit can judge groups by shared counts.

The holder of the attribute tells those who may have to ask how many labels its values have, and they tell it into how
many parts they may split a group. Each of them and the holder then set up a pair. The holder garbles, and
so decides what is asked; it sends the rows that are counted, so that the asker decides no more than in which part a
record is (split counts, below), and has the asker prove that what is judged are these counts (`verdict.py`). What is
asked about, and what comes out, is up to the method: remote checks below (top-down specialization) and
`protocol/mondrian/checks.py` (Mondrian).

    who                    learns
    who may have to ask    once: how many different sensitive values the common records have (of those that the
                           requirement lists, where it lists some)
    holder                 once, of each who may have to ask: the most children that a value has in its taxonomies,
                           rounded up to a power of two, and 4 at least; a number without taxonomy has two

Groups are public, so an asker hides only the part within its group. Each group takes as many rows as its size allows
parts, and no more than that number: from what travels, the holder cannot tell along which attribute or into how many
parts a refused split goes.

Cost, for n records, Q sensitive values and C parts at most: a split takes ⌈log₂ C⌉ transfers a record, 36 bytes each
but 4 for the first, and 2·Q + 8 (or 4·Q + 8) bytes more, n·C·Q words of AES on each side, and a circuit of some 4·w·Q
ANDs for each row, with w the digits of the largest group's size; of 2·w·Q for distinct values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import PublicState, QidGroups, Split
from masquerade.crypto import Bits, Circuit, PartReceiver, Rows, ValueSender, sized, to_bits, tree_batches
from masquerade.data import Coded, Column, Taxonomy
from masquerade.engine import Counts, Flags, renumber, value_counts
from masquerade.errors import Bug, PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import REQUIREMENTS, GroupRequirement, SharedRow
from masquerade.protocol.contract import Contract
from masquerade.protocol.pairs import BackEnd, Pair, prepare_pair, received
from masquerade.protocol.sensitive.verdict import SharedRows, blocks_satisfy

# --- remote sensitive ---------------------------------------------------------------------------------------
# Requirements whose sensitive attribute is at another party than some attribute of their QID: which can be checked.
#
# What is checked secretly is a histogram of groups and sensitive values (protocol/sensitive/checks.py), by
# the circuit that the model declares. Its rows are bounded by the size that every group has anyway, so the
# model, or a k over the same attributes, must ask for one.


def remote_qid(part: GroupRequirement, holder: Mapping[str, str]) -> tuple[str, ...]:
    """Return the QID attributes held by another party than the sensitive attribute; `holder` is by column."""
    if part.sensitive is None or part.sensitive not in holder:
        return ()
    where = holder[part.sensitive]
    return tuple(sorted({name for name in part.qid if holder.get(name) != where}))


def least_size(part: GroupRequirement, parts: Sequence[GroupRequirement]) -> int:
    """Return the least size of a group of the part's QID, once all parts hold."""
    over = (each.implied_size for each in parts if each.only_sizes and set(each.qid) >= set(part.qid))
    return max(part.implied_size, *over, 1)


def refuse_remote_sensitive(parts: Sequence[GroupRequirement], holder: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return index and reason of requirements that need another party's sensitive values and have no secure check.

    Judging one openly would show a party a finer partition than the release has whenever the answer is no.
    """
    refused = []
    for at, part in enumerate(parts):
        remote = remote_qid(part, holder)
        if not remote or part.sensitive is None:
            continue
        where = holder[part.sensitive]
        over = f"{part.model} on {part.sensitive}, which {where} holds, over {', '.join(remote)} of other parties"
        if not part.has_circuit:
            models = ", ".join(each for each in REQUIREMENTS.declaring("circuit") if each != part.model)
            reason = "needs a secure check that this version does not have; "
            reason += f"use a QID of {where}'s own attributes, or one of {models}"
        elif least_size(part, parts) < 2:
            reason = f"needs groups of at least two records; add k-anonymity over {', '.join(part.qid)}"
        else:
            continue
        refused.append((at, f"{over} {reason}"))
    return refused


# --- sensitive checks ---------------------------------------------------------------------------------------

Labels = NDArray[np.uint64]


class SensitiveValues(Message, tag="sensitive-values", frozen=True):
    """The number of labels of the holder's values in a check; the requirement bounds the first `bounded` of them."""

    labels: int
    bounded: int


class MostParts(Message, tag="most-parts", frozen=True):
    """Into how many parts the sender may split a group, at most."""

    parts: int


@dataclass(frozen=True)
class Check:
    """One requirement, its holder, and the parties that have to ask it."""

    part: GroupRequirement
    holder: int
    asking: frozenset[int]
    least: int  # records of a group that is not empty
    n_values: int
    n_bounded: int

    def circuit(self, n_records: int, width: int, least: int) -> Circuit:
        """Return the test of one group, whose counts have `width` binary digits; one below `least` is refused."""
        return _circuit(self.part, SharedRow(self.n_values, self.n_bounded, n_records, width), least)


@lru_cache(maxsize=64)
def _circuit(part: GroupRequirement, row: SharedRow, least: int) -> Circuit:
    return sized(part.circuit(row), row.width, least, tells=True)


@dataclass
class SensitiveChecks:
    """One party's side of all checks; `prepare_checks` makes it."""

    me: int
    contract: Contract
    checks: tuple[Check, ...]  # those in which this party has a part
    own: tuple[Labels | None, ...]  # this party's sensitive values, where it is the holder
    pairs: dict[tuple[int, int], Pair]  # by holder, which garbles, and asker
    n_records: int
    most_parts: dict[int, int]  # of a group that an asker splits, by asker

    @property
    def histograms_by(self) -> tuple[BackEnd, ...]:
        """Return the back ends that our checks used for joint histograms."""
        return tuple(sorted(set[BackEnd]().union(*(pair.histograms_by for pair in self.pairs.values()))))

    def _whole(self, check: Check, labels: Labels) -> dict[str, Bits]:
        """Return the counts of the whole table, as the holder's input of a requirement that compares with them."""
        if self.me != check.holder or not check.part.compares_with_whole:
            return {}
        counts = value_counts(labels.astype(np.int64), check.n_values)
        return {"whole": to_bits(counts, self.n_records.bit_length()).T.ravel()}

    def _parts_satisfy(
        self, at: int, asker: int, groups: PublicGroups, parts: Labels | None, least: int, blocks: Sequence[int]
    ) -> Script[Flags]:
        """Return of which blocks of neighbouring rows all satisfy a check; the asker gives each record's part.

        `least` is the size below which a part is refused in any case.
        """
        if parts is not None and (parts < groups.most)[parts >= np.repeat(groups.n_parts, groups.sizes)].any():
            raise Bug("a split makes more parts of a group than its size allows")
        check, own = self.checks[at], self.own[at]
        values = own[groups.rows] if own is not None else None
        rows = yield from split_rows(self.pairs[check.holder, asker], groups, check.n_values, values, parts)
        judge = check.circuit(self.n_records, groups.width, least)
        whole = self._whole(check, own) if own is not None else {}
        return (yield from blocks_satisfy(self.pairs[check.holder, asker], rows, judge, blocks, whole))


Checks = TypeVar("Checks", bound=SensitiveChecks)


def most_children(columns: Iterable[Column]) -> int:
    """Return the most children that a value of these columns has, rounded up to a power of two, and 4 at least."""
    trees = [column.domain for column in columns if isinstance(column.domain, Taxonomy)]
    most = max((len(node.children) for tree in trees for node in tree), default=2)
    return max(4, 1 << (most - 1).bit_length())


def prepare_checks(
    kind: type[Checks],
    me: int,
    contract: Contract,
    sensitive: dict[str, Coded],
    columns: Iterable[Column],
    n_records: int,
) -> Script[Checks | None]:
    """Agree on all checks of a session, and set up the pairs that make them; return None when none is needed.

    `columns` are our own ones of the QIDs.
    """
    parties = contract.parties
    holder = contract.holders
    remote = remote_parts(contract)
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
    most_parts = yield from _exchange_parts(me, parties, checks, columns, n_records)
    pairs: dict[tuple[int, int], Pair] = {}
    wanted = {(each.holder, asker) for each in checks for asker in each.asking if me in (each.holder, asker)}
    for at, asker in sorted(wanted):
        pairs[at, asker] = yield from prepare_pair(int(me == asker), (parties[at], parties[asker]), contract.hash)
    return kind(me, contract, tuple(checks), tuple(own), pairs, n_records, most_parts)


def _exchange_parts(
    me: int, parties: Sequence[str], checks: Sequence[Check], columns: Iterable[Column], n_records: int
) -> Script[dict[int, int]]:
    """Tell holders into how many parts we may split a group, and hear it of those who ask us."""
    found: dict[int, int] = {}
    holders = sorted({check.holder for check in checks if me in check.asking})
    if holders:
        found[me] = most_children(columns)
        yield Send(tuple(parties[number] for number in holders), MostParts(found[me]))
    for asker in sorted({asker for check in checks if check.holder == me for asker in check.asking}):
        told = yield Receive(parties[asker], MostParts)
        if not 2 <= told.parts <= max(4, 2 * n_records):
            raise PeerBrokeProtocol(parties[asker], f"may split a group of {n_records} into {told.parts} parts")
        found[asker] = told.parts
    return found


def remote_parts(contract: Contract) -> list[GroupRequirement]:
    """Return the requirements on a sensitive attribute that another party holds than some attribute of their QID."""
    return [part for part in contract.parts if remote_qid(part, contract.holders)]


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


# --- remote checks ------------------------------------------------------------------------------------------
# Test whether a split satisfies a requirement on another party's sensitive attribute, revealing one bit only.
#
# Before the winner of a round instructs, it and the holder of each such attribute obtain shares of the joint histogram
# of the groups that the split would make and the sensitive values, and a circuit says whether every group satisfies
# (`checks.py`). When one does not, the winner withdraws its candidate and never offers it again.
#
# A winner may lie about its groups, so the circuit itself adds up each one, and refuses what is neither empty nor as
# large as the contract's requirements make every group (`least_size`): what is asked about fewer people is answered no,
# whatever they have; and it can add nobody who is not there (`verdict.py`). The holder garbles, and so decides what is
# asked; it and all others count the withdrawals. A withdrawn value stays in the cut for good, and splits into groups of
# that size: an honest party withdraws at most once for each value of its cut that twice as many records carry, and who
# withdraws more often is named.
#
#  who                    learns
#  winner and holder      whether the winner's candidate satisfies the requirement: one bit
#  everyone               that the winner withdraws, or else its instruction; of plain scores, those of who withdraws
#  who may have to ask    once: how many different sensitive values there are (`checks.py`)
#
# The winner asks whenever it holds any attribute of the requirement's QID, also when its candidate is of another one:
# then no record counts. All groups of that QID take part, each with ⌊g / s⌋ rows for g records, with s the size that
# every group has anyway, and no more than the winner may split a group into. So the holder cannot tell from what
# travels which attribute, how many children or how many carriers a refused candidate has. Cost: see `checks.py`.


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

    def _judged(self, at: int, winner: int, state: PublicState, instruction: Split | None = None) -> Script[bool]:
        """Return whether all groups that the winner's instruction would make satisfy; only the winner has it."""
        check = self.checks[at]
        partition = next(each for each in state.partitions if {*each.qid} == {*check.part.qid})
        filled = partition.sizes > 0
        sizes = partition.sizes[filled]
        groups = PublicGroups(partition.rows_by_group(), sizes, sizes // check.least, self.most_parts[winner])
        parts = self._parts(groups, partition, instruction) if instruction is not None else None
        everything = [int(groups.n_parts.sum())]
        (good,) = yield from self._parts_satisfy(at, winner, groups, parts, check.least, everything)
        return bool(good)

    def _parts(self, groups: PublicGroups, partition: QidGroups, instruction: Split) -> Labels:
        """Return each record's part of its group, group by group; records that we do not touch count nowhere."""
        parts: Labels = np.full(self.n_records, groups.most, np.uint64)
        if instruction.attribute in partition.qid:
            carriers, keys, bound = partition.split_keys(instruction)
            numbers, found = renumber(keys, bound)
            group = found // instruction.n_children
            part = np.arange(found.size) - np.searchsorted(group, group)
            parts[carriers] = part[numbers]
        return parts[groups.rows]


# --- split counts -------------------------------------------------------------------------------------------
# Shares of how often each value occurs in each part of public groups: the holder has the values, the asker the parts.
#
# Both know the groups, so that only the part within each group is hidden (crypto/split_counts.py). The asker chooses it
# by transfers: it has no way to count somebody twice, or anybody who is not there.
#
#    who      sends                                                       for each record
#    asker    its parts, hidden in transfers                   4 bytes a digit of a part
#    holder   trees, and a masked row of words, one a value    32 bytes a digit but the first; 8 and the row
#
# Who learns what: nothing here; the shares of the counts are for circuits (`verdict.py`).


class PartsHidden(Message, tag="parts-ask", frozen=True):
    """The parts of some records of the groups that are split, hidden in transfers."""

    columns: bytes


class ValueRows(Message, tag="parts-rows", frozen=True):
    """All but one leaf of the tree of each of these records, and their masked rows."""

    trees: bytes
    rows: bytes


@dataclass(frozen=True, eq=False)
class PublicGroups:
    """Public groups of records, one after the other; each may be split into so many parts, and no more than `most`.

    A record of which a part of `most` is told counts nowhere; only where the groups are not `whole` there are any.
    """

    rows: Rows
    sizes: Counts  # none is 0
    allowed: Counts
    most: int
    whole: bool = False

    @property
    def n_parts(self) -> Counts:
        """Return the rows of counts that each group takes."""
        return np.minimum(np.maximum(self.allowed, 1), self.most)

    @property
    def leaves(self) -> int:
        """Return the leaves of a record's tree: a power of two, as the tree must be whole."""
        needed = int(self.n_parts.max()) + (not self.whole)
        return max(2, 1 << (needed - 1).bit_length())

    @property
    def width(self) -> int:
        """Return the binary digits of a count."""
        return int(self.sizes.max()).bit_length()


def split_rows(
    pair: Pair, groups: PublicGroups, n_values: int, values: Labels | None, parts: Labels | None
) -> Script[SharedRows]:
    """Return this party's share of all parts' counts; the holder has the groups' values, the asker their parts."""
    pair.histograms_by.add("transfers")
    session, leaves, weights = pair.fresh(b"split-counts"), groups.leaves, None
    if values is not None:
        sending = ValueSender(session, pair.sender, n_values, groups.sizes, leaves)
        for part in tree_batches(values.size, leaves):
            sent = yield from received(pair.peer, PartsHidden, sending.answer, values[part])
            yield Send((pair.peer,), ValueRows(*sent))
        weights = sending.weights
        counts, tags = sending.share()
    else:
        assert parts is not None  # at who asks
        chosen = np.minimum(parts, np.uint64(leaves - 1))  # what counts nowhere is at a leaf that is no row
        receiving = PartReceiver(session, pair.receiver, n_values, groups.sizes, leaves)
        for part in tree_batches(chosen.size, leaves):
            yield Send((pair.peer,), PartsHidden(receiving.ask(chosen[part])))
            yield from received(pair.peer, ValueRows, receiving.receive)
        counts, tags = receiving.share()
    used = np.arange(leaves) < groups.n_parts[:, None]
    return SharedRows(counts[used], tags[used], weights)
