"""`make golden`: write what commands answer, and parties agree on, now. Read the difference before you commit.

`PYTHONPATH=src:tests .venv/bin/python -m golden.freeze NAME …` makes the files of some cases alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cli.command import Answer
from golden.cases import CASES, COMMANDS, left_behind
from golden.contracts import KINDS, OF_JOBS, of_jobs, write
from masquerade.cli.app import run
from parties_here import parties_here
from service_house import without_log


def command(*words: str) -> Any:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["masquerade", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run()
    finally:
        sys.argv = before
    return Answer.of(code, out.getvalue(), err.getvalue())


def main(names: list[str]) -> int:
    """Write the files of these cases, or of all."""
    home = Path.cwd()
    with without_log():
        for name in [each for each in KINDS if each in names] if names else KINDS:
            with tempfile.TemporaryDirectory() as folder:
                write(name, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        OF_JOBS.write_text(json.dumps(of_jobs(Path(folder)), indent=1) + "\n")
    for name in [each for each in CASES if each in names] if names else CASES:
        with tempfile.TemporaryDirectory() as folder, parties_here(), pytest.MonkeyPatch.context() as patch:
            os.chdir(folder)
            try:
                found = left_behind(CASES[name], Path(folder), command, patch)
            finally:
                os.chdir(home)
        shutil.rmtree(COMMANDS / name, ignore_errors=True)
        (COMMANDS / name).mkdir(parents=True)
        for file, text in found.items():
            (COMMANDS / name / file).write_text(text)
        sys.stdout.write(f"{name}: {', '.join(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
