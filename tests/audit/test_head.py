"""A log that was emptied, removed, cut short or put back from an old copy is noticed, by its head beside it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.logs import BANK, events, records
from masquerade.audit import AuditLog, head_path, read_head, verify
from masquerade.errors import Conflict, ParameterError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of five records, and a copy of it with four."""
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, BANK) as opened:
        opened.contract(b"{}")
        opened.append("test", {})
        shutil.copy(path, tmp_path / "old.jsonl")
        opened.append("test", {})
    return path


def _cut(path: Path) -> None:
    os.truncate(path, path.read_bytes()[:-1].rindex(b"\n") + 1)


def _torn(path: Path) -> None:
    os.truncate(path, 20)


def _anew(path: Path) -> None:
    path.rename(path.with_name("away"))
    other = path.with_name("other.jsonl")
    with AuditLog(other, BANK) as opened:
        for _ in range(3):
            opened.append("test", {})
    other.rename(path)


@pytest.mark.parametrize(
    ("harm", "told", "line"),
    [
        (lambda path: os.truncate(path, 0), "nothing is there, but 5 records were written", 1),
        (os.remove, "nothing is there, but 5 records were written", 1),
        (_cut, "it ends with record 4, but 5 records were written: its end was cut off", 5),
        (lambda path: path.with_name("old.jsonl").replace(path), "it ends with record 4, but 5", 5),
        (_torn, "nothing is there, but 5 records were written", 1),
        (_anew, "its last record, 5, is not the one that was written", 5),
    ],
    ids=["emptied", "removed", "cut", "old copy", "torn", "anew"],
)
def test_what_is_missing_is_noticed_and_gone_on_with_only_when_somebody_says_so(
    log: Path, harm: Callable[[Path], None], told: str, line: int
) -> None:
    last = read_head(log)
    assert last is not None
    assert last == verify(log, certificates=[BANK.certificate]).last
    harm(log)
    found = verify(log)
    assert (found.whole, found.first_bad) == (False, line)
    left = log.read_bytes() if log.exists() else b""
    for _ in range(2):  # looking does not mend it
        with pytest.raises(ParameterError) as error:
            AuditLog(log, BANK)
        assert told in str(error.value)
        assert f"masquerade audit forget {log} --identity" in str(error.value)
    assert log.read_bytes() == left
    with AuditLog(log, BANK, forget={"user": "ada"}) as opened:
        opened.append("test", {})
    assert events(log)[-2:] == ["cut", "test"]
    kept = line - 1 if harm is not _anew else 5
    assert records(log)[-2]["fields"] == {
        "user": "ada", "found": kept, "record": 5, "hash": last.hash,
    }  # fmt: skip
    assert verify(log, certificates=[BANK.certificate]).whole
    with pytest.raises(Conflict, match="nothing is missing"):
        AuditLog(log, BANK, forget={})


def test_a_head_that_is_older_than_the_log_is_no_fault(log: Path) -> None:
    """As after a power cut; and a copy of a log may come without its head."""
    before = head_path(log).read_bytes()
    with AuditLog(log, BANK) as opened:
        opened.append("test", {})
    head_path(log).write_bytes(before)
    assert verify(log).whole
    AuditLog(log, BANK).close()
    assert read_head(log) == verify(log).last
    for nothing in (b"", b"\0" * 85):
        head_path(log).write_bytes(nothing)
        AuditLog(log, BANK).close()
        assert read_head(log) == verify(log).last
    head_path(log).unlink()
    assert verify(log).whole
    AuditLog(log, BANK).close()
    assert read_head(log) == verify(log).last
    assert head_path(log).stat().st_mode & 0o777 == 0o600


def test_a_longer_log_that_was_written_anew_does_not_hold_the_record_of_the_head(log: Path) -> None:
    head = head_path(log).read_bytes()
    log.unlink()
    head_path(log).unlink()
    with AuditLog(log, BANK) as opened:
        for _ in range(9):
            opened.append("test", {})
    head_path(log).write_bytes(head)
    found = verify(log)
    assert (found.first_bad, found.records) == (5, 4)
    assert "not the record that was written here" in (found.problem or "")


def test_a_head_that_is_damaged(log: Path) -> None:
    head_path(log).write_bytes(b"\xff seventeen\n")
    for act in (lambda: verify(log), lambda: AuditLog(log, BANK)):
        with pytest.raises(ParameterError, match=r"audit\.head: is damaged"):
            act()
