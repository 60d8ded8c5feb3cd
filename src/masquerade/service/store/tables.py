"""The tables. A change here needs a new revision in migrations/; tests compare the two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from masquerade.service.resources import TokenKind
from masquerade.service.session_states import Status

NAME = 128  # the longest name of a user or a party
HASH = 64  # a SHA-256 in hexadecimal digits
Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up INTEGER keys only


class Instant(TypeDecorator[datetime]):
    """A moment, always in UTC: SQLite has no time zones, and PostgreSQL reports them in the server's setting."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; refuse a moment without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment needs a time zone")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Restore the time zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables; it names every constraint, so that migrations can refer to them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        datetime: Instant(),
        dict[str, Any]: JSON(none_as_null=True),
        list[str]: JSON(),
    }


def _one_of(column: str, *words: str) -> str:
    return f"{column} IN ({', '.join(repr(str(word)) for word in words)})"


class UserRow(Base):
    """Accounts. A name is permanent: users are disabled, never removed, because ledger and sessions name them."""

    __tablename__ = "users"
    __table_args__ = (CheckConstraint(_one_of("role", "analyst", "admin"), name="role"),)

    name: Mapped[str] = mapped_column(String(NAME), primary_key=True)
    password_hash: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(String(16))
    disabled: Mapped[bool] = mapped_column(default=False)
    created: Mapped[datetime]
    turn: Mapped[int] = mapped_column(BigInteger, default=0)  # when the queue last served this user


class GuardRow(Base):
    """Failed sign-ins by the digests of the name that was tried, including unknown names, and of their source.

    The row with an empty source counts those of all addresses.
    """

    __tablename__ = "guards"

    name_digest: Mapped[str] = mapped_column(String(HASH), primary_key=True)
    source_digest: Mapped[str] = mapped_column(String(HASH), primary_key=True)
    failures: Mapped[int] = mapped_column(default=0)
    lockouts: Mapped[int] = mapped_column(default=0)
    since: Mapped[datetime]
    locked_until: Mapped[datetime | None]


class TokenRow(Base):
    """API tokens and sign-ins, by their digest."""

    __tablename__ = "api_tokens"
    __table_args__ = (CheckConstraint(_one_of("kind", *TokenKind), name="kind"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    digest: Mapped[str] = mapped_column(String(HASH), unique=True)
    user: Mapped[str] = mapped_column(ForeignKey("users.name"), index=True)
    name: Mapped[str] = mapped_column(String(NAME))
    kind: Mapped[str] = mapped_column(String(16))
    scopes: Mapped[list[str]]
    created: Mapped[datetime]
    last_used: Mapped[datetime | None]
    expires: Mapped[datetime]
    revoked: Mapped[datetime | None]


class ProviderRow(Base):
    """Parties that contribute data."""

    __tablename__ = "providers"

    party: Mapped[str] = mapped_column(String(NAME), primary_key=True)
    address: Mapped[str] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(String(256))
    schema: Mapped[dict[str, Any] | None]
    public: Mapped[bool]
    last_seen: Mapped[datetime | None]
    users: Mapped[list[ProviderUserRow]] = relationship(
        lazy="selectin", cascade="all, delete-orphan", order_by="ProviderUserRow.user"
    )

    @property
    def allowed(self) -> list[str]:
        """The names of the users who may ask it."""
        return sorted(each.user for each in self.users)


class ProviderUserRow(Base):
    """Who may reach a private provider."""

    __tablename__ = "provider_users"

    party: Mapped[str] = mapped_column(ForeignKey("providers.party"), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("users.name"), primary_key=True)


class SessionRow(Base):
    """Sessions."""

    __tablename__ = "sessions"
    __table_args__ = (
        CheckConstraint(_one_of("status", *Status), name="status"),
        CheckConstraint("attempts >= 0 AND attempts <= attempt_limit", name="attempts"),
        Index(None, "status", "queued"),
        Index(None, "client", "created"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    client: Mapped[str] = mapped_column(ForeignKey("users.name"))
    purpose: Mapped[str] = mapped_column(Text)
    request: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16))
    cause: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    attempt_limit: Mapped[int]
    terms_hash: Mapped[str | None] = mapped_column(String(HASH), index=True)
    contract_hash: Mapped[str | None] = mapped_column(String(HASH), unique=True)
    contract: Mapped[dict[str, Any] | None]
    created: Mapped[datetime]
    updated: Mapped[datetime]
    queued: Mapped[datetime | None]
    started: Mapped[datetime | None]
    finished: Mapped[datetime | None]
    expires: Mapped[datetime | None]
    version: Mapped[int] = mapped_column(default=1)
    last_event: Mapped[int] = mapped_column(default=0)
    parties: Mapped[list[SessionPartyRow]] = relationship(lazy="selectin", order_by="SessionPartyRow.position")
    users: Mapped[list[RecipientRow]] = relationship(lazy="selectin", order_by="RecipientRow.user")

    @property
    def providers(self) -> list[str]:
        """The names of its parties, in the order of the contract."""
        return [each.party for each in self.parties]

    @property
    def recipients(self) -> list[str]:
        """The names of those besides the client who may have its release."""
        return [each.user for each in self.users]


class SessionPartyRow(Base):
    """The providers of a session, in the order of the contract."""

    __tablename__ = "session_parties"

    session: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    party: Mapped[str] = mapped_column(ForeignKey("providers.party"), primary_key=True, index=True)
    position: Mapped[int]


class RecipientRow(Base):
    """Who else may have a session's release."""

    __tablename__ = "recipients"

    session: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    user: Mapped[str] = mapped_column(ForeignKey("users.name"), primary_key=True, index=True)


class OfferRow(Base):
    """The parties' answers, round by round."""

    __tablename__ = "offers"
    __table_args__ = (ForeignKeyConstraint(["session", "party"], ["session_parties.session", "session_parties.party"]),)

    session: Mapped[str] = mapped_column(String(32), primary_key=True)
    party: Mapped[str] = mapped_column(String(NAME), primary_key=True)
    round: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    terms: Mapped[dict[str, Any]]
    price_cents: Mapped[int] = mapped_column(BigInteger)
    reasons: Mapped[list[str]]
    time: Mapped[datetime]


class ReleaseRow(Base):
    """Verified tables. `removed` is set when the files are gone."""

    __tablename__ = "releases"
    __table_args__ = (CheckConstraint("rows >= 0", name="rows"),)

    id: Mapped[int] = mapped_column(Number, primary_key=True)
    session: Mapped[str] = mapped_column(ForeignKey("sessions.id"), index=True)
    terms_hash: Mapped[str] = mapped_column(String(HASH), index=True)
    table_path: Mapped[str] = mapped_column(Text)
    report_path: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(String(HASH))
    rows: Mapped[int] = mapped_column(BigInteger)
    created: Mapped[datetime]
    published: Mapped[datetime | None]
    expires: Mapped[datetime] = mapped_column(index=True)
    removed: Mapped[datetime | None]
    made_from: Mapped[list[ReleaseSnapshotRow]] = relationship(lazy="selectin", order_by="ReleaseSnapshotRow.party")

    @property
    def snapshots(self) -> dict[str, str]:
        """The commitments that it was made from, by party."""
        return {each.party: each.commitment for each in self.made_from}


class ReleaseSnapshotRow(Base):
    """Which state of each party's data a release was made from."""

    __tablename__ = "release_snapshots"
    __table_args__ = (Index(None, "party", "commitment"),)

    release: Mapped[int] = mapped_column(ForeignKey("releases.id"), primary_key=True)
    party: Mapped[str] = mapped_column(ForeignKey("providers.party"), primary_key=True)
    commitment: Mapped[str] = mapped_column(String(256))


class DeclineRow(Base):
    """What a client declined, until each party of its session has entered it in its ledger."""

    __tablename__ = "declines"

    contract_hash: Mapped[str] = mapped_column(String(HASH), primary_key=True)
    party: Mapped[str] = mapped_column(ForeignKey("providers.party"), primary_key=True)


class StaleSnapshotRow(Base):
    """Snapshots that their parties have replaced, until they are current again: the cache serves no release of them."""

    __tablename__ = "stale_snapshots"

    party: Mapped[str] = mapped_column(ForeignKey("providers.party"), primary_key=True)
    commitment: Mapped[str] = mapped_column(String(256), primary_key=True)
    since: Mapped[datetime]


class LedgerRow(Base):
    """Prices. Triggers in the migration refuse every update and deletion."""

    __tablename__ = "ledger"
    __table_args__ = (
        UniqueConstraint("session", "party"),  # a repeated step never charges twice
        ForeignKeyConstraint(["session", "party"], ["session_parties.session", "session_parties.party"]),
    )

    id: Mapped[int] = mapped_column(Number, primary_key=True)
    time: Mapped[datetime]
    user: Mapped[str] = mapped_column(ForeignKey("users.name"), index=True)
    session: Mapped[str] = mapped_column(String(32))
    party: Mapped[str] = mapped_column(String(NAME), index=True)
    cents: Mapped[int] = mapped_column(BigInteger)


class EventRow(Base):
    """Events, numbered per session."""

    __tablename__ = "events"

    session: Mapped[str] = mapped_column(ForeignKey("sessions.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(64))
    data: Mapped[dict[str, Any]]
