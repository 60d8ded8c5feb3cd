"""The coordinator while its database is away, and beside another coordinator: nothing hangs, nothing is done twice."""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

import conftest
from conftest import PASSWORD, Postgres
from forked import MASQUERADE, run
from masquerade.cli import coordinator as cli
from masquerade.errors import ParameterError
from masquerade.service import Coordinator, SessionRecord, Status
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.coordinator.run import ProgressWatch, SessionAttempt
from masquerade.service.coordinator.sign import Signer
from masquerade.service.session_states import COMPUTING
from masquerade.service.store import database
from masquerade.service.store.releases import Releases
from service.coordinators import started
from service.gates import Gate
from service_house import PATIENCE, House, Ports, wait_until

pytestmark = pytest.mark.system

_ks = count(3)
OWN = {"model": "k-anonymity", "qid": ["age", "salary"], "k": 3}


@dataclass
class Server:
    """A PostgreSQL that falls over in the middle of everything, and comes back at the same port."""

    binaries: Path
    home: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        password = PASSWORD.replace("/", "%2F").replace("@", "%40")
        return f"postgresql://steward:{password}@127.0.0.1:{self.port}/masquerade"

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self.home, "port": self.port}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self.home / "server.log").open("ab") as output:
            self.process = subprocess.Popen(
                [str(self.binaries / "postgres"), "-D", str(self.home / "db"), "-c", "fsync=off", *options],
                stdout=output,
                stderr=output,
                **conftest._as(conftest._server_user(), self.home),
            )
        assert conftest._ready(self.binaries, self.process, self.port)

    def fall(self) -> None:
        """As `pg_ctl stop -m immediate` does it: every connection is cut."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=900)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    binaries = conftest._binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed")
    user = conftest._server_user()
    home = Path(tempfile.mkdtemp(prefix="masquerade-pg-", dir="/tmp"))
    ports = Ports()
    made = Server(binaries, home, ports.one())
    try:
        if user is not None:
            shutil.chown(home, user)
        conftest._initialise(binaries, home, user)
        made.start()
        admin = Postgres(binaries, made.port)
        admin.sql(f"CREATE ROLE steward LOGIN PASSWORD '{PASSWORD}'", database="postgres")
        admin.sql("CREATE DATABASE masquerade OWNER steward", database="postgres")
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.fall()
        shutil.rmtree(home)
        ports.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[House]:
    """Two parties, each of which takes one session at a time; the coordinator's database can fall over."""
    one = {"sessions": 1}
    folder = tmp_path_factory.mktemp("outage")
    keys = f'database = "{server.url}"'
    yield from started(House(folder, policies={"bank": one, "clinic": one}, coordinator_keys=keys))


@pytest.fixture(autouse=True)
def _as_configured(house: House) -> Iterator[None]:
    """What a test changes of the configuration is gone after it."""
    yield
    house.write_coordinator()


def wish(house: House, **changes: Any) -> dict[str, Any]:
    """A request that no other test has made, so that no cache answers it."""
    return house.request(privacy=[{"model": "k-anonymity", "qid": ["age", "job"], "k": next(_ks)}]) | changes


# --- outages ---


def on_loop(real: Callable[..., Any], gate: Gate, *, before: bool = False) -> Callable[..., Any]:
    """A coroutine function whose first caller is held, while the event loop goes on."""

    async def held(*given: Any, **more: Any) -> Any:
        if before:
            await asyncio.to_thread(gate.hold)
        answer = await real(*given, **more)
        if not before:
            await asyncio.to_thread(gate.hold)
        return answer

    return held


def interrupted() -> float:
    """How many attempts could not be stored."""
    told = {"outcome": "interrupted"}
    return metrics.registry.get_sample_value("masquerade_attempts_total", told) or 0.0


def causes(coordinator: Coordinator, session: SessionRecord) -> list[str | None]:
    return [e.data["cause"] for e in coordinator.store.events.after(session.id) if e.kind == "status"]


def at_rest(house: House, coordinator: Coordinator) -> None:
    """Nothing is computed, in nobody's eyes; and the next request has its turn."""
    ana = house.user("ana")
    next_one = house.finished(coordinator, coordinator.ask(ana, wish(house)).id)
    assert (next_one.status, next_one.cause, next_one.attempts) == (Status.PUBLISHED, None, 1)
    assert coordinator.store.queue.busy() == {}
    assert coordinator.store.sessions.in_states(*COMPUTING) == []
    wait_until(lambda: metrics.registry.get_sample_value("masquerade_running_sessions") == 0, "nothing runs")
    health = coordinator.health()
    assert (health["ready"], health["database"], health["running"]) == (True, "ok", 0)


@pytest.fixture
def nothing_unretrieved(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No task died unheard."""
    gc.collect()  # what an earlier test has left is not this one's
    with caplog.at_level(logging.ERROR, "asyncio"):
        yield
        gc.collect()
    heard = [*caplog.get_records("call"), *caplog.records]
    assert [record.getMessage() for record in heard if record.name == "asyncio"] == []


@pytest.mark.usefixtures("nothing_unretrieved")
def test_what_runs_and_what_is_negotiated_goes_on_when_the_database_is_back(
    house: House, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = house.user("ana")
    with house.coordinator() as coordinator, Gate() as working, Gate() as signing:
        house.known(coordinator, ana)
        monkeypatch.setattr(SessionAttempt, "_ready", on_loop(SessionAttempt._ready, working))
        first = coordinator.ask(ana, wish(house))
        assert working.entered.wait(PATIENCE)
        monkeypatch.setattr(Signer, "ask_all", on_loop(Signer.ask_all, signing))
        second = coordinator.ask(ana, wish(house))
        assert signing.entered.wait(PATIENCE)
        before = interrupted()
        server.fall()
        try:
            working.opened.set()
            signing.opened.set()
            wait_until(lambda: interrupted() > before, "the attempt cannot be stored")
            told = coordinator.health()
            assert (told["ready"], told["database"], told["running"]) == (False, "does not answer", None)
            assert {party: each["reachable"] for party, each in told["parties"].items()} == {
                "bank": True,
                "clinic": True,
            }
        finally:
            server.start()
        done = house.finished(coordinator, first.id)
        assert (done.status, done.cause, done.attempts) == (Status.PUBLISHED, None, 2)
        assert causes(coordinator, first).count("the coordinator lost its database") == 1
        assert len(coordinator.ledger(ana, session=first.id)) == 2  # once a party
        problems = [e.data for e in coordinator.events(ana, first.id) if e.kind == "problem"]
        assert problems == []  # no party is blamed
        negotiated = house.finished(coordinator, second.id)
        assert (negotiated.status, negotiated.cause, negotiated.attempts) == (Status.PUBLISHED, None, 1)
        at_rest(house, coordinator)


@pytest.mark.usefixtures("nothing_unretrieved")
def test_a_last_attempt_that_could_not_be_stored_fails_for_that_cause_and_leaves_nothing(
    house: House, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = house.user("ana")
    with house.coordinator() as coordinator, Gate() as written:
        house.known(coordinator, ana)
        real = ReleaseFiles.write
        monkeypatch.setattr(ReleaseFiles, "write", lambda *given: (real(*given), written.hold())[0])
        asked = coordinator.ask(ana, wish(house, attempts=1))
        assert written.entered.wait(PATIENCE)
        assert (coordinator.settings.releases / asked.id).is_dir()
        before = interrupted()
        server.fall()
        try:
            written.opened.set()
            wait_until(lambda: interrupted() > before, "the release cannot be stored")
        finally:
            server.start()
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.cause) == (Status.FAILED, "the coordinator lost its database")
        assert coordinator.ledger(ana, session=asked.id) == []
        wait_until(lambda: not (coordinator.settings.releases / asked.id).exists(), "its files are gone")
        at_rest(house, coordinator)


def test_an_outage_that_is_over_before_the_parties_are_done_costs_nothing(
    house: House, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = house.user("ana")
    with house.coordinator() as coordinator, Gate() as handing_in:
        house.known(coordinator, ana)
        looks: list[int] = []

        async def look(self: ProgressWatch, *given: Any) -> Any:
            answer = await real(self, *given)
            looks.append(coordinator.background.outage.lasts)
            return answer

        real = ProgressWatch.look
        monkeypatch.setattr(ProgressWatch, "look", look)
        monkeypatch.setattr(SessionAttempt, "_assembling", on_loop(SessionAttempt._assembling, handing_in, before=True))
        asked = coordinator.ask(ana, wish(house))
        assert handing_in.entered.wait(PATIENCE)
        server.fall()
        try:
            wait_until(lambda: looks[-3:] == [True] * 3, "the parties are watched all the same")
        finally:
            server.start()
        wait_until(lambda: not coordinator.background.outage.lasts, "the database is back")
        handing_in.opened.set()
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.cause, done.attempts) == (Status.PUBLISHED, None, 1)


def test_a_release_that_was_stored_although_its_answer_was_lost_is_published_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = house.user("ana")
    real, lost = Releases.publish, OperationalError("COMMIT", {}, Exception("the connection was lost"))

    def publish(*given: Any) -> Any:
        real(*given)
        raise lost

    with house.coordinator() as coordinator:
        house.known(coordinator, ana)
        before = interrupted()
        with monkeypatch.context() as patch:
            patch.setattr(Releases, "publish", publish)
            # With columns of its own, and a k so small that no column is lost: nothing waits for its client.
            asked = coordinator.ask(ana, house.request(attributes=["age", "salary"], privacy=[OWN]))
            wait_until(lambda: interrupted() > before, "the answer is lost")
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.attempts) == (Status.PUBLISHED, 1)
        at_rest(house, coordinator)
        assert coordinator.session(ana, asked.id).version == done.version  # nobody has touched it since
        assert coordinator.table(ana, asked.id).is_file()
        assert len(coordinator.ledger(ana, session=asked.id)) == 2


def test_a_database_that_can_only_be_read_is_told_and_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.write_coordinator('database = "sqlite:///own.db"', state="sqlite-state")
    ana = house.user("ana")
    with house.coordinator() as coordinator, Gate() as written:
        house.known(coordinator, ana)
        real = ReleaseFiles.write
        monkeypatch.setattr(ReleaseFiles, "write", lambda *given: (real(*given), written.hold())[0])
        asked = coordinator.ask(ana, wish(house))
        assert written.entered.wait(PATIENCE)
        before = interrupted()
        with closing(sqlite3.connect(house.folder / "sqlite-state" / "own.db")) as other:
            other.isolation_level = None
            wait_until(lambda: begun(other), "the database can be locked")
            with impatient(coordinator.store._database.engine):
                written.opened.set()
                wait_until(lambda: interrupted() > before, "the release cannot be stored")
                wait_until(lambda: told(coordinator) == (False, "cannot be written", 1), "the trouble is told")
            other.execute("ROLLBACK")
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.cause, done.attempts) == (Status.PUBLISHED, None, 2)
        wait_until(lambda: coordinator.health()["ready"], "all is well")


def told(coordinator: Coordinator) -> tuple[object, ...]:
    health = coordinator.health()
    return health["ready"], health["database"], health["running"]


def begun(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


@contextmanager
def impatient(engine: Engine) -> Iterator[None]:
    """Wait for the lock of a SQLite database for a moment only; before and after, commits wait for slow ones."""
    usual, milliseconds = database._BUSY_SECONDS * 1000, 200

    def wait_less(connection: sqlite3.Connection, *_more: object) -> None:
        connection.execute(f"PRAGMA busy_timeout={milliseconds}")

    event.listen(engine, "checkout", wait_less)
    yield
    milliseconds = usual


# --- two coordinators ---


def holders(server: Server) -> set[str]:
    """The connections that hold the right to work on the database."""
    told = Postgres(server.binaries, server.port).sql(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
    )
    return set(told.split())


def ended(server: Server, connections: set[str]) -> None:
    for number in connections:
        Postgres(server.binaries, server.port).sql(f"SELECT pg_terminate_backend({number})")


def refused(house: House) -> str:
    """What a second coordinator is told."""
    with Coordinator(house.settings()) as second, pytest.raises(ParameterError) as caught:
        asyncio.run(second.run())
    assert len(caught.value.lines) == 1
    return str(caught.value)


def test_a_second_coordinator_is_refused_and_disturbs_nothing(
    house: House, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ana = house.user("ana")
    with house.coordinator() as coordinator, Gate() as working:
        house.known(coordinator, ana)
        monkeypatch.setattr(SessionAttempt, "_ready", on_loop(SessionAttempt._ready, working))
        asked = coordinator.ask(ana, wish(house, attempts=1))
        assert working.entered.wait(PATIENCE)
        conf, state = house.folder / "coordinator.toml", house.folder / "coordinator-state"
        assert refused(house) == f"{conf}: state: another coordinator uses {state}; stop it first"
        house.write_coordinator(state="another-state")
        shown = f"postgresql://steward:***@127.0.0.1:{server.port}/masquerade"
        assert refused(house) == f"{conf}: database: another coordinator uses {shown}; stop it first"

        words = [MASQUERADE, "coordinator", "serve", str(conf)]
        started = run(words, text=True)
        assert (started.returncode, started.stdout) == (2, "")
        assert started.stderr == f"error: {conf}: database: another coordinator uses {shown}; stop it first\n"

        # Who only looks, or keeps accounts, is not in the way.
        cli.sessions(conf, limit=5, json=True)
        cli.disable(conf, house.user("eve").name, json=True)
        assert asked.id in capsys.readouterr().out

        # A connection that is lost is made again before anybody else could take it for long.
        lost = holders(server)
        ended(server, lost)
        wait_until(lambda: holders(server) - lost, "the right is held by another connection")
        assert "another coordinator uses" in refused(house)
        working.opened.set()
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.cause, done.attempts) == (Status.PUBLISHED, None, 1)
    assert holders(server) == set()


def test_a_coordinator_that_was_replaced_stops_with_that_cause(house: House, server: Server) -> None:
    async def replaced(first: Coordinator, second: Coordinator) -> None:
        async with first.running():
            ended(server, holders(server))
            await asyncio.to_thread(wait_until, second.store.lock.hold, "the other one is faster")
            await asyncio.Event().wait()

    # Nobody is faster than a coordinator that looks all the time: this one looks only when the other is there.
    network = house.memory.network
    with Coordinator(house.settings(), network=network) as first, Coordinator(house.settings()) as second:
        real = first.single_instance.check
        first.single_instance.check = lambda: real() if second_holds(second) else None  # type: ignore[method-assign]
        with pytest.raises(ParameterError) as caught:
            asyncio.run(replaced(first, second))
        second.store.lock.release()
    shown = f"postgresql://steward:***@127.0.0.1:{server.port}/masquerade"
    assert caught.value.lines == (
        f"{shown}: another coordinator took this database while our connection to it was lost; stopped, so that no"
        " session is run by both",
    )


def second_holds(second: Coordinator) -> bool:
    return getattr(second.store.lock, "_connection", None) is not None


def test_a_lost_connection_that_the_server_takes_for_alive_is_ended_by_its_owner(house: House) -> None:
    with house.store() as store, house.store() as other:
        lock: Any = store.lock
        assert lock.hold()
        ghost, lock._connection = lock._connection, None  # as when the line was cut without a word
        try:
            assert not other.lock.hold()
            assert lock.hold()
            assert not other.lock.hold()
        finally:
            ghost.close()
            lock.release()
        assert other.lock.hold()
        other.lock.release()
