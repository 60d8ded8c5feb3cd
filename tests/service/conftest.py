"""A store on each database that the service can use, empty for every test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from masquerade.service.store import Store
from service.stores import HandClock

if TYPE_CHECKING:
    from conftest import Postgres

_numbers = count()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database: a file that is not there yet, or a schema on the tests' own server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    postgres: Postgres = request.getfixturevalue("postgres")
    name = f"service_{next(_numbers)}"  # a schema is made ten times faster than a database
    postgres.sql(f"CREATE SCHEMA {name} AUTHORIZATION guest;")
    return f"{postgres.trusted}?options=-csearch_path%3D{name}"


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still."""
    return HandClock()


@pytest.fixture
def store(database_url: str, clock: HandClock) -> Iterator[Store]:
    """An empty store."""
    with Store.open(database_url, clock=clock) as opened:
        yield opened
