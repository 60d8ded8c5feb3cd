"""Crashes and others that write: no line of an audit log is lost, and no other file is touched."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from audit.logs import BANK, SESSION, events, records, whole_log
from examples import examples
from masquerade.audit import Anchor, AuditLog, verify
from masquerade.errors import ParameterError
from masquerade.net import Entry
from net.nodes import PEOPLE

pytestmark = pytest.mark.system

WRITER = Path(__file__).with_name("writer.py")
thorough = settings(max_examples=examples(150), deadline=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[bytes]:
    return whole_log(folder)


@thorough
@given(data=st.data())
def test_a_torn_line_is_set_aside_and_told(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(lines)
    kept = whole[: data.draw(st.integers(1, len(whole)))]
    path, aside = folder / "torn.jsonl", folder / "torn.jsonl.torn"
    path.write_bytes(kept)
    aside.unlink(missing_ok=True)
    with AuditLog(path, BANK, durable=False, seal_every=5) as log:
        log.append("test", {})
    good, _, torn = kept.rpartition(b"\n")
    assert path.read_bytes().startswith(good)
    assert verify(path, certificates=[BANK.certificate]).whole
    told = [record["fields"] for record in records(path) if record["event"] == "recovered"]
    if torn:
        assert [(each["bytes"], each["file"]) for each in told] == [(len(torn), "torn.jsonl.torn")]
        assert told[0]["digest"] == hashlib.sha256(torn).hexdigest()
        assert aside.read_bytes() == torn + b"\n"
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    else:
        assert not told
        assert not aside.exists()


def writer(log: Path, folder: Path, records: int, size: int, word: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WRITER), str(log), str(folder), str(records), str(size), word]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_processes_that_write_at_once_take_turns(tmp_path: Path) -> None:
    BANK.save(tmp_path / "bank")
    path = tmp_path / "log"
    words = ("one", "two")
    running = [writer(path, tmp_path / "bank", 300, 5000, word) for word in words]
    anchors = []
    for process in running:
        out, _ = process.communicate(timeout=600)  # every record is on the disk before the next
        assert process.returncode == 0
        anchors += [Anchor.read(line) for line in out.decode().split()]
    found = verify(path, anchors, [BANK.certificate])
    assert (found.whole, found.problem, len(anchors)) == (True, None, 600)
    written = [record["fields"] for record in records(path) if record["event"] == "test"]
    for word in words:
        assert [each["turn"] for each in written if each["writer"] == word] == list(range(300))
    assert events(path).count("genesis") == 1


def test_threads_that_write_at_once_take_turns(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log", BANK, durable=False) as log:
        threads = [threading.Thread(target=lambda: [log.append("test", {}) for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert events(tmp_path / "log").count("test") == 800
    assert verify(tmp_path / "log").whole


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_killed_writer_loses_nothing_that_it_had_written(tmp_path: Path, size: int) -> None:
    BANK.save(tmp_path / "bank")
    path = tmp_path / "log"
    anchors: list[Anchor] = []
    for turn in range(4):
        process = writer(path, tmp_path / "bank", 0, size, "doomed")
        assert process.stdout is not None
        for _ in range(turn + 1):
            anchors.append(Anchor.read(process.stdout.readline().decode().strip()))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=900)
        anchors += [Anchor.read(line) for line in rest.decode().splitlines() if line.count(":") and len(line) > 65]
        left = verify(path)
        assert left.whole or "torn end" in (left.problem or "")
        with AuditLog(path, BANK, durable=False):
            pass
        found = verify(path, anchors, [BANK.certificate])
        assert (found.whole, found.problem) == (True, None)
        assert (events(path).count("recovered") > 0) == (tmp_path / "log.torn").exists()


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file of this process grows larger: a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_stops_the_message_and_the_log_recovers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with AuditLog(path, BANK) as log:
        log.append("test", {})
        with room(path.stat().st_size + 100), pytest.raises(ParameterError, match="log: the audit log cannot be"):
            log.message(SESSION, Entry(0, 0.0, "sent", "loans", "offer", 1, "d" * 64))
        assert verify(path).problem == "torn end: it was cut short after 100 bytes, in a crash or by somebody"
        log.append("later", {})
    assert events(path) == ["genesis", "seal", "test", "recovered", "later"]
    assert verify(path).whole


# --- what is not a log to write to ---


@pytest.mark.parametrize("data", [b"a secret", b"a,b\n1,2\n", b"\n", b"{}"])
def test_another_file_is_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(ParameterError, match="other: not an audit log, and nothing is written to it"):
        AuditLog(path, BANK)
    assert path.read_bytes() == data
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


def test_logs_that_are_refused(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ParameterError, match="log: the audit log of party bank, not of loans"):
        AuditLog(path, PEOPLE["loans"])
    path.write_bytes(b"".join(lines)[:-10] + b"?" * 9 + b"\n")
    with pytest.raises(ParameterError, match=r"log: the last line is damaged \(not JSON\); nothing is added"):
        AuditLog(path, BANK)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(ParameterError, match="line 1 is not the beginning of an audit log"):
        AuditLog(path, BANK)
    with pytest.raises(ParameterError, match="nowhere/log: the audit log cannot be written: No such file"):
        AuditLog(tmp_path / "nowhere" / "log", BANK)
    with pytest.raises(ParameterError, match="/dev/null: not a file, which an audit log is"):
        AuditLog(Path("/dev/null"), BANK)
    with pytest.raises(ParameterError, match="sealed every 2 records or more, not every 1"):
        AuditLog(tmp_path / "new", BANK, seal_every=1)
    assert not (tmp_path / "new").exists()


def test_a_log_that_is_taken_away_while_in_use(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with AuditLog(path, BANK) as log:
        with pytest.raises(ParameterError, match="the event seal is the log's own"):
            log.append("seal", {})
        os.truncate(path, path.stat().st_size - 1)
        with pytest.raises(ParameterError, match="log: the audit log was cut while it is in use"):
            log.append("test", {})
        path.unlink()
        with pytest.raises(ParameterError, match="log: the audit log was removed while it is in use"):
            log.append("test", {})
