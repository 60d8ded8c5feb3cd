"""What the store gives out: plain frozen values. Nobody outside holds a row, a password hash or a token's digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from masquerade.service.store.states import Status


class Role(StrEnum):
    """What a user may do; an admin may do all that an analyst may."""

    ANALYST = "analyst"
    ADMIN = "admin"


class EntryKind(StrEnum):
    """Why money moves: the client owes a party, or gets it back."""

    CHARGE = "charge"
    REFUND = "refund"


@dataclass(frozen=True)
class User:
    """An account."""

    name: str
    role: Role
    disabled: bool
    created: datetime


@dataclass(frozen=True)
class Guard:
    """How often a name was guessed at lately; kept for unknown names too, so that both look the same."""

    failures: int
    lockouts: int  # in a row, without a sign-in between them
    since: datetime  # of the first failure that counts
    locked_until: datetime | None


@dataclass(frozen=True)
class ApiToken:
    """A token's description; the token itself is shown once and never stored."""

    id: str
    user: str
    name: str
    created: datetime
    last_used: datetime | None
    expires: datetime | None
    revoked: datetime | None


@dataclass(frozen=True)
class Provider:
    """A party that contributes data."""

    party: str
    address: str
    fingerprint: str
    schema: Mapping[str, Any] | None
    public: bool
    allowed: tuple[str, ...]
    last_seen: datetime | None


@dataclass(frozen=True)
class Session:
    """A request on its way. `version` tells whether somebody moved it since this was read."""

    id: str
    client: str
    recipients: tuple[str, ...]
    providers: tuple[str, ...]
    purpose: str
    request: Mapping[str, Any]
    status: Status
    cause: str | None
    attempts: int
    attempt_limit: int
    terms_hash: str | None
    contract_hash: str | None
    contract: Mapping[str, Any] | None
    created: datetime
    updated: datetime
    queued: datetime | None
    started: datetime | None
    finished: datetime | None
    expires: datetime | None
    version: int


@dataclass(frozen=True)
class Offer:
    """A party's answer in one round of a negotiation; with reasons, it is a refusal."""

    session: str
    party: str
    round: int
    terms: Mapping[str, Any]
    price_cents: int
    reasons: tuple[str, ...]
    time: datetime


@dataclass(frozen=True)
class NewRelease:
    """What the assembler made, before it is published."""

    table_path: str
    report_path: str
    sha256: str
    rows: int
    expires: datetime
    snapshots: Mapping[str, str] = field(default_factory=dict)  # party -> commitment


@dataclass(frozen=True)
class Release:
    """A verified table. Until `published` is set it waits for the client's word."""

    id: int
    session: str
    terms_hash: str
    table_path: str
    report_path: str
    sha256: str
    rows: int
    created: datetime
    published: datetime | None
    expires: datetime
    snapshots: Mapping[str, str]


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the price ledger, which is only ever added to."""

    id: int
    time: datetime
    user: str
    session: str
    party: str
    cents: int
    kind: EntryKind


@dataclass(frozen=True)
class Event:
    """Something that happened in a session; numbers count from 1 without gaps."""

    session: str
    number: int
    time: datetime
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Expired:
    """What retention found: releases whose files are to be deleted, and sessions that waited too long."""

    releases: tuple[int, ...]
    files: tuple[str, ...]
    sessions: tuple[str, ...]
