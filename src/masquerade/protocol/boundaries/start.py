"""Where a method between parties starts that keeps to boundaries: every value as general as is allowed.

The records that cannot be released are out by then (`reachable.py`), so that all groups satisfy. Each party tells the
others, of each of its bounded attributes, which of the remaining records have the same most general allowed value.

    who        learns
    everyone   of each remaining record the number of that value, not its name: for its own people, cells that are those
               of the release or more general

Cost: one message of about entropy bits a record from each holder of bounded attributes to n − 1 peers. Everybody checks
that the groups satisfy what it can judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from masquerade.anonymize.boundaries import boundary_codes
from masquerade.anonymize.instruction import Instruction, child_numbers
from masquerade.engine.counts import Counts, value_counts, which_occur
from masquerade.engine.numbering import group_rows, renumber
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.boundaries.reachable import reachable_records
from masquerade.protocol.common_records import CommonRecords
from masquerade.protocol.contract import Contract
from masquerade.protocol.instruction_code import pack, unpack


class StartValues(Message, tag="start-values", frozen=True):
    """The sender's bounded attributes, in the joint order: how many most general values occur, and each record's."""

    counts: tuple[int, ...]
    values: tuple[bytes, ...]


@dataclass(frozen=True)
class Start:
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
) -> Script[tuple[CommonRecords, Start]]:
    """Return the records that can be released, and where they start; without boundaries all, at the top."""
    if not contract.bounded:
        return common, Start()
    on_stage(Stage("testing the boundaries"))
    rows = yield from reachable_records(name, contract, common, on_stage, whole_columns=whole_columns)
    left = common.only(rows)
    start = yield from _exchanged(name, contract, left, whole_columns=whole_columns)
    _check(name, contract, left, start)
    return left, start


def _exchanged(name: str, contract: Contract, left: CommonRecords, *, whole_columns: bool) -> Script[Start]:
    holder = {column.name: column.holder for column in contract.columns}
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
    return Start({each: found[each] for each in contract.bounded})


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


def _check(name: str, contract: Contract, left: CommonRecords, start: Start) -> None:
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
