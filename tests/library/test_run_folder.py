"""Folders of runs: alone, removed in the end, and swept when their run was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from masquerade.errors import ParameterError
from masquerade.jobs.session import run_folder

KILLED = """
import os, sys
from masquerade.jobs.session import run_folder
with run_folder() as folder:
    (folder / "bank.jsonl").write_text("half")
    print(folder, flush=True)
    sys.stdin.read()
    os._exit(9)
"""


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_two_at_once_are_two_and_both_are_gone_in_the_end(base: Path) -> None:
    with run_folder() as one:
        (one / "some.file").touch()
        with run_folder() as other:
            assert one != other
            assert one.stat().st_mode & 0o777 == 0o700
        assert [*base.iterdir()] == [one]
    assert [*base.iterdir()] == []


@pytest.mark.system
def test_a_killed_runs_folder_is_swept_and_a_living_ones_is_not(base: Path) -> None:
    for name in ("masquerade-run-notes-of-mine", "masquerade-demo"):
        (base / name).mkdir()
    command, environment = [sys.executable, "-c", KILLED], {**os.environ, "TMPDIR": str(base)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with run_folder():
            assert (left / "bank.jsonl").exists()
        process.communicate()
    assert (left / "bank.jsonl").exists()
    with run_folder():
        assert not left.exists()
    assert sorted(path.name for path in base.iterdir()) == ["masquerade-demo", "masquerade-run-notes-of-mine"]


def test_a_place_where_nothing_can_be_made_is_named(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (base / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(base / "file"))
    with pytest.raises(ParameterError, match="file: no folder can be made in it: Not a directory"), run_folder():
        pass
