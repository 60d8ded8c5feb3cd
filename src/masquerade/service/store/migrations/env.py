"""Alembic's entry. The store hands in its connection, and with it the transaction in which everything happens."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from masquerade.service.store.database import VERSION_TABLE
from masquerade.service.store.tables import Base


def migrate() -> None:
    """Run the revisions that were asked for."""
    connection: Connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


migrate()
