"""What the coordinator answers a client: frozen, typed, and free of anything that opens a door.

A coordinator of a newer version may say more; what is not known here is left out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from masquerade.errors import PeerError, Problem, one_line

PUBLISHED = "published"
AWAITING_CLIENT = "awaiting_client"
FINAL = frozenset({PUBLISHED, "refused", "failed", "cancelled", "expired"})


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that is answered."""

    def content(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Account(_Answered, frozen=True, kw_only=True):
    """Who asks; `now` is what the coordinator's clock says."""

    name: str
    role: str = ""
    now: datetime | None = None


class Taxonomy(_Answered, frozen=True, kw_only=True):
    """What is told of a column's taxonomy."""

    fingerprint: str
    height: int
    root: str | None = None


class Column(_Answered, frozen=True, kw_only=True):
    """A column that may be asked for; `role` is "attribute", "sensitive" or "class"."""

    name: str
    kind: str
    role: str = "attribute"
    taxonomy: Taxonomy | None = None


class Dataset(_Answered, frozen=True, kw_only=True):
    """One dataset of a provider: names and kinds of columns, never values."""

    dataset: str
    columns: tuple[Column, ...]
    identifier: str | None = None
    records: int | None = None  # rounded up; None: not told
    snapshot: str | None = None
    horizontal: bool = False  # whether it may be published together with others that have the same columns

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)


class Provider(_Answered, frozen=True, kw_only=True):
    """A party that contributes data, with the datasets that this user may ask for."""

    party: str
    datasets: tuple[Dataset, ...] = ()
    last_seen: datetime | None = None
    reachable: bool = False


class Preview(_Answered, frozen=True, kw_only=True):
    """What a request would come to: who could contribute what, the requirement, and what stands against it."""

    contributors: dict[str, tuple[str, ...]] = {}
    parties: tuple[str, ...] = ()  # who would take part
    requirement: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Missed(_Answered, frozen=True, kw_only=True):
    """How far a table is from the wished quality; an `error` of None could not be measured."""

    error: float | None = None
    most_error: float | None = None


class Session(_Answered, frozen=True, kw_only=True):
    """A request on its way."""

    id: str
    status: str
    client: str = ""
    recipients: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    purpose: str = ""
    cause: str | None = None
    reasons: tuple[str, ...] = ()
    attempts: int = 0
    attempt_limit: int = 0
    request: dict[str, Any] = {}
    terms_hash: str | None = None
    contract_hash: str | None = None
    created: datetime | None = None
    updated: datetime | None = None
    queued: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None
    expires: datetime | None = None
    rows: int | None = None
    agreed: tuple[str, ...] = ()  # the requirement that all parties signed
    cached: bool = False  # whether its release was made for the same terms before
    failed_by: str | None = (
        None  # the party through which it failed; empty: one of them, nobody can tell which
    )
    approvals: tuple[str, ...] = ()  # while it is negotiated: where a person has to approve it
    missed: Missed | None = None  # while it awaits its client's word

    @property
    def final(self) -> bool:
        """Nothing follows."""
        return self.status in FINAL

    @property
    def published(self) -> bool:
        """There is a release."""
        return self.status == PUBLISHED

    @property
    def horizontal(self) -> bool:
        """The same columns about different people were asked for."""
        return self.request.get("kind") == "horizontal"

    @property
    def problems(self) -> tuple[str, ...]:
        """Every reason why it ended without a release; none while it goes on or when it was published."""
        if self.published or not self.final:
            return ()
        return self.reasons or (f"the session is {self.status}: {self.cause or 'no cause was told'}",)


class SessionFailed(PeerError):
    """A session failed because of a party; `peer` names it, `session` is how the session ended."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.failed_by or "", *(Problem(one_line(each)) for each in session.problems))
        self.session = session


def unless_failed(session: Session) -> Session:
    """The session; SessionFailed when a party could not be reached, was not who it should be, or broke the protocol."""
    if session.status == "failed" and session.failed_by is not None:
        raise SessionFailed(session)
    return session


class Offer(_Answered, frozen=True, kw_only=True):
    """A party's answer in one round of the negotiation; with reasons, it is a refusal."""

    party: str
    round: int = 0
    price_cents: int = 0
    terms: dict[str, Any] = {}
    reasons: tuple[str, ...] = ()
    time: datetime | None = None


class Event(_Answered, frozen=True, kw_only=True):
    """Something that happened in a session; numbers count from 1 without gaps."""

    number: int
    kind: str
    data: dict[str, Any] = {}
    time: datetime | None = None

    @property
    def status(self) -> str | None:
        """The status that the session has reached, if that is what happened."""
        to = self.data.get("to") if self.kind == "status" else None
        return to if isinstance(to, str) else None

    @property
    def final(self) -> bool:
        """No event follows."""
        return self.status in FINAL


class Release(_Answered, frozen=True, kw_only=True):
    """A published table: its size, its digests, and the summary that its report is made of."""

    session: str
    rows: int
    sha256: str  # of the table as CSV
    terms_hash: str | None = None
    created: datetime | None = None
    published: datetime | None = None
    expires: datetime | None = None
    snapshots: dict[str, str] = {}  # by party: the commitment to the data that it was made from
    summary: dict[str, Any] = {}
