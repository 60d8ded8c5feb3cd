"""What the store returns beside the API's resources. Rows, password hashes and token digests stay inside the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import Field

from masquerade.service.resources import ReleaseFacts, Resource, SessionFacts, Token


@dataclass(frozen=True)
class Guard:
    """Recent failed guesses at a name from one source; kept for unknown names too, so that both look the same."""

    failures: int
    lockouts: int  # in a row, without a sign-in between them
    since: datetime  # of the first failure that counts
    locked_until: datetime | None


class ApiToken(Token):
    """A token's description; the token itself is shown once and never stored."""

    user: str
    revoked: datetime | None


class RegisteredProvider(Resource):
    """A party that contributes data: its address, and who may ask it."""

    party: str
    address: str
    fingerprint: str
    published: dict[str, Any] | None = Field(alias="schema")
    public: bool
    allowed: tuple[str, ...]
    last_seen: datetime | None


class SessionRecord(SessionFacts):
    """A session as it is stored. `version` changes with every move: a move is made on the version that was read."""

    contract: dict[str, Any] | None
    version: int


@dataclass(frozen=True)
class NewRelease:
    """A table from the assembler, before it is published."""

    table_path: str
    report_path: str
    sha256: str
    rows: int
    expires: datetime
    snapshots: Mapping[str, str] = field(default_factory=dict)  # party -> commitment


class StoredRelease(ReleaseFacts):
    """A verified table and its files. Until `published` is set it waits for the client's decision."""

    id: int
    table_path: str
    report_path: str


@dataclass(frozen=True)
class Expired:
    """The result of retention: releases whose files are to be deleted, and sessions that waited too long."""

    releases: tuple[int, ...]
    files: tuple[str, ...]
    sessions: tuple[str, ...]
