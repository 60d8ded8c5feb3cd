"""What clients declined, until the parties know."""

from __future__ import annotations

from alembic import op

from masquerade.service.store.tables import Base, DeclineRow

revision = "0002"
down_revision = "0001"

_NEW = [DeclineRow.metadata.tables[DeclineRow.__tablename__]]


def upgrade() -> None:
    """Forwards."""
    Base.metadata.create_all(op.get_bind(), _NEW, checkfirst=False)


def downgrade() -> None:
    """Backwards."""
    Base.metadata.drop_all(op.get_bind(), _NEW, checkfirst=False)
