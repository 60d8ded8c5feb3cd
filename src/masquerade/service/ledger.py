"""What a party has released from which snapshot: a chained file beside the dataset, and the queries a policy makes.

A line is written **before** the peers see anything of the columns: what is not in the ledger has not left, and a
session that is broken off later counts as released. A line without its end was not finished, so its release never
started: it does not count. The chain and the head beside it (`ledger.head`) reveal accidental damage, an edited line,
or an old copy put back. Anyone who may write the folder can forge both: the sealed audit log is the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

import msgspec

from masquerade.audit.chain import ChainCheck, LineError, Record, read_line
from masquerade.audit.chained_file import RECOVERED, ChainedFile, reading
from masquerade.audit.head import head_path, read_head
from masquerade.errors import DataError, ParameterError, Problem, one_line
from masquerade.forms.decoders import convert
from masquerade.methods import product_of
from masquerade.service.terms import Deal, Terms

_RELEASE = "release"


class Released(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release that a party has taken part in, or has begun to, or the roll-up of one (`terms.source`)."""

    dataset: str
    snapshot: str
    terms: Terms
    recipients: tuple[str, ...]
    time: int


@dataclass(frozen=True)
class Ledger:
    """All releases of a party, earliest first."""

    records: tuple[Released, ...] = ()

    def of_snapshot(self, dataset: str, snapshot: str) -> tuple[Released, ...]:
        """Return the releases from this snapshot."""
        return tuple(each for each in self.records if (each.dataset, each.snapshot) == (dataset, snapshot))

    def has(self, record: Released) -> bool:
        """Return whether the same release, for the same recipients, is in it: another attempt is not another one."""
        known = self.of_snapshot(record.dataset, record.snapshot)
        return any((each.terms, each.recipients) == (record.terms, record.recipients) for each in known)

    def last_of_others(self, dataset: str, snapshot: str) -> Released | None:
        """Return the latest release from another snapshot of the dataset; a roll-up shows nothing of it anew."""
        others = [
            each
            for each in self.records
            if each.dataset == dataset and each.snapshot != snapshot and each.terms.source is None
        ]
        return max(others, key=lambda each: each.time, default=None)

    def releases(self, dataset: str) -> int:
        """Count the releases of a dataset, from any snapshot."""
        return sum(each.dataset == dataset for each in self.records)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a ledger (empty if the file does not exist yet); DataError names the first invalid line."""
        if not path.exists() and read_head(path) is None:
            return cls()
        found: list[Released | None] = []
        with reading(path) as (lines, head):
            check = ChainCheck(head)
            try:
                for line in lines:
                    if line.endswith(b"\n"):  # the last one may be unfinished
                        record, released = _read(line[:-1])
                        check.take(record)
                        found.append(released)
                check.end()
            except LineError as error:
                raise DataError(Problem(str(error), source=str(path), line=check.last.number + 1)) from None
        if found and not head_path(path).exists():
            text = "is missing: nobody can tell whether the ledger's last lines are"
            raise DataError(Problem(text, source=str(head_path(path))))
        return cls(tuple(each for each in found if each is not None))


def append(path: Path, record: Released) -> None:
    """Append one line to an intact ledger, unless the release is in it; return once it is on disk."""
    known = Ledger.load(path).has(record)
    if known and not product_of(record.terms).every_run_counts:
        return
    with ChainedFile(path, "ledger") as file:
        file.append((_RELEASE, msgspec.to_builtins(record)))


def record_of(deal: Deal, party: str, time: int) -> Released:
    """Make the record that a party writes before it shows anything of its columns."""
    terms = deal.terms
    provision = terms.provision(party)
    assert provision is not None  # only parties hand columns in
    return Released(provision.dataset, provision.snapshot, terms, deal.recipients, time)


@lru_cache(maxsize=1 << 14)  # the ledger is read for every answer, and hardly changes
def _read(line: bytes) -> tuple[Record, Released | None]:
    """Decode a line; the release is None for the marker of a line that a crash cut short."""
    record = read_line(line)
    if record.event == RECOVERED:
        return record, None
    try:
        if record.event != _RELEASE:
            raise ParameterError(f"the event {record.event}")
        released = convert(record.fields, Released)
        _ = released.terms.parts  # raises now if the requirements are unreadable
    except (msgspec.MsgspecError, ParameterError) as error:
        raise LineError(f"not a ledger's record: {one_line(str(error))}") from None
    return record, released
