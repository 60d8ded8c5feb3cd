"""What clients declined, until the parties know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Forwards."""
    op.create_table(
        "declines",
        sa.Column("contract_hash", sa.String(length=64), nullable=False),
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.ForeignKeyConstraint(["party"], ["providers.party"], name="fk_declines_party"),
        sa.PrimaryKeyConstraint("contract_hash", "party", name="pk_declines"),
    )


def downgrade() -> None:
    """Backwards."""
    op.drop_table("declines")
