"""What a party has released from which snapshot: a chained file beside the dataset, and the queries a policy makes.

A line is written **before** the peers see anything of the columns: what is not in the ledger has not left, and a
session that is broken off later counts as released. Each session that shows a release again has a line of its own. When
the client has declined what a session made, a further line says so: a release of which every session was declined was
shown to the peers and not released. An alignment has a line before its first message, and one for each peer's list
before anything is answered: it shows who is in the table, whatever comes after. A line without its end was not
finished, so its release never started: it does not count. What a peer calls the same snapshot need not be the same
table: a line of its own has a keyed digest of what a session on some terms settled, and every later one on these terms
must come to the same. The chain and the head beside it (`ledger.head`) reveal accidental damage, an edited line, or an
old copy put back. Anyone who may write the folder can forge both: the sealed audit log is the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from masquerade.audit import (
    RECOVERED,
    ChainCheck,
    ChainedFile,
    LineError,
    Record,
    head_path,
    read_head,
    read_line,
    reading,
)
from masquerade.errors import DataError, ParameterError, Problem, one_line
from masquerade.forms import convert
from masquerade.methods import product_of
from masquerade.protocol import Settled
from masquerade.service.agree.terms import Deal, Terms

_RELEASE, _DECLINED, _SETTLED, _ALIGNED, _SUBMITTED = "release", "declined", "settled", "aligned", "submitted"
# Of releases that are the same: another attempt is not another one
_Key = tuple[str, str, bytes, tuple[str, ...]]


class ReleaseRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release that a party has taken part in, or has begun to, or the roll-up of one (`terms.source`)."""

    dataset: str
    snapshot: str
    terms: Terms
    recipients: tuple[str, ...]
    time: int
    session: str = ""  # the session that showed it, as the coordinator calls it, and
    contract: str = ""  # the hash of the contract that it ran by


class Declined(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the session of this contract made was declined by its client: nobody was given it."""

    contract: str
    time: int


class SettledRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the first session on these terms settled (`Participant.settled`); only this party can make the digest."""

    terms: str  # their hash
    what: Settled
    digest: str
    time: int
    session: str = ""
    contract: str = ""


class Aligned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One alignment that a party has begun, which shows its peers who of their own people are in its table."""

    dataset: str
    snapshot: str
    peers: tuple[str, ...]
    identifiers: int  # of this party
    time: int
    session: str
    contract: str


class Submitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many identifiers a peer looked for in the alignment of this contract."""

    contract: str
    peer: str
    identifiers: int
    time: int


_Line = ReleaseRecord | Declined | SettledRecord | Aligned | Submitted | None


class Alignment(NamedTuple):
    """An alignment, and how many identifiers each peer submitted, as far as its list was heard of."""

    begun: Aligned
    submitted: Mapping[str, int]


@dataclass(frozen=True)
class Ledger:
    """All releases of a party, earliest first; what was shown to peers and not released, as it was declined."""

    records: tuple[ReleaseRecord, ...] = ()
    declined: tuple[ReleaseRecord, ...] = ()
    contracts: frozenset[str] = field(default=frozenset(), repr=False)  # by which any of them was shown
    settled: Mapping[tuple[str, Settled], str] = field(default_factory=dict, repr=False)  # by the terms' hash
    alignments: tuple[Alignment, ...] = ()

    @property
    def shown(self) -> tuple[ReleaseRecord, ...]:
        """Everything that peers have seen something of, released or not."""
        return (*self.records, *self.declined)

    def of_snapshot(self, dataset: str, snapshot: str) -> tuple[ReleaseRecord, ...]:
        """Return the releases from this snapshot."""
        return tuple(each for each in self.records if (each.dataset, each.snapshot) == (dataset, snapshot))

    def declined_of(self, dataset: str, snapshot: str) -> tuple[ReleaseRecord, ...]:
        """Return what was shown of this snapshot and then declined."""
        return tuple(each for each in self.declined if (each.dataset, each.snapshot) == (dataset, snapshot))

    def without(self, contract: str) -> Ledger:
        """Return the ledger as it is to a session of this contract: its own lines do not speak against it."""
        kept = (tuple(each for each in some if each.contract != contract) for some in (self.records, self.declined))
        alignments = tuple(each for each in self.alignments if each.begun.contract != contract)
        return replace(self, records=next(kept), declined=next(kept), alignments=alignments)

    def aligned_with(self, peer: str, dataset: str, since: int) -> tuple[int, int]:
        """Return how often a dataset was aligned with a peer after a time, and how many identifiers that submitted."""
        found = [
            each
            for each in self.alignments
            if each.begun.dataset == dataset and peer in each.begun.peers and each.begun.time > since
        ]
        return len(found), sum(each.submitted.get(peer, 0) for each in found)

    def last_of_others(self, dataset: str, snapshot: str) -> ReleaseRecord | None:
        """Return what was shown last of another snapshot of the dataset; a roll-up shows nothing of it anew."""
        of_dataset = (each for each in self.shown if each.dataset == dataset)
        others = [each for each in of_dataset if each.snapshot != snapshot and each.terms.source is None]
        return max(others, key=lambda each: each.time, default=None)

    def releases(self, dataset: str) -> int:
        """Count what was shown of a dataset, from any snapshot."""
        return sum(each.dataset == dataset for each in self.shown)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a ledger (empty if the file does not exist yet); DataError names the first invalid line."""
        if not path.exists() and read_head(path) is None:
            return cls()
        found: list[_Line] = []
        with reading(path) as (lines, head):
            check = ChainCheck(head)
            try:
                for line in lines:
                    if line.endswith(b"\n"):  # the last one may be unfinished
                        record, told = _read(line[:-1])
                        check.take(record)
                        found.append(told)
                check.end()
            except LineError as error:
                raise DataError(Problem(str(error), source=str(path), line=check.last.number + 1)) from None
        if found and not head_path(path).exists():
            text = "is missing: nobody can tell whether the ledger's last lines are"
            raise DataError(Problem(text, source=str(head_path(path))))
        return cls.of(found)

    @classmethod
    def of(cls, lines: Iterable[_Line]) -> Self:
        """Put a ledger together from its lines."""
        shown: dict[object, list[ReleaseRecord]] = {}  # by release, the lines of each session that showed it
        declined: dict[str, int] = {}  # by contract, when
        settled: dict[tuple[str, Settled], str] = {}
        alignments: dict[str, Alignment] = {}  # by contract
        for number, told in enumerate(lines):
            if isinstance(told, Declined):
                declined.setdefault(told.contract, number)  # said twice, it was said once
            elif isinstance(told, SettledRecord):
                settled.setdefault((told.terms, told.what), told.digest)
            elif isinstance(told, Aligned):
                alignments.setdefault(told.contract, Alignment(told, {}))
            elif isinstance(told, Submitted) and told.contract in alignments:
                begun, before = alignments[told.contract]
                alignments[told.contract] = Alignment(begun, {**before, told.peer: told.identifiers})
            elif isinstance(told, ReleaseRecord):
                place = number if product_of(told.terms).every_run_counts else _key(told)
                shown.setdefault(place, []).append(told)
        records, given_up = [], []
        for sessions in shown.values():
            when = {_by(each): declined[each.contract] for each in sessions if each.contract in declined}
            if when.keys() == {_by(each) for each in sessions}:  # all of them, whichever attempt was the last
                given_up.append((max(when.values()), sessions[0]))
            else:
                records.append(sessions[0])
        in_order = sorted(given_up, key=lambda each: each[0])
        contracts = frozenset(each.contract for sessions in shown.values() for each in sessions) - {""}
        undone = tuple(each for _, each in in_order)
        return cls(tuple(records), undone, contracts, settled, tuple(alignments.values()))


def append(path: Path, record: ReleaseRecord) -> None:
    """Append one line to an intact ledger, unless the release is in it; return once it is on disk.

    A session that shows a release again has a line of its own, as it may be declined; a roll-up shows nothing. A
    contract runs once, so where every run counts, each has one line.
    """
    ledger = Ledger.load(path)
    if record.contract and record.terms.source is None:
        known = record.contract in ledger.contracts
    else:
        known = not product_of(record.terms).every_run_counts
        known = known and any(_key(each) == _key(record) for each in ledger.records)
    if not known:
        _write(path, _RELEASE, record)


def decline(path: Path, contract: str, time: int) -> bool:
    """Enter that what a contract's session made was declined; return False when no release was shown by it."""
    if contract not in Ledger.load(path).contracts:
        return False
    _write(path, _DECLINED, Declined(contract, time))
    return True


def settle(path: Path, told: SettledRecord) -> bool:
    """Enter what a session settled, unless one on these terms has; return whether that was the same."""
    before = Ledger.load(path).settled.get((told.terms, told.what))
    if before is None:
        _write(path, _SETTLED, told)
    return before in (None, told.digest)


def aligned(path: Path, line: Aligned | Submitted) -> None:
    """Append what an alignment is about to tell a peer to an intact ledger; return once it is on disk."""
    Ledger.load(path)
    _write(path, _ALIGNED if isinstance(line, Aligned) else _SUBMITTED, line)


def record_of(deal: Deal, party: str, time: int, session: str = "", contract: str = "") -> ReleaseRecord:
    """Make the record that a party writes before it shows anything of its columns."""
    terms = deal.terms
    provision = terms.provision(party)
    assert provision is not None  # only parties hand columns in
    return ReleaseRecord(provision.dataset, provision.snapshot, terms, deal.recipients, time, session, contract)


def _write(path: Path, event: str, told: ReleaseRecord | Declined | SettledRecord | Aligned | Submitted) -> None:
    with ChainedFile(path, "ledger") as file:
        file.add((event, msgspec.to_builtins(told)))


def _key(record: ReleaseRecord) -> _Key:
    return record.dataset, record.snapshot, record.terms.hash, record.recipients


def _by(record: ReleaseRecord) -> str:
    return record.session or record.contract


_OTHER_LINES: Mapping[str, Any] = {
    _DECLINED: Declined,
    _SETTLED: SettledRecord,
    _ALIGNED: Aligned,
    _SUBMITTED: Submitted,
}


@lru_cache(maxsize=1 << 14)  # the ledger is read for every answer, and hardly changes
def _read(line: bytes) -> tuple[Record, _Line]:
    """Decode a line; it tells None when it is the marker of a line that a crash cut short."""
    record = read_line(line)
    if record.event == RECOVERED:
        return record, None
    try:
        if (kind := _OTHER_LINES.get(record.event)) is not None:
            return record, convert(record.fields, kind)
        if record.event != _RELEASE:
            raise ParameterError(f"the event {record.event}")
        released = convert(record.fields, ReleaseRecord)
        _ = released.terms.parts  # raises now if the requirements are unreadable
    except (msgspec.MsgspecError, ParameterError) as error:
        raise LineError(f"not a ledger's record: {one_line(str(error))}") from None
    return record, released
