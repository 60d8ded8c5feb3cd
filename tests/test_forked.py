"""A forked command starts in the state of a fresh process, and is waited for and ended as one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forked import MASQUERADE, Forked, run

pytestmark = pytest.mark.system

STATE = """
import json, logging, os, signal, sys, threading
print(json.dumps({
    "words": sys.argv,
    "path": sys.path,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "signals": [str(signal.getsignal(each)) for each in signal.valid_signals()],
    "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "files": sorted(os.listdir("/proc/self/fd")),
    "mask": os.umask(0),
    "handlers": [str(each) for each in logging.getLogger().handlers],
    "threads": [each.name for each in threading.enumerate()],
    "session": os.getsid(0) == os.getpid(),
    "streams": [each.encoding + each.errors for each in (sys.stdin, sys.stdout, sys.stderr)],
    "by lines": [each.line_buffering for each in (sys.stdin, sys.stdout, sys.stderr)],
}))
sys.exit(3)
"""


@pytest.mark.parametrize("session", [False, True])
def test_the_state_is_that_of_a_fresh_process(tmp_path: Path, session: bool) -> None:
    (tmp_path / "state.py").write_text(STATE)
    said = []
    for kind in (Forked, subprocess.Popen):
        made: Any = kind(
            [sys.executable, str(tmp_path / "state.py"), "a b"],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "81"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=session,
            text=True,
        )
        out, err = made.communicate(timeout=900)
        assert (made.returncode, err) == (3, "")
        said.append(json.loads(out))
    forked, fresh = said
    assert forked == fresh


def test_a_command_runs_and_a_killed_one_is_told() -> None:
    done = run([MASQUERADE, "--version"], text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("masquerade ")
    waiting = [MASQUERADE, "identity", "init", "/dev/fd/0/nothing"]
    assert run(waiting, stdin=subprocess.DEVNULL).returncode == 2
    with Forked([sys.executable, __file__], stdin=subprocess.PIPE) as sleeping:
        assert sleeping.poll() is None
        sleeping.kill()
    assert sleeping.returncode == -signal.SIGKILL


if __name__ == "__main__":
    sys.stdin.read()
