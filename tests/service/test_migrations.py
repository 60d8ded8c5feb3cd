"""Migrating an empty database gives exactly the tables of the models, and the way back is open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from conftest import PASSWORD
from forked import Forked
from masquerade.errors import ParameterError
from masquerade.service import VERSION_TABLE, Store, alembic_config
from masquerade.service.store.database import migrate
from masquerade.service.store.tables import Base
from service.stores import at_once, furnish

if TYPE_CHECKING:
    from conftest import Postgres


@pytest.fixture
def engine(new_database_url: str) -> Iterator[Engine]:
    """A plain engine on the empty database, past the store's own."""
    made = create_engine(new_database_url.replace("postgresql://", "postgresql+psycopg://"))
    yield made
    made.dispose()


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def differences(connection: Connection) -> Any:
    options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata)


def constraints(engine: Engine) -> dict[str, dict[str, str]]:
    """What `compare_metadata` does not look at: the text of every check."""
    inspector = inspect(engine)
    return {
        table: {str(check["name"]): check["sqltext"] for check in inspector.get_check_constraints(table)}
        for table in inspector.get_table_names()
    }


def test_migrating_gives_the_tables_of_the_models(new_database_url: str, engine: Engine) -> None:
    Store.open(new_database_url).close()
    assert tables(engine) == {*Base.metadata.tables, VERSION_TABLE}
    with engine.connect() as connection:
        assert differences(connection) == []
    migrated = constraints(engine)
    migrate(engine, "again")
    assert constraints(engine) == migrated
    assert "'awaiting_client'" in migrated["sessions"]["ck_sessions_status"]
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        Base.metadata.create_all(connection)
    assert constraints(engine) == migrated
    with engine.begin() as connection:  # and the comparison sees a difference
        connection.execute(text("ALTER TABLE users DROP COLUMN turn"))
        assert len(differences(connection)) == 1


def test_down_and_up_again(new_database_url: str, engine: Engine) -> None:
    Store.open(new_database_url).close()
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert tables(engine) == {VERSION_TABLE}
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
            assert connection.execute(text(functions)).scalar_one() == 0
    with Store.open(new_database_url) as store:
        furnish(store)
    with Store.open(new_database_url) as store:  # what is there is kept
        assert [user.name for user in store.users.all()] == ["ann", "ben"]
        assert [provider.party for provider in store.providers.all()] == ["bank", "shop"]


def test_a_newer_database_is_refused_and_left_alone(new_database_url: str, engine: Engine) -> None:
    with Store.open(new_database_url) as store:
        furnish(store)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(ParameterError, match=r"newer version \(revision 9999; .* up to 0002\); update"):
        Store.open(new_database_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM users")).scalar_one() == 2


def test_somebody_elses_tables_are_left_alone(new_database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE sessions (mine INTEGER)"))
    with pytest.raises(ParameterError, match="holds a table sessions that Masquerade did not make"):
        Store.open(new_database_url)
    assert tables(engine) == {"sessions"}


def test_a_migration_that_fails_leaves_nothing(new_database_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        # An index of a later table is in the way: the first tables are made before it is met.
        connection.execute(text("CREATE TABLE other (a INTEGER)"))
        connection.execute(text("CREATE INDEX ix_releases_expires ON other (a)"))
    with pytest.raises(ParameterError, match="ix_releases_expires"):
        Store.open(new_database_url)
    assert tables(engine) == {"other"}


@pytest.mark.system
def test_coordinators_that_start_together_take_turns(new_database_url: str, tmp_path: Path) -> None:
    opening = tmp_path / "opening.py"
    opening.write_text(
        "import sys; from masquerade.service.store import Store; print(flush=True); input();"
        "Store.open(sys.argv[1]).close()"
    )
    program = [sys.executable, str(opening), new_database_url]
    pipe = subprocess.PIPE
    started = [Forked(program, stdin=pipe, stdout=pipe) for _ in range(4)]
    for process in started:  # all have imported what they need, so that they collide
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=900)
    assert [process.returncode for process in started] == [0] * 4


def test_threads_may_open_stores_together(new_database_url: str, tmp_path: Path) -> None:
    urls = [new_database_url, f"sqlite:///{tmp_path / 'other.db'}"] * 2
    assert at_once(4, lambda number: Store.open(urls[number]).close()) == [None] * 4


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be taken for one\n" * 100)
    with pytest.raises(ParameterError, match=r"notes\.txt: cannot be opened as a database: file is not a database"):
        Store.open("sqlite:///notes.txt", base=tmp_path)
    with pytest.raises(ParameterError, match=r"store\.db: cannot be opened as a database: No such file"):
        Store.open("sqlite:///nowhere/store.db", base=tmp_path)


@pytest.mark.parametrize("url", ["mysql://root:s3cret@host/db", "store.db", ""])
def test_other_urls_are_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Store.open(url)
    assert "sqlite:///file.db" in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_wrong_password_is_not_shown(postgres: Postgres) -> None:
    with pytest.raises(ParameterError) as refused:
        Store.open(postgres.as_steward("fal5ch-Gehe1m"))
    assert "***" in str(refused.value)
    assert "fal5ch" not in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    with Store.open("sqlite:///store.db", base=tmp_path) as store:
        furnish(store)
        rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert rights["store.db"] == 0o600
    assert set(rights.values()) == {0o600}
