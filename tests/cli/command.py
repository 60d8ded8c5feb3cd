"""Runs commands: in this process, quickly; in a forked one; or as the real thing in a process that loads all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forked import MASQUERADE, run as run_forked
from masquerade.cli.app import run

_PROGRESS = re.compile(r"^\d+ s: (.*)\n", re.MULTILINE)


def without_progress(err: str) -> str:
    """What was said on standard error, but for the lines that only a slow machine sees."""
    return _PROGRESS.sub("", err)


@dataclass(frozen=True)
class Answer:
    """What a command left behind; what it told of its progress, which only a slow machine sees, is not in `err`."""

    code: int
    out: str
    err: str
    progress: tuple[str, ...] = ()

    @classmethod
    def of(cls, code: int, out: str, err: str) -> Answer:
        return cls(code, out, without_progress(err), tuple(_PROGRESS.findall(err)))

    @property
    def json(self) -> Any:
        """The one JSON object on standard output."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def problems(self) -> list[str]:
        """The `error:` lines, which are all that standard error holds."""
        lines = self.err.splitlines()
        assert all(line.startswith("error: ") for line in lines), self.err
        return [line.removeprefix("error: ") for line in lines]


def here(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Answer:
    """Run a command in this process."""
    before = sys.argv
    sys.argv = ["masquerade", *map(str, words)]
    capsys.readouterr()
    try:
        code = run()
    finally:
        sys.argv = before
    return Answer.of(code, *capsys.readouterr())


def answered(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Answer:
    """Run a command in this process that must succeed, with nothing to complain about."""
    answer = here(capsys, *words)
    assert (answer.code, answer.err) == (0, "")
    return answer


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 2) -> list[str]:
    """Run a command in this process that must fail with this code and answer nothing; return its problems."""
    answer = here(capsys, *words)
    assert (answer.code, answer.out) == (code, ""), answer.err
    return answer.problems


def process(*words: str | Path, program: str = MASQUERADE, **options: Any) -> Answer:
    """Run a command in a process of its own."""
    environment = {**os.environ, "COLUMNS": "80", **options.pop("env", {})}
    command = [program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=900, **options)
    return Answer.of(done.returncode, done.stdout.decode(), done.stderr.decode())


def forked(*words: str | Path, **options: Any) -> Answer:
    """Run a command in a process of its own, whose modules are loaded already."""
    done = run_forked([MASQUERADE, *map(str, words)], env={**os.environ, "COLUMNS": "80"}, **options)
    return Answer.of(done.returncode, done.stdout.decode(), done.stderr.decode())


def files(folder: Path) -> set[str]:
    """All names in a folder, hidden ones too."""
    return {path.name for path in folder.iterdir()}
