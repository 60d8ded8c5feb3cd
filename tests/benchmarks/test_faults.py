"""The fault campaign notices what it is there to notice, and a run of it finds nothing."""

from __future__ import annotations

import hashlib
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from masquerade.cli import bench

pytestmark = pytest.mark.system

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def faults() -> ModuleType:
    return bench._load("faults", FOLDER / "faults.py")


def ended(faults: ModuleType, code: int | None = 0, killed: bool = False, said: str = "error: no") -> Any:
    return faults.Ended(code, killed, said)


@pytest.fixture
def left(faults: ModuleType, tmp_path: Path) -> Callable[..., list[str]]:
    """What is told of a folder after a run that released four records of one group, changed by `change`."""
    job = faults.SCENES[0].write(tmp_path / "run")
    before = {*job.parent.rglob("*")}
    table, report = job.with_name("release.csv"), job.with_name("report.html")
    lines = ["job,town,disease", *["Any-job,Any-town,Flu"] * 4]
    table.write_text("\n".join(lines) + "\n")
    report.write_text(f"<p>{hashlib.sha256(table.read_bytes()).hexdigest()}</p>")
    clean = faults.Clean(faults.SCENES[0], job, sorted(lines), 1.0)

    def told(end: Any, change: Callable[[Path], object] = lambda _: None) -> list[str]:
        change(job.parent)
        return [*faults._violations(clean, job, end, before)]

    return told


def test_a_sound_release_is_no_violation(faults: ModuleType, left: Callable[..., list[str]]) -> None:
    assert left(ended(faults)) == []
    assert left(ended(faults, -9, killed=True)) == []


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("code", "said", "change", "told"),
    [
        (None, "", lambda _: None, "it has not ended"),
        (4, "error: a bug", lambda _: None, "exit code 4"),
        (-9, "", lambda _: None, "exit code -9"),
        (0, "Traceback", lambda _: None, "a traceback"),
        (0, "ORPHANS: 1", lambda _: None, "processes are left"),
        (3, "", without("release.csv"), "no error is told"),
        (3, "error: peer", lambda _: None, "there is a release, though the exit code is 3"),
        (0, "", without("release.csv"), "no release, though all was well"),
        (2, "error: disk", without("release.csv"), "a report without a release"),
        (0, "", without("report.html"), "a release without its report"),
        (0, "", lambda at: (at / "report.html").write_text("old"), "the report is another release's"),
        (0, "", lambda at: (at / "release.csv").write_text("job,town\nBaker,Bern\n"), "violates its requirement"),
        (0, "", lambda at: (at / "core").write_text(""), "left behind: core"),
        (0, "", lambda at: (at / ".x.tmp").write_text("BEGIN PRIVATE KEY"), "a private key is left"),
    ],
)
def test_violations_are_noticed(
    code: int | None,
    said: str,
    change: Callable[[Path], object],
    told: str,
    faults: ModuleType,
    left: Callable[..., list[str]],
) -> None:
    assert any(told in each for each in left(ended(faults, code, said=said), change))


@pytest.mark.parametrize(("action", "arrives"), [("cut", b""), ("corrupt", b"(ello"), ("delay", b"hello")])
def test_a_connection_suffers_its_fault(action: str, arrives: bytes, faults: ModuleType) -> None:
    network = sys.modules["_faulty_network"].FaultyNetwork(faults.Fault(action, 1, 0, 0.01))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=echo, args=(listening,), daemon=True).start()
        host, _, port = network.through(f"127.0.0.1:{listening.getsockname()[1]}").rpartition(":")
        for wanted in (b"hello", arrives):  # the first connection is left alone
            with socket.create_connection((host, int(port)), timeout=900) as connection:
                connection.sendall(b"hello")
                assert heard(connection) == wanted


def heard(connection: socket.socket) -> bytes:
    try:
        return connection.recv(5)
    except ConnectionResetError:
        return b""


def echo(listening: socket.socket) -> None:
    with suppress(OSError):  # it is closed at the end
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(heard(connection))


def test_one_run_of_each_kind_of_session(faults: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "SERVICE_EVERY", 2)
    monkeypatch.setattr(faults, "RUNS", 2)
    monkeypatch.setattr(faults, "SCENES", faults.SCENES[:1])
    told: list[str] = []
    figures = faults.run(told.append, None)
    assert figures["violations"] == {}, told
    assert sum(figures["runs"].values()) == 2
    assert any(name.startswith("service") for name in figures["runs"])
