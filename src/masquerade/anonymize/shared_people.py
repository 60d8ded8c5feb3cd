"""People whose records several providers hold.

m-privacy takes the records of different providers for those of different people. Who is at two providers is in the
table twice: a coalition of one of them may know one record by the other, and a group of k records has fewer people.
Only their number is reported.

A person is the fingerprint of the identifier, under a secret of its own; with it a chunk keeps nothing but the
provider's. Whoever has a smallest and a largest provider that differ is at several. Fingerprints are looked at share by
share, so that no more of them are held at once than the memory takes.
"""

from __future__ import annotations

import secrets
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from masquerade.data import Fingerprints, fingerprints, missing_rows, mixed
from masquerade.engine import Arrays, Chunk, Engine

_PERSON, _PROVIDER = "person", "provider"
_BYTES_PER_PERSON = 128  # while those of several chunks are put together
_DRIVER_MEMORY = 4 << 30  # of whoever does that for a cluster


@dataclass(frozen=True)
class SharedPeople:
    """How many people are at two or more providers, going by an identifier."""

    people: int
    identifier: str


class Readable(Protocol):
    """Some rows, with all their columns."""

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Read these columns."""


@dataclass(frozen=True, eq=False)
class AtHand:
    """All rows of a table in memory."""

    table: pa.Table

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Return these columns as they are."""
        return self.table.select(list(columns))


def shared_people(
    parts: Sequence[Readable],
    engine: Engine,
    identifier: str | None,
    provider: str | None,
    missing_values: Sequence[str],
) -> SharedPeople | None:
    """Count the people who are at two or more providers, going by an identifier of all rows that were read.

    None without one, or where no requirement is about providers.
    """
    if identifier is None or provider is None:
        return None
    secret = secrets.randbits(64)
    loaders = [
        partial(
            _read_people,
            part=part,
            identifier=identifier,
            provider=provider,
            missing_values=tuple(missing_values),
            secret=secret,
        )
        for part in parts
    ]
    chunks, sizes = engine.load(loaders)
    memory = getattr(engine, "memory", _DRIVER_MEMORY) // 8
    shares = max(1, -(-sum(sizes) * _BYTES_PER_PERSON // memory))
    people = 0
    for share in range(shares):
        seen = chunks.total(partial(_seen_in, share=share, shares=shares))
        people += int(np.count_nonzero(seen.least != seen.most))
    return SharedPeople(people, identifier)


def _read_people(
    part: Readable, identifier: str, provider: str, missing_values: tuple[str, ...], secret: int
) -> tuple[Arrays, int]:
    """The loader of a chunk: who each record with an identifier is about, and who provided it."""
    table = part.read([identifier, provider], {identifier, provider})
    absent = missing_rows(table[identifier], missing_values)
    rows = slice(None) if absent is None else np.flatnonzero(~absent)
    made = {
        _PERSON: mixed(fingerprints(table[identifier], secret)[rows]),
        _PROVIDER: fingerprints(table[provider], secret)[rows],
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


def _seen_in(chunk: Chunk, *, share: int, shares: int) -> _Seen:
    """Look at the people of one share."""
    people, providers = chunk[_PERSON], chunk[_PROVIDER]
    rows = np.flatnonzero(people % np.uint64(shares) == share)
    people, providers = people.take(rows), providers.take(rows)
    return _Seen.of(people, providers, providers)
