"""What tests of the service start from: an empty store on each database, accounts, identities, an API that answers."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import structlog

from fake_clock import FakeClock
from masquerade.net import make_trial
from masquerade.service import Accounts, Store
from masquerade.service.store.tables import Base
from service.credentials import CHEAP, LOCKOUT, RIGHT

if TYPE_CHECKING:
    import httpx

    from conftest import Postgres
    from masquerade.service import Coordinator
    from service.api_server import Room
    from service.party_nodes import Folder
    from service_house import House

_numbers = count()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run each coroutine function in a loop of its own; nothing that is waited for takes this long."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    async def bounded() -> None:
        async with asyncio.timeout(300):
            await pyfuncitem.obj(**given)

    asyncio.run(bounded())
    return True


def _new_schema(postgres: Postgres) -> str:
    name = f"service_{next(_numbers)}"  # a schema is made ten times faster than a database
    postgres.sql(f"CREATE SCHEMA {name} AUTHORIZATION guest;")
    return f"{postgres.trusted}?options=-csearch_path%3D{name}"


@pytest.fixture(autouse=True)
def _log_to_read() -> None:
    """A log on standard output, whatever servers of other tests in this process did to it."""
    structlog.reset_defaults()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without tables: a file that is not there yet, or a schema on the tests' own server."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return _new_schema(request.getfixturevalue("postgres"))


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database with empty tables, to be copied: that takes less than to migrate one."""
    path = tmp_path_factory.mktemp("migrated") / "store.db"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def migrated_schema(postgres: Postgres) -> str:
    """A PostgreSQL schema with tables, to be emptied: that takes less than to migrate one."""
    url = _new_schema(postgres)
    Store.open(url).close()
    return url


@pytest.fixture(autouse=True)
def _log_to_read() -> None:
    """A log on standard output, whatever servers of other tests in this process did to it."""
    structlog.reset_defaults()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with empty tables."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "store.db")
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("migrated_schema")
    with psycopg.connect(url.replace("guest@", "postgres@"), autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")  # no trigger keeps the ledger as it is
        superuser.execute(f"TRUNCATE {', '.join(Base.metadata.tables)} RESTART IDENTITY CASCADE")
    return url


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock()


@pytest.fixture
def store(database_url: str, clock: FakeClock) -> Iterator[Store]:
    """An empty store."""
    with Store.open(database_url, clock=clock.now) as opened:
        yield opened


@pytest.fixture
def accounts(store: Store) -> Accounts:
    """Accounts with one analyst, ann."""
    made = Accounts(store, lockout=LOCKOUT, hasher=CHEAP)
    made.create("ann", RIGHT)
    return made


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the identities and trust stores of a coordinator and two parties."""
    folder = tmp_path_factory.mktemp("trial")
    make_trial(folder, ["coordinator", "bank", "clinic"])
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with a node's files for each party."""
    from service.party_nodes import Folder

    return Folder(tmp_path)


@pytest.fixture(scope="module")
def coordinator(house: House) -> Iterator[Coordinator]:
    """The coordinator of a module's house, which knows the parties and a user."""
    with house.coordinator() as made:
        house.known(made, house.user("ana"))
        yield made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A coordinator's API on a real server: each file of tests has its own."""
    from service.api_server import room  # slow to import, and most tests of this folder need none

    with room(tmp_path_factory.mktemp("api") / "room") as made:
        yield made


@pytest.fixture
def ana(place: Room) -> Iterator[httpx.Client]:
    """An analyst who has signed in."""
    with place.client("ana") as client:
        yield client


@pytest.fixture
def ben(place: Room) -> Iterator[httpx.Client]:
    """Another analyst."""
    with place.client("ben") as client:
        yield client


@pytest.fixture
def root(place: Room) -> Iterator[httpx.Client]:
    """The admin."""
    with place.client("root") as client:
        yield client
