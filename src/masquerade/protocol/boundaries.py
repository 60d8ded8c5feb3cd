"""Find the records that can be released within the boundaries, where these are several parties' attributes.

With every value at its boundary, the records of a group that violates a requirement cannot be released by cutting
groups or generalising columns (`anonymize/preparation.py`; for k-anonymity they are OUT). The groups are over all
parties' attributes, and nobody may see one before it is known to satisfy. So those who hold what decides
(`boundaries.py`) find out under sharing, by the tests of DkA (`protocol/dka/`): the joint histogram between two,
sorting among more. They open one bit a record, whether it stays, and tell the others. Where one party alone decides,
it does so without a test.

With one QID that is all. With several, records that leave are missing in the groups of the other QIDs, and where a
requirement compares with all records (t-closeness) in these: all are tested again, until nobody has to leave, as on one
table. Who is left is known to everybody, so the holder of the values knows what to compare with.

    who        learns
    everyone   of each common record, and so of its own people, whether it can be released; with several QIDs, or
               t-closeness, also in which round it left. For k: whether fewer than k share its values at the boundaries
    testers    once, for t-closeness in each round: how many different values of a sensitive attribute are left; and
               how many most general values the taxonomies of each other's bounded attributes allow

The bit does not follow from the release, which names nobody; a party cannot hand in its cells of the released records
without it. It is what DkA opens (χ). Number of own groups and their sizes stay hidden: labels are padded to what the
taxonomies allow whatever the records, and to ⌊n / k⌋ at most.
A tester that lies about its groups learns about others than its own; what it then starts from (`boundaries.py`) is
checked by everybody. Cost: as one round of DkA.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from masquerade.anonymize import Instruction, boundary_codes, child_numbers, reachable_rows, start_groups
from masquerade.crypto import Bits
from masquerade.data import Column, Taxonomy
from masquerade.engine import Counts, Rows, group_rows, renumber, value_counts, which_occur
from masquerade.errors import PeerBrokeProtocol, Problem, RequirementUnreachable
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import Conjunction, GroupRequirement
from masquerade.progress import OnStage, Stage
from masquerade.protocol.common_records import CommonRecords
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.anonymizers import Labels, labels_of, most_groups
from masquerade.protocol.dka.checks import joint_tests, prepare_sensitive_tests, prepare_tests
from masquerade.protocol.dka.side import JointTests, open_shares
from masquerade.protocol.method import Proposal
from masquerade.protocol.pairs import Pair
from masquerade.protocol.providers.shared_counts import SharedBits
from masquerade.protocol.tds.instruction_code import pack, unpack

# --- testers ------------------------------------------------------------------------------------------------
# Who finds out which records can be released within the boundaries, and what they cannot test.


def testers(
    parties: Sequence[str], holder: Mapping[str, str], parts: Sequence[GroupRequirement], bounded: Collection[str]
) -> tuple[str, ...]:
    """Return the holders of bounded attributes, and of the sensitive ones, in the order of the contract.

    The others have nothing that decides: at the boundaries all their values are one.
    """
    deciding = {holder[name] for part in parts for name in part.qid if name in bounded}
    deciding |= {holder[part.sensitive] for part in parts if part.sensitive in holder and part.sensitive}
    return tuple(name for name in parties if name in deciding)


def untestable_within(proposal: Proposal) -> Iterator[Problem]:
    """Yield the requirements that several parties cannot test on the groups at their boundaries."""
    holder, parts = proposal.holder, proposal.parts
    bounded = {name for part in parts for name in part.qid if name in proposal.boundaries}
    if holder is None or not bounded <= {*holder}:
        return
    if not bounded or len(testers(sorted({*holder.values()}), holder, parts, bounded)) < 2:
        return
    for at, part in enumerate(parts):
        if part.only_sizes:
            continue
        least = max(each.implied_size for each in parts if {*each.qid} == {*part.qid})
        if not part.has_circuit:
            why = "it cannot be tested on shared counts"
        elif least < 2:
            why = "that needs groups of at least two records: add k-anonymity over the same QID"
        elif part.sensitive not in holder:
            why = f"that needs a sensitive column of one party, and nobody contributes {part.sensitive}"
        else:
            continue
        text = f"which records {part.model} leaves within boundaries of several parties' attributes is not known: {why}"
        yield Problem(f"{text}; leave the boundaries out", key=("privacy", at))


# --- reachable ----------------------------------------------------------------------------------------------


class Reachable(Message, tag="reachable", frozen=True):
    """Of each common record whether it can be released within the boundaries."""

    bits: bytes


class MostGroups(Message, tag="most-groups", frozen=True):
    """For each QID how many groups the sender can have at its boundaries, whatever the records."""

    most: tuple[int, ...]


def reachable_records(
    name: str, contract: Contract, common: CommonRecords, on_stage: OnStage, *, whole_columns: bool
) -> Script[Rows]:
    """Return the common records that can be released; raise `RequirementUnreachable` if there are none."""
    holder = contract.holders
    deciding = testers(contract.parties, holder, contract.parts, contract.bounded)
    others = tuple(each for each in contract.parties if each not in deciding)
    n_records = len(common.own)
    if name in deciding:
        columns = [common.own.column(each) for each in contract.bounded if holder[each] == name]
        if len(deciding) == 1:
            rows = reachable_rows(contract.parts, columns, common.sensitive, n_records, whole_columns=whole_columns)
        else:
            test = _Test(name, deciding, contract, common, columns, whole_columns)
            rows = yield from test.reachable(on_stage)
        stays = np.zeros(n_records, np.uint8)
        stays[rows] = 1
        if others:
            yield Send(others, Reachable(np.packbits(stays).tobytes()))
    else:
        rows = yield from _told(deciding, n_records)
    if not rows.size:
        raise RequirementUnreachable(
            f"{Conjunction(contract.parts)} cannot be reached within max_generalization and max_width: every common "
            "record is in a group that violates even at them; allow more, or ask for less",
            violated=tuple(map(str, contract.parts)),
        )
    return rows


def _told(deciding: Sequence[str], n_records: int) -> Script[Rows]:
    """Return what those who decide tell, who must all tell the same."""
    heard: dict[str, bytes] = {}
    for each in deciding:
        message = yield Receive(each, Reachable)
        if len(message.bits) != -(-n_records // 8):
            raise PeerBrokeProtocol(each, f"told of other records than the {n_records} in common")
        heard[each] = message.bits
    if len(set(heard.values())) > 1:
        raise PeerBrokeProtocol("", f"{' or '.join(heard)} told of other records that can be released than was found")
    bits = np.unpackbits(np.frombuffer(heard[deciding[0]], np.uint8), count=n_records)
    return np.flatnonzero(bits)


@dataclass(frozen=True)
class BoundaryGroups:
    """A party's own groups over one QID with every value at its boundary, as the joint tests look at them."""

    own: Counts
    n_groups: int
    k: int
    bound: int
    left: Rows

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, numbered from 0."""
        return group_rows([(self.own.take(rows), self.n_groups)], rows.size)

    def labels(self) -> Labels:
        """Return the groups of the records that are left; those that are too small have no label of their own."""
        return labels_of(self, self.left, self.k, self.bound)


@dataclass(frozen=True)
class _Test:
    name: str
    deciding: Sequence[str]
    contract: Contract
    common: CommonRecords
    columns: Sequence[Column]  # this party's bounded ones
    whole_columns: bool

    @cached_property
    def by_qid(self) -> dict[frozenset[str], list[GroupRequirement]]:
        found: dict[frozenset[str], list[GroupRequirement]] = {}
        for part in self.contract.parts:
            found.setdefault(frozenset(part.qid), []).append(part)
        return found

    def reachable(self, on_stage: OnStage) -> Script[Rows]:
        """Test all requirements at once, and again where those who leave change the groups or the whole of others."""
        me = self.deciding.index(self.name)
        tested, _ = yield from prepare_tests(me, self.deciding, b"boundaries\0" + self.contract.hash)
        most = yield from self._agree_on_bounds()
        sides = [
            self._groups(qid, parts, each[me]) for (qid, parts), each in zip(self.by_qid.items(), most, strict=True)
        ]
        compared = any(part.compares_with_whole for part in self.contract.parts)
        left: Rows = np.arange(len(self.common.own))
        judges: list[JointTests] = []
        while left.size >= max(side.k for side in sides):
            if not judges or compared:  # of those who are left, fewer values may occur
                judges = yield from self._judges(tested, most, left)
            verdicts: list[Bits] = []
            for side, tests in zip(sides, judges, strict=True):
                if side.k > 1:  # otherwise every group satisfies
                    verdicts.append((yield from tests.good_groups(replace(side, left=left), on_stage)))
            if not verdicts:
                return left
            share = yield from judges[0].all_set(np.stack(verdicts))
            stays = (yield from open_shares(judges[0].peers, share)).astype(bool)
            left = left[stays]
            if (len(sides) == 1 and not compared) or stays.all():
                return left
        return left[:0]

    def _groups(self, qid: frozenset[str], parts: Sequence[GroupRequirement], bound: int) -> BoundaryGroups:
        n_records, k = len(self.common.own), max(part.implied_size for part in parts)
        columns = [column for column in self.columns if column.name in qid]
        own, n_groups = start_groups(columns, n_records, whole_columns=self.whole_columns)
        return BoundaryGroups(own, n_groups, k, bound, np.arange(n_records))

    def _agree_on_bounds(self) -> Script[list[tuple[int, ...]]]:
        """Return, for each QID, how many groups each tester has at most."""
        n_records = len(self.common.own)
        largest = [most_groups(n_records, max(part.implied_size for part in parts)) for parts in self.by_qid.values()]
        own = tuple(
            min(most, self._values_at_boundaries(qid) or most) for qid, most in zip(self.by_qid, largest, strict=True)
        )
        yield Send(tuple(each for each in self.deciding if each != self.name), MostGroups(own))
        found = []
        for each in self.deciding:
            told = own
            if each != self.name:
                told = (yield Receive(each, MostGroups)).most
                if len(told) != len(own) or not all(
                    1 <= count <= most for count, most in zip(told, largest, strict=True)
                ):
                    raise PeerBrokeProtocol(each, f"told of {told} groups; at most {largest} are possible")
            found.append(told)
        return [*zip(*found, strict=True)]

    def _values_at_boundaries(self, qid: frozenset[str]) -> int | None:
        """Return how many combinations of most general values the taxonomies allow; None where the records decide."""
        found = 1
        for name in (column.name for column in self.columns if column.name in qid):
            attribute = self.common.own.schema[name]
            if not isinstance(attribute.taxonomy, Taxonomy):
                return None
            boundary = attribute.boundary(attribute.taxonomy)
            assert boundary is not None
            found *= boundary.cut.size if self.whole_columns else boundary.size
            found += found * self.common.own.keeps_missing  # which would be a value of its own
        return found

    def _judges(
        self, tested: Pair | SharedBits, most: Sequence[tuple[int, ...]], left: Rows
    ) -> Script[list[JointTests]]:
        """Agree on the values that the remaining records have; return the tests of each QID."""
        me, n_records = self.deciding.index(self.name), len(self.common.own)
        own = self.common.own if left.size == n_records else self.common.own.take(left)
        judges: list[JointTests] = []
        for parts, bounds in zip(self.by_qid.values(), most, strict=True):
            found = yield from prepare_sensitive_tests(me, self.deciding, self.contract, parts, own)
            sensitive = tuple(test.of_rows(left, n_records) for test in found)
            judges.append(joint_tests(tested, sensitive, bounds))
        return judges


# --- start --------------------------------------------------------------------------------------------------
# Where a method between parties starts that keeps to boundaries: every value as general as is allowed.
#
# The records that cannot be released are out by then (`boundaries.py`), so that all groups satisfy. Each
# party tells the others, of each of its bounded attributes, which of the remaining records have the same
# most general allowed value.
#
#  who        learns
#  everyone   of each remaining record the number of that value, not its name: for its own people, cells that are those
#             of the release or more general
#
# Cost: one message of about entropy bits a record from each holder of bounded attributes to n − 1 peers.
# Everybody checks that the groups satisfy what it can judge.


class StartValues(Message, tag="start-values", frozen=True):
    """The sender's bounded attributes, in the joint order: how many most general values occur, and each record's."""

    counts: tuple[int, ...]
    values: tuple[bytes, ...]


@dataclass(frozen=True)
class BoundaryStart:
    """The number of each remaining record's most general allowed value, by bounded attribute, and how many occur."""

    values: Mapping[str, tuple[Counts, int]] = field(default_factory=dict)

    def groups(self, qid: frozenset[str], n_records: int) -> tuple[Counts, int]:
        """Return each record's group over a QID, and how many there are; without boundaries one."""
        return group_rows([each for name, each in self.values.items() if name in qid], n_records)

    def instructions(self) -> list[Instruction]:
        """Return what brings every attribute from its topmost value to the most general ones, in the joint order."""
        return [
            Instruction(name, 0, n_values, values.astype(child_numbers(n_values).dtype))
            for name, (values, n_values) in self.values.items()
        ]


def start_within_boundaries(
    name: str, contract: Contract, common: CommonRecords, on_stage: OnStage, *, whole_columns: bool
) -> Script[tuple[CommonRecords, BoundaryStart]]:
    """Return the records that can be released, and where they start; without boundaries all, at the top."""
    if not contract.bounded:
        return common, BoundaryStart()
    on_stage(Stage("testing the boundaries"))
    rows = yield from reachable_records(name, contract, common, on_stage, whole_columns=whole_columns)
    left = common.only(rows)
    start = yield from _exchanged(name, contract, left, whole_columns=whole_columns)
    _check(name, contract, left, start)
    return left, start


def _exchanged(name: str, contract: Contract, left: CommonRecords, *, whole_columns: bool) -> Script[BoundaryStart]:
    holder = contract.holders
    found: dict[str, tuple[Counts, int]] = {}
    own = [each for each in contract.bounded if holder[each] == name]
    for each in own:
        numbers, used = renumber(*boundary_codes(left.column(each), whole_columns=whole_columns))
        found[each] = numbers.astype(np.int64), int(used.size)
    if own:
        counts = tuple(found[each][1] for each in own)
        values = tuple(pack(found[each][0].astype(np.uint32), found[each][1]) for each in own)
        yield Send(tuple(party for party in contract.parties if party != name), StartValues(counts, values))
    for party in contract.parties:
        theirs = [each for each in contract.bounded if holder[each] == party]
        if party != name and theirs:
            message = yield Receive(party, StartValues)
            if not len(message.counts) == len(message.values) == len(theirs):
                raise PeerBrokeProtocol(party, f"starts with other attributes than {', '.join(theirs)}")
            for each, count, values in zip(theirs, message.counts, message.values, strict=True):
                found[each] = _understood(party, each, count, values, left.n_records), count
    return BoundaryStart({each: found[each] for each in contract.bounded})


def _understood(party: str, attribute: str, count: int, values: bytes, n_records: int) -> Counts:
    if not 1 <= count <= n_records:
        raise PeerBrokeProtocol(party, f"starts {n_records} records at {count} values of {attribute}")
    try:
        numbers = unpack(values, count, n_records).astype(np.int64)
    except ValueError as error:
        raise PeerBrokeProtocol(party, f"sent a broken start of {attribute}: {error}") from None
    if not which_occur(numbers, count).all():
        raise PeerBrokeProtocol(party, f"starts with a value of {attribute} that no record has")
    return numbers


def _check(name: str, contract: Contract, left: CommonRecords, start: BoundaryStart) -> None:
    """Raise unless the groups satisfy what this party can judge; which peer lies is known where there is but one."""
    for part in contract.parts:
        if not _holds(part, left, *start.groups(frozenset(part.qid), left.n_records)):
            peers = [each for each in contract.parties if each != name]
            who = peers[0] if len(peers) == 1 else ""
            text = "starts from groups that violate the requirement, other than were tested"
            raise PeerBrokeProtocol(who, text if who else f"one of {', '.join(peers)} {text}")


def _holds(part: GroupRequirement, left: CommonRecords, labels: Counts, n_groups: int) -> bool:
    sizes = value_counts(labels, n_groups)
    if int(sizes.min()) < part.implied_size:
        return False
    if part.sensitive is None:
        return bool(part.holds(sizes.reshape(-1, 1), np.array([[labels.size]]), ()).all())
    if part.sensitive not in left.sensitive:
        return True
    coded = left.sensitive[part.sensitive]
    return bool(part.holds(coded.histograms(labels, n_groups), coded.histogram(), coded.labels).all())
