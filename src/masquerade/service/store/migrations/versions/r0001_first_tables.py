"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

MOMENT = sa.DateTime(timezone=True)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Forwards."""
    op.create_table(
        "guards",
        sa.Column("name_digest", sa.String(length=64), nullable=False),
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("lockouts", sa.Integer(), nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("locked_until", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("name_digest", "source_digest", name="pk_guards"),
    )
    op.create_table(
        "providers",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=256), nullable=False),
        sa.Column("schema", sa.JSON(), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("last_seen", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("party", name="pk_providers"),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("role IN ('analyst', 'admin')", name=op.f("ck_users_role")),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("last_used", MOMENT, nullable=True),
        sa.Column("expires", MOMENT, nullable=False),
        sa.Column("revoked", MOMENT, nullable=True),
        sa.CheckConstraint("kind IN ('program', 'sign-in', 'browser')", name=op.f("ck_api_tokens_kind")),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name="fk_api_tokens_user"),
        sa.PrimaryKeyConstraint("id", name="pk_api_tokens"),
        sa.UniqueConstraint("digest", name="uq_api_tokens_digest"),
    )
    op.create_index("ix_api_tokens_user", "api_tokens", ["user"])
    op.create_table(
        "provider_users",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["providers.party"], name="fk_provider_users_party"),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name="fk_provider_users_user"),
        sa.PrimaryKeyConstraint("party", "user", name="pk_provider_users"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("client", sa.String(length=128), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("attempt_limit", sa.Integer(), nullable=False),
        sa.Column("terms_hash", sa.String(length=64), nullable=True),
        sa.Column("contract_hash", sa.String(length=64), nullable=True),
        sa.Column("contract", sa.JSON(), nullable=True),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("updated", MOMENT, nullable=False),
        sa.Column("queued", MOMENT, nullable=True),
        sa.Column("started", MOMENT, nullable=True),
        sa.Column("finished", MOMENT, nullable=True),
        sa.Column("expires", MOMENT, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("last_event", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "status IN ('requested', 'negotiating', 'refused', 'agreed', 'queued', 'running', 'assembling', "
            "'awaiting_client', 'published', 'failed', 'cancelled', 'expired')",
            name=op.f("ck_sessions_status"),
        ),
        sa.CheckConstraint("attempts >= 0 AND attempts <= attempt_limit", name=op.f("ck_sessions_attempts")),
        sa.ForeignKeyConstraint(["client"], ["users.name"], name="fk_sessions_client"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("contract_hash", name="uq_sessions_contract_hash"),
    )
    op.create_index("ix_sessions_client_created", "sessions", ["client", "created"])
    op.create_index("ix_sessions_status_queued", "sessions", ["status", "queued"])
    op.create_index("ix_sessions_terms_hash", "sessions", ["terms_hash"])
    op.create_table(
        "stale_snapshots",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("commitment", sa.String(length=256), nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["party"], ["providers.party"], name="fk_stale_snapshots_party"),
        sa.PrimaryKeyConstraint("party", "commitment", name="pk_stale_snapshots"),
    )
    op.create_table(
        "events",
        sa.Column("session", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_events_session"),
        sa.PrimaryKeyConstraint("session", "number", name="pk_events"),
    )
    op.create_table(
        "recipients",
        sa.Column("session", sa.String(length=32), nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_recipients_session"),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name="fk_recipients_user"),
        sa.PrimaryKeyConstraint("session", "user", name="pk_recipients"),
    )
    op.create_index("ix_recipients_user", "recipients", ["user"])
    op.create_table(
        "releases",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("session", sa.String(length=32), nullable=False),
        sa.Column("terms_hash", sa.String(length=64), nullable=False),
        sa.Column("table_path", sa.Text(), nullable=False),
        sa.Column("report_path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("published", MOMENT, nullable=True),
        sa.Column("expires", MOMENT, nullable=False),
        sa.Column("removed", MOMENT, nullable=True),
        sa.CheckConstraint("rows >= 0", name=op.f("ck_releases_rows")),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_releases_session"),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
    )
    op.create_index("ix_releases_expires", "releases", ["expires"])
    op.create_index("ix_releases_session", "releases", ["session"])
    op.create_index("ix_releases_terms_hash", "releases", ["terms_hash"])
    op.create_table(
        "session_parties",
        sa.Column("session", sa.String(length=32), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["providers.party"], name="fk_session_parties_party"),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name="fk_session_parties_session"),
        sa.PrimaryKeyConstraint("session", "party", name="pk_session_parties"),
    )
    op.create_index("ix_session_parties_party", "session_parties", ["party"])
    op.create_table(
        "ledger",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.Column("user", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=32), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("cents", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "party"],
            ["session_parties.session", "session_parties.party"],
            name="fk_ledger_session_party",
        ),
        sa.ForeignKeyConstraint(["user"], ["users.name"], name="fk_ledger_user"),
        sa.PrimaryKeyConstraint("id", name="pk_ledger"),
        sa.UniqueConstraint("session", "party", name="uq_ledger_session_party"),
    )
    op.create_index("ix_ledger_party", "ledger", ["party"])
    op.create_index("ix_ledger_user", "ledger", ["user"])
    op.create_table(
        "offers",
        sa.Column("session", sa.String(length=32), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("round", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("terms", sa.JSON(), nullable=False),
        sa.Column("price_cents", sa.BigInteger(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("time", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["session", "party"],
            ["session_parties.session", "session_parties.party"],
            name="fk_offers_session_party",
        ),
        sa.PrimaryKeyConstraint("session", "party", "round", name="pk_offers"),
    )
    op.create_table(
        "release_snapshots",
        sa.Column("release", NUMBER, nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("commitment", sa.String(length=256), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["providers.party"], name="fk_release_snapshots_party"),
        sa.ForeignKeyConstraint(["release"], ["releases.id"], name="fk_release_snapshots_release"),
        sa.PrimaryKeyConstraint("release", "party", name="pk_release_snapshots"),
    )
    op.create_index("ix_release_snapshots_party_commitment", "release_snapshots", ["party", "commitment"])
    _only_add_to_the_ledger()


def downgrade() -> None:
    """Back."""
    for table in (
        "release_snapshots",
        "offers",
        "ledger",
        "session_parties",
        "releases",
        "recipients",
        "events",
        "stale_snapshots",
        "sessions",
        "provider_users",
        "api_tokens",
        "users",
        "providers",
        "guards",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION ledger_is_only_added_to()")


def _only_add_to_the_ledger() -> None:
    refusal = "the ledger is only added to"
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION ledger_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{refusal}'; END $$"
        )
        op.execute(
            "CREATE TRIGGER ledger_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_only_added_to()"
        )
        return
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER ledger_no_{change.lower()} BEFORE {change} ON ledger "
            f"BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        )
