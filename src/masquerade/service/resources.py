"""The resources of the coordinator's HTTP API, each declared once.

The API answers with these models, its OpenAPI document describes them, and the client reads them back. The store's
records (service/store/records.py) add internal fields. Nothing here needs a server's dependencies.

A newer coordinator may send more fields: a reader ignores those it does not know. A field that is added later gets a
default, because an older coordinator does not send it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, computed_field

from masquerade.service.cards import SchemaCard, declare_exactly
from masquerade.service.session_states import Status
from masquerade.service.wire.problems import ProblemData


class Scope(StrEnum):
    """What a token opens, of all that its user may do."""

    READ = "read"  # providers, previews, sessions, contracts, the ledger
    REQUEST = "request"  # ask for tables, cancel, decide
    DOWNLOAD = "download"  # releases and their reports
    TOKENS = "tokens"  # list, make and revoke tokens
    ADMIN = "admin"  # what only an admin may


class TokenKind(StrEnum):
    """Who holds a token: a program, somebody who signed in with a password, or a browser of the console."""

    PROGRAM = "program"
    SIGN_IN = "sign-in"
    BROWSER = "browser"


Item = TypeVar("Item")
_STATUSES = {each.value: each for each in Status}


class Role(StrEnum):
    """What a user may do; an admin may do all that an analyst may."""

    ANALYST = "analyst"
    ADMIN = "admin"


class Resource(BaseModel):
    """A frozen answer of the API, made from any object whose attributes have the names of its fields."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        populate_by_name=True,
        json_schema_extra=declare_exactly,
        json_schema_serialization_defaults_required=True,
    )

    def content(self) -> dict[str, Any]:
        """Return the resource as a JSON object."""
        return self.model_dump(mode="json", by_alias=True)


class Page(Resource, Generic[Item]):
    """A part of a list, in its order."""

    items: tuple[Item, ...] = Field(description="the items of this page")
    next: str | int | None = Field(
        default=None, description="`after` of the next page; null: nothing follows, or nothing yet"
    )


# --- accounts ---


class Account(Resource):
    """Who asks."""

    name: str = Field(description="the user's name", examples=["ana"])
    role: Role = Field(description="what the user may do")
    created: datetime = Field(description="when the account was made")


class User(Account):
    """An account."""

    disabled: bool = Field(description="true: neither the password nor a token opens anything")


class UserDetails(User):
    """An account as admins see it."""

    wrong_guesses: int = Field(
        description="wrong guesses at the password from all addresses, in the last day; after 100 each address has one"
    )


class SignedIn(Resource):
    """A token for twelve hours, with all scopes."""

    token: str = Field(repr=False, description="the token; it is shown here and never again", examples=["mq_3q2-…"])
    expires: datetime = Field(description="until when it opens anything")
    user: str = Field(description="the user's name", examples=["ana"])
    role: Role = Field(description="what the user may do")


class Token(Resource):
    """A token's description."""

    id: str = Field(description="names the token, and opens nothing", examples=["5f3a9c0d12e4b678"])
    name: str = Field(description="what its user calls it", examples=["notebook"])
    created: datetime = Field(description="when it was made")
    last_used: datetime | None = Field(description="when it was last used, to a minute; null: never")
    expires: datetime = Field(description="until when it opens anything")
    kind: TokenKind = Field(
        default=TokenKind.PROGRAM, description="a program's, a sign-in by password, or a browser's sign-in"
    )
    scopes: tuple[Scope, ...] = Field(
        default=(), description="what it opens, of all that its user may do", examples=[["read", "download"]]
    )


class IssuedToken(Token):
    """A new token."""

    token: str = Field(repr=False, description="the token; it is shown here and never again", examples=["mq_3q2-…"])


# --- what can be requested ---


class Provider(Resource):
    """A party that you may ask."""

    party: str = Field(description="the party's name", examples=["bank"])
    datasets: tuple[SchemaCard, ...] = Field(description="its datasets that you may ask for")
    last_seen: datetime | None = Field(description="when it was last there; null: never")
    reachable: bool = Field(description="whether it answered when it was last asked")
    purposes: tuple[str, ...] = Field(
        default=(), description='what its datasets may be asked for; "*": anything', examples=[["research"]]
    )
    response_time: float | None = Field(
        default=None,
        description="by when 95 % of its answers to the coordinator came lately, in seconds; null: not known yet",
    )
    availability: float | None = Field(
        default=None, description="the share of the coordinator's calls that it answered lately; null: not known yet"
    )


class ExpectedQuality(Resource):
    """What can be expected of a table before anybody computes: a guide, not a bound."""

    records: int = Field(description="how many records there are at most")
    groups: int = Field(description="how many groups the wished requirement leaves at most")
    ncp: float | None = Field(
        description="the normalised certainty penalty of columns that say nothing about each other; null: there are"
        " too few records for a single group"
    )


class RequestPreview(Resource):
    """What would come of a request; nothing is stored."""

    contributors: dict[str, tuple[str, ...]] = Field(
        default={}, description="for each column that is wanted, the parties that hold it", examples=[{"age": ["bank"]}]
    )
    parties: tuple[str, ...] = Field(default=(), description="who would take part", examples=[["bank", "clinic"]])
    requirement: tuple[str, ...] = Field(default=(), description="the requirement that is wished, in words")
    price: int = Field(
        default=0, description="what it costs at most, in cents, by the parties' price lists", examples=[1500]
    )
    budget: int = Field(default=0, description="what it may cost, in cents", examples=[5000])
    purposes: tuple[str, ...] = Field(
        default=(), description='the purposes that all who would take part allow; "*": any', examples=[["research"]]
    )
    refused_by: tuple[str, ...] = Field(
        default=(), description="who of them does not allow the purpose, and will refuse"
    )
    unreachable: tuple[str, ...] = Field(
        default=(), description="who of them did not answer when last asked; the session fails unless it is back"
    )
    released_before: bool = Field(
        default=False,
        description="whether you were given a release of a table as it is now: you get the same, or one made of it",
    )
    asked: bool = Field(default=False, description="whether the parties were asked what they would answer to it now")
    refusals: tuple[str, ...] = Field(
        default=(),
        description="what they would answer against it, each sentence once with who says it in brackets",
        examples=[['purpose "research" is not allowed; allowed: billing (bank, clinic)']],
    )
    possible: dict[str, Any] | None = Field(
        default=None,
        description="the request as they would accept it, made of this one by asking for less or for what was agreed"
        " before; null: nothing is refused, or nothing like it was found",
    )
    changes: tuple[str, ...] = Field(
        default=(),
        description="how that differs from what is asked, one line each",
        examples=[["without birth", "method = tds instead of mondrian"]],
    )
    expected: ExpectedQuality | None = Field(
        default=None,
        description="what can be expected of the table, from what the parties publish; null: that is not enough",
    )
    errors: tuple[ProblemData, ...] = Field(
        default=(), description="what stands in the way, as data; none: the parties can be asked"
    )

    @computed_field(description="what stands in the way, one line each")  # type: ignore[prop-decorator]
    @property
    def problems(self) -> tuple[str, ...]:
        """What stands in the way, one line each."""
        return tuple(map(str, self.errors))


# --- a session and its progress ---


class SessionFacts(Resource):
    """What is stored of a request on its way and may be known to whoever sees the session."""

    id: str = Field(description="the session's identifier", examples=["0f" * 16])
    client: str = Field(description="who asked", examples=["ana"])
    recipients: tuple[str, ...] = Field(description="who else may have the release")
    providers: tuple[str, ...] = Field(description="the parties that take part", examples=[["bank", "clinic"]])
    purpose: str = Field(description="what the table is for", examples=["research"])
    status: Status = Field(description="where it stands")
    cause: str | None = Field(description="why it stands there; null: as it should")
    attempts: int = Field(description="how often it was tried")
    attempt_limit: int = Field(description="how often it may be tried")
    request: dict[str, Any] = Field(description="what was asked for, as it was understood")
    terms_hash: str | None = Field(description="the digest of what was agreed; null: nothing yet")
    contract_hash: str | None = Field(description="the digest of the signed contract; null: none yet")
    created: datetime = Field(description="when it was asked for")
    updated: datetime = Field(description="when it last moved")
    queued: datetime | None = Field(description="since when it waits for its turn")
    started: datetime | None = Field(description="when the last attempt began")
    finished: datetime | None = Field(description="when it ended")
    expires: datetime | None = Field(description="until when it may wait")

    @property
    def final(self) -> bool:
        """Whether the session has ended."""
        return self.status.final

    @property
    def published(self) -> bool:
        """Whether a release was published."""
        return self.status is Status.PUBLISHED


class MissedQuality(Resource):
    """What a table that waits for its client has lost and would cost, and how far it is from the wished quality."""

    error: float | None = Field(default=None, description="the classification error; null: it could not be measured")
    most_error: float | None = Field(default=None, description="the one that was wished at most")
    ncp: float | None = Field(
        default=None,
        description="the normalised certainty penalty: 0 for nothing lost, 1 for everything; null: not measured",
    )
    most_ncp: float | None = Field(default=None, description="the one that was wished at most")
    query_error: float | None = Field(
        default=None, description="the mean relative error of counting queries; null: not measured"
    )
    most_query_error: float | None = Field(default=None, description="the one that was wished at most")
    lost: dict[str, float] = Field(
        default_factory=dict,
        description="columns that lost nearly all detail, and which share of it: reason enough to ask its client",
    )
    losses: dict[str, float] = Field(
        default_factory=dict,
        description="every asked column and the share of its detail that it lost: 0 nothing, 1 everything",
    )
    estimate: bool = Field(default=False, description="whether its client asked for an estimate first")
    rows: int | None = Field(default=None, description="how many rows it has")
    cost: int | None = Field(default=None, description="what it costs once it is accepted, in cents")
    declines: int | None = Field(
        default=None,
        description="how many releases of these tables their parties still allow to be declined, this one included;"
        " 0: declined or not, it binds later ones; null: any number",
    )
    kept: dict[str, float] = Field(
        default_factory=dict, description="by column, the share of its information that it keeps, where it is known"
    )
    information_kept: float | None = Field(
        default=None, description="the share of the columns' information that is kept; null: not measured"
    )


class Session(SessionFacts):
    """A request on its way."""

    reasons: tuple[str, ...] = Field(
        default=(), description="the cause line by line: of a refusal, every reason of every party"
    )
    agreed: tuple[str, ...] = Field(
        default=(),
        description="the requirement that all parties signed; it may be stricter than the wished one. Empty: none yet",
        examples=[["k-anonymity (k = 50) over age, job"]],
    )
    algorithm: dict[str, Any] | None = Field(
        default=None,
        description="the method that all parties signed, with its parameters; null: none yet, or a roll-up, for which"
        " they run none",
    )
    choice: dict[str, Any] | None = Field(
        default=None,
        description="where the request leaves the method open: why it is this one, and which were preferred to it",
    )
    rows: int | None = Field(
        default=None,
        description="how many rows were published, or records a model was learned from; null: none, no longer kept, or"
        " not for you",
    )
    cached: bool = Field(
        default=False, description="whether its release was made for the same terms before, and served again"
    )
    rolled_up_from: str | None = Field(
        default=None,
        description="the digest of the terms of the earlier release that this one is made from, by merging its groups,"
        " without a run of the parties; null: the parties compute it",
    )
    failed_by: str | None = Field(
        default=None,
        description="the party through which it failed: it could not be reached, was not who it should be, or broke"
        " the protocol; empty: one of them, and nobody can tell which; null: it did not fail, not through a party, or"
        " that is no longer known",
        examples=["bank"],
    )
    approvals: tuple[str, ...] = Field(
        default=(), description="while it is negotiated: the parties where a person has to approve it before they sign"
    )
    missed: MissedQuality | None = Field(
        default=None,
        description="while it awaits its client's word: what it has lost, what it costs, and which wish it misses",
    )

    @property
    def horizontal(self) -> bool:
        """Whether the request is for the same columns about different people."""
        return self.request.get("kind") == "horizontal"

    @property
    def problems(self) -> tuple[str, ...]:
        """Every reason why the session ended without a release; empty while it runs or once it is published."""
        if self.published or not self.final:
            return ()
        return self.reasons or (f"the session is {self.status}: {self.cause or 'no cause was given'}",)


class PartyOffer(Resource):
    """What a party answered in one round of the negotiation; with reasons, it is a refusal."""

    party: str = Field(description="who answered", examples=["bank"])
    round: int = Field(description="in which round, from 1")
    terms: dict[str, Any] = Field(description="what it offers")
    price_cents: int = Field(description="what it asks at most, in cents")
    reasons: tuple[str, ...] = Field(description="why it refuses; none: it is an offer")
    time: datetime = Field(description="when it answered")


class Event(Resource):
    """Something that happened in a session."""

    session: str = Field(description="in which session")
    number: int = Field(description="counts from 1 without gaps")
    time: datetime = Field(description="when")
    kind: str = Field(
        description="status, offer, counter, roll_up, approval, contract, progress, step, quality or problem",
        examples=["status"],
    )
    data: dict[str, Any] = Field(description="the details, by kind", examples=[{"from": "queued", "to": "running"}])

    @property
    def status(self) -> Status | None:
        """The status that the session reached, if the event is a move; None for a status unknown to this version."""
        return _STATUSES.get(str(self.data.get("to"))) if self.kind == "status" else None

    @property
    def final(self) -> bool:
        """Whether no event follows."""
        return self.status is not None and self.status.final


# --- results ---


class ReleaseFacts(Resource):
    """What is stored of a verified table and shown to whoever may have it."""

    session: str = Field(description="the session that published it")
    rows: int = Field(description="how many rows it has")
    sha256: str = Field(description="the digest of the table as CSV")
    terms_hash: str = Field(description="the digest of what was agreed")
    created: datetime = Field(description="when it was made")
    published: datetime | None = Field(description="when it was published")
    expires: datetime = Field(description="until when it is kept")
    snapshots: dict[str, str] = Field(description="by party: the commitment to the data that it was made from")


class PublishedRelease(ReleaseFacts):
    """A verified table, with its summary."""

    summary: dict[str, Any] = Field(
        description="rows, groups, requirements, metrics, seconds, cost and more, as the commands print it"
    )


class LedgerEntry(Resource):
    """One line of the price ledger, which is only ever added to."""

    id: int = Field(description="the line's number")
    time: datetime = Field(description="when it was written")
    user: str = Field(description="who owes it")
    session: str = Field(description="for which session")
    party: str = Field(description="to which party", examples=["bank"])
    cents: int = Field(description="how much, in cents")


class LedgerPage(Page[LedgerEntry]):
    """Lines of the price ledger in their order."""

    owed: int = Field(description="the sum of all these lines, on whichever page, in cents")
