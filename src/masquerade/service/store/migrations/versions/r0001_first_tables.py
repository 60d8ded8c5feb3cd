"""The first tables: as tables.py has them, so that there is one list of columns and not two.

A revision must never change once somebody's database was made by it. No version is released yet, so this one follows
the models. Whoever changes the models after a release first writes the columns of that release down here.
"""

from __future__ import annotations

from alembic import op

from masquerade.service.store.tables import Base, DeclineRow

revision = "0001"
down_revision = None

_FIRST = [table for table in Base.metadata.sorted_tables if table is not DeclineRow.__table__]  # that is 0002


def upgrade() -> None:
    """Forwards."""
    Base.metadata.create_all(op.get_bind(), _FIRST, checkfirst=False)
    _only_add_to_the_ledger()


def downgrade() -> None:
    """Back."""
    Base.metadata.drop_all(op.get_bind(), _FIRST, checkfirst=False)
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
