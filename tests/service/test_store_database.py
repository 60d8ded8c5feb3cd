"""The database below the store: who may work on it, what is an outage, and how SQLite is set up."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from masquerade.errors import Conflict, ParameterError
from masquerade.service.resources import Role
from masquerade.service.store import Store, is_outage
from service.stores import furnish


def test_one_at_a_time_has_the_right_to_work_on_a_store(database_url: str) -> None:
    with Store.open(database_url) as first, Store.open(database_url) as second:
        assert first.lock.hold()
        assert first.lock.hold()  # still ours
        assert not second.lock.hold()
        first.users.add("ann", "no hash", Role.ANALYST)
        assert second.users.get("ann").name == "ann"  # who only looks or keeps accounts needs no right
        second.probe()
        first.lock.release()
        assert second.lock.hold()
        assert not first.lock.hold()
        second.lock.release()


def test_the_store_answers_for_its_health(store: Store) -> None:
    store.ping()


def test_an_outage_is_told_from_a_mistake(store: Store) -> None:
    with pytest.raises(DBAPIError) as caught, store._database.writing() as transaction:
        transaction.execute(text("INSERT INTO users (name) VALUES (NULL)"))
    assert not is_outage(caught.value)  # it would fail again
    assert not is_outage(Conflict("somebody was faster"))
    assert is_outage(OperationalError("COMMIT", {}, Exception("gone")))
    secret = "postgresql://a:Zw3iHerzen@127.0.0.1:1/x"
    with pytest.raises(ParameterError) as refused:
        Store.open(secret)
    assert "Zw3iHerzen" not in str(refused.value)


def test_sqlite_is_set_up_for_many_threads(tmp_path: Path) -> None:
    with Store.open("sqlite:///store.db", base=tmp_path) as store:
        furnish(store)
        with store._database.engine.connect() as connection:
            found = {
                name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
                for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
            }
    assert found == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30_000, "synchronous": 2}


def test_a_reader_waits_for_no_writer(tmp_path: Path) -> None:
    with Store.open("sqlite:///store.db", base=tmp_path) as store:
        furnish(store)
        writer = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE users SET role = 'admin'")
        assert store.users.get("ann").role is Role.ANALYST
        writer.execute("COMMIT")
        writer.close()
        assert store.users.get("ann").role is Role.ADMIN


def test_a_connection_in_use_is_closed_when_it_is_returned(tmp_path: Path) -> None:
    """A thread may still be reading when the store is closed; its connection must not be left open."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    with store._database.reading() as transaction:
        connection = transaction.connection().connection.dbapi_connection
        assert isinstance(connection, sqlite3.Connection)
        store.close()
        assert transaction.execute(text("SELECT 1")).scalar() == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
