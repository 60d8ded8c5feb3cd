"""People whose records several providers hold.

m-privacy takes the records of different providers for those of different people. Who is at two providers is in the
table twice: a coalition of one of them may know one record by the other, and a group of k records has fewer people.
Only their number is reported.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.data.encode import missing_rows
from masquerade.data.fingerprints import Fingerprints, fingerprints, mixed
from masquerade.data.records import Records, TablePart
from masquerade.data.table import Table
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import renumber, value_counts
from masquerade.privacy.requirement import Requirement


@dataclass(frozen=True)
class SharedPeople:
    """How many people are at two or more providers, going by an identifier."""

    people: int
    identifier: str


def shared_people(table: Table, requirement: Requirement) -> SharedPeople | None:
    """Count them by the table's first identifier; None without one, or where no requirement is about providers."""
    names = [name for name in table.schema.identifiers if name in table.arrow.column_names]
    if not names or not requirement.provider_columns:
        return None
    absent = missing_rows(table.cells(names[0]), table.origin.missing_values)
    known = table if absent is None else table.take(np.flatnonzero(~absent))
    people, providers = known.coded(names[0]), known.coded(requirement.provider_columns[0])
    n_providers = max(len(providers.labels), 1)
    pairs = people.codes.astype(np.int64) * n_providers + providers.codes
    _, found = renumber(pairs, max(len(people.labels), 1) * n_providers)
    at = value_counts(found // n_providers, len(people.labels))
    return SharedPeople(int(np.count_nonzero(at > 1)), names[0])


# --- shared people ------------------------------------------------------------------------------------------
# People whose records several providers hold (`anonymize/shared_people.py`), where the records are in
# chunks.
#
# A person is the fingerprint of the identifier, under a secret of its own; with it a chunk keeps nothing
# but the provider's. Whoever has a smallest and a largest provider that differ is at several. Fingerprints
# are looked at share by share, so that no more of them are held at once than the memory takes.

_PERSON, _PROVIDER = "person", "provider"
_BYTES_PER_PERSON = 128  # while those of several chunks are put together
_DRIVER_MEMORY = 4 << 30  # of whoever does that for a cluster


def shared_people_of_chunks(
    table: Records, identifier: str, provider: str, missing_values: Sequence[str]
) -> SharedPeople:
    """Count the people who are at two or more providers, going by an identifier of all rows that were read."""
    secret = secrets.randbits(64)
    loaders = [_ReadPeople(part, identifier, provider, tuple(missing_values), secret) for part in table.parts]
    chunks, sizes = table.engine.load(loaders)
    memory = getattr(table.engine, "memory", _DRIVER_MEMORY) // 8
    shares = max(1, -(-sum(sizes) * _BYTES_PER_PERSON // memory))
    people = 0
    for share in range(shares):
        seen = chunks.total(_See(share, shares))
        people += int(np.count_nonzero(seen.least != seen.most))
    return SharedPeople(people, identifier)


@dataclass(frozen=True)
class _ReadPeople:
    """The loader of a chunk: who each record with an identifier is about, and who provided it."""

    part: TablePart
    identifier: str
    provider: str
    missing_values: tuple[str, ...]
    secret: int

    def __call__(self) -> tuple[Arrays, int]:
        table = self.part.read([self.identifier, self.provider], {self.identifier, self.provider})
        absent = missing_rows(table[self.identifier], self.missing_values)
        rows = slice(None) if absent is None else np.flatnonzero(~absent)
        made = {
            _PERSON: mixed(fingerprints(table[self.identifier], self.secret)[rows]),
            _PROVIDER: fingerprints(table[self.provider], self.secret)[rows],
        }
        return made, made[_PERSON].size


@dataclass(frozen=True, eq=False)
class _Seen:
    """Different people, in order, with the smallest and the largest provider that has each."""

    people: Fingerprints
    least: Fingerprints
    most: Fingerprints

    @classmethod
    def of(cls, people: Fingerprints, least: Fingerprints, most: Fingerprints) -> _Seen:
        """Put the same people together."""
        order = np.argsort(people, kind="stable")
        people, least, most = people[order], least[order], most[order]
        starts = np.flatnonzero(np.append(True, people[1:] != people[:-1])) if people.size else np.arange(0)
        if not starts.size:
            return cls(people, least, most)
        return cls(people[starts], np.minimum.reduceat(least, starts), np.maximum.reduceat(most, starts))

    def __add__(self, other: _Seen) -> _Seen:
        return _Seen.of(
            np.concatenate([self.people, other.people]),
            np.concatenate([self.least, other.least]),
            np.concatenate([self.most, other.most]),
        )


@dataclass(frozen=True)
class _See:
    """Looks at the people of one share."""

    share: int
    shares: int

    def __call__(self, chunk: Chunk) -> _Seen:
        people, providers = chunk[_PERSON], chunk[_PROVIDER]
        rows = np.flatnonzero(people % np.uint64(self.shares) == self.share)
        people, providers = people.take(rows), providers.take(rows)
        return _Seen.of(people, providers, providers)
