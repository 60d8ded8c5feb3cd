"""What tests of several rooms share: how properties are tried, a PostgreSQL, and a folder that is closed to them."""

from __future__ import annotations

import gc
import getpass
import logging
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from examples import QUICK, examples

# `make test` tries the same examples every time: it fails for a change, not for its luck; `make explore` seeks new ones
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=examples(100))
hypothesis.settings.register_profile("exploring", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Whatever asks for one of these starts a process, a database or a browser.
_SYSTEM = {"postgres", "browser", "page", "site", "visit", "place"}

# Where tests play whole sessions, in this process: too slow, all together, for the inner loop.
_SESSIONS = (
    *("attacks/", "cli/", "console/", "contract/test_learning_methods", "contract/test_session_methods"),
    *("fuzz/", "leakage/", "library/", "net/", "protocol/"),
    *(
        f"service/test_{name}"
        for name in (
            *("account", "answer_sessions", "api", "comeback", "coordinator", "dka", "horizontal", "lockout"),
            *("migrations", "model_sessions", "mutual", "node", "one_column", "roll_ups", "second"),
            *("service", "signed", "store", "waiting"),
        )
    ),
)
_HERE = Path(__file__).parent

# Where sessions between parties are played for what they make of the parties' tables.
_OPEN_TRANSFERS = ("contract/", "protocol/")


gc.disable()  # while tests are collected: hardly anything that is loaded is ever let go


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even load what `make quick` leaves out."""
    left_out = QUICK and "not sessions" in config.option.markexpr
    return True if left_out and _plays_sessions(collection_path) else None


def _plays_sessions(path: Path) -> bool:
    return path.relative_to(_HERE).as_posix().startswith(_SESSIONS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        wants = getattr(getattr(item, "callspec", None), "params", {})
        if fixtures & _SYSTEM or "postgresql" in (wants.get("database_url"), wants.get("new_database_url")):
            item.add_marker(pytest.mark.system)
        # Chromium on a busy machine loses a press in a thousand; the summary names it
        if "browser" in fixtures:
            item.add_marker(pytest.mark.flaky(reruns=1))
        if _plays_sessions(item.path):
            item.add_marker(pytest.mark.sessions)


_running: list[pytest.Item] = []  # the test that runs, with the fixtures that are made for it
_start_process = subprocess.Popen.__init__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Know which test starts a process."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


def _start_if_marked(process: subprocess.Popen[Any], words: Any, *arguments: Any, **options: Any) -> None:
    """A test that starts a process, itself or by a fixture, is marked: `make quick` leaves it out."""
    asked_by = sys._getframe(1).f_globals["__name__"]
    is_marked = not _running or _running[-1].get_closest_marker("system") is not None
    if not is_marked and asked_by != "ctypes.util":  # a library that is imported looks for the C library
        pytest.fail("this test starts a process: mark it with pytest.mark.system")
    _start_process(process, words, *arguments, **options)


subprocess.Popen.__init__ = _start_if_marked  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Undo what a command run in this process did to its logging: the next test may read its own log."""
    handlers = logging.getLogger().handlers
    import structlog

    before = structlog.get_config()
    yield
    structlog.configure(**before)
    logging.getLogger().handlers = handlers


@pytest.fixture(autouse=True, scope="module")
def _open_transfers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spare small sessions the public-key cryptography at their beginning, which takes longer than the rest."""
    if not request.path.relative_to(_HERE).as_posix().startswith(_OPEN_TRANSFERS):
        yield
        return
    from open_transfers import open_transfers

    with open_transfers():
        yield


@pytest.fixture(scope="module")
def few_queries() -> Iterator[None]:
    """Ask few random queries of each release: 2,500 take far longer than to anonymize a small table."""
    from masquerade.utility import queries

    asked = queries.random_queries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "random_queries", lambda sizes, _n, seed: asked(sizes, 3, seed))
        yield


PASSWORD = "Zw3i/Herzen@7"  # with signs that a URL must encode, and that nothing else in a message contains


@dataclass(frozen=True)
class Postgres:
    """A running server: `trusted` needs no password, the role `steward` needs `PASSWORD`."""

    binaries: Path
    port: int

    @property
    def trusted(self) -> str:
        return f"postgresql://guest@127.0.0.1:{self.port}/masquerade"

    def as_steward(self, password_in_url: str) -> str:
        return f"postgresql://steward:{password_in_url}@127.0.0.1:{self.port}/masquerade"

    def sql(self, script: str, database: str = "masquerade") -> str:
        """Run a script as the superuser, past our own reader; its bare output."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database]
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        program = str(self.binaries / command[0])
        run = subprocess.run(
            [program, *command[1:], *options], input=script, check=True, text=True, stdout=subprocess.PIPE
        )
        return run.stdout


@pytest.fixture
def without_rights() -> Iterator[Path]:
    """A folder with a file that this process, root or not, may look up but neither read nor write."""
    folder = Path(tempfile.mkdtemp(prefix="masquerade-", dir="/tmp"))  # root's tmp_path is closed to others
    (folder / "secret.csv").write_text("a\n1\n")
    (folder / "secret.csv").chmod(0)
    folder.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield folder
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server in a folder of its own, gone after the tests. Each xdist worker has one."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (no initdb on PATH or in /usr/lib/postgresql): `make test` adds it")
    user = _server_user()
    home = Path(tempfile.mkdtemp(prefix="masquerade-pg-", dir="/tmp"))
    process: subprocess.Popen[bytes] | None = None
    try:
        if user is not None:
            shutil.chown(home, user, pwd.getpwnam(user).pw_gid)
        _initialise(binaries, home, user)
        process, port = _start(binaries, home, user)
        server = Postgres(binaries, port)
        server.sql(
            f"CREATE ROLE steward LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE guest LOGIN;CREATE DATABASE masquerade;",
            database="postgres",
        )
        server.sql("GRANT ALL ON SCHEMA public TO guest, steward;")
        yield server
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # "fast" shutdown: disconnect everybody, then stop cleanly
            process.wait(timeout=900)
        shutil.rmtree(home)


def _binaries() -> Path | None:
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(found, key=lambda initdb: float(initdb.parts[-3]), default=None)
    return newest.parent if newest is not None else None


def _server_user() -> str | None:
    """PostgreSQL refuses to run as root: then it runs as the user that its package made, or as nobody."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _initialise(binaries: Path, home: Path, user: str | None) -> None:
    initdb = [binaries / "initdb", "-D", home / "db", "-U", "postgres", "-A", "trust"]
    options = ["--no-sync", "--locale=C", "--encoding=UTF8"]
    _checked([*map(str, initdb), *options], home, user)
    (home / "db" / "pg_hba.conf").write_text(
        "host all steward 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n"
    )


def _start(binaries: Path, home: Path, user: str | None) -> tuple[subprocess.Popen[bytes], int]:
    log = home / "server.log"
    for _attempt in range(5):  # another process may take the free port first
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": home, "fsync": "off", "port": port}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(binaries / "postgres"), "-D", str(home / "db"), *options],
                stdout=output,
                stderr=output,
                **_as(user, home),
            )
        if _ready(binaries, process, port):
            return process, port
        process.kill()
        process.wait()
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")


def _ready(binaries: Path, process: subprocess.Popen[bytes], port: int) -> bool:
    asking = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    for _attempt in range(300):
        if process.poll() is not None:
            return False
        if subprocess.run(asking, check=False).returncode == 0:
            return True
        time.sleep(0.1)
    return False


def _checked(command: list[str], home: Path, user: str | None) -> None:
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **_as(user, home))
    if run.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{run.stdout.decode()}")


def _as(user: str | None, home: Path) -> dict[str, Any]:
    """How to start a process as the server's user: in a folder and with an environment that are its own."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(home)}
    if user is None:
        return {"cwd": home, "env": environment | {"USER": getpass.getuser()}}
    return {
        "cwd": home,
        "env": environment | {"USER": user},
        "user": user,
        "group": pwd.getpwnam(user).pw_gid,
        "extra_groups": [],
    }
