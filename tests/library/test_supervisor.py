"""Child processes: heard, watched, and ended in order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import PeerUnreachable
from masquerade.jobs import Supervisor
from masquerade.jobs.mashup import MashupRun
from masquerade.jobs.session import _AFTER_A_KILL, _GRACE, _TIMINGS
from masquerade.progress import silent
from masquerade.protocol.mondrian.method import JointMondrian

pytestmark = pytest.mark.system  # what it supervises are processes

ECHO = """
import os, sys
print(os.getpid(), flush=True)
for line in sys.stdin:
    print(f"heard {line}", end="", flush=True)
sys.exit(int(sys.argv[1]))
"""


STATE = """
import json, logging, os, pathlib, random, signal, sys, threading, warnings
import numpy
told = {
    "words": sys.argv,
    "name": __name__,
    "own module": "state" in sys.modules,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "path": sys.path,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "signals": [str(signal.getsignal(each)) for each in signal.valid_signals()],
    "woken": signal.set_wakeup_fd(-1),
    "files": sorted(os.listdir("/proc/self/fd")),
    "mask": os.umask(0),
    "warnings": [str(each) for each in warnings.filters],
    "handlers": [str(each) for each in logging.getLogger().handlers],
    "threads": [each.name for each in threading.enumerate()],
    "leads its session": os.getsid(0) == os.getpid(),
    "command": pathlib.Path("/proc/self/cmdline").read_bytes().rstrip(bytes(1)).decode().split(chr(0)),
    "numpy": numpy.__name__,
    "streams": [each.encoding + each.errors for each in (sys.stdin, sys.stdout, sys.stderr)],
    "buffered by lines": [each.line_buffering for each in (sys.stdin, sys.stdout, sys.stderr)],
}
drawn = [random.random(), numpy.random.random(), os.urandom(8).hex()]
print(json.dumps([told, drawn, os.getppid(), os.getpid()]), flush=True)
if len(sys.argv) > 2:
    sys.stdin.read()
raise RuntimeError("all is said")
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "state.py").write_text(STATE)
    monkeypatch.chdir(tmp_path)  # where Python looks for modules, too
    return tmp_path


def alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def test_a_child_hears_and_says_lines_until_we_hang_up(logs: Path) -> None:
    async def talk() -> None:
        async with Supervisor(logs) as children:
            echo = await children.spawn("anna", "echo", "3")
            pid = int(await echo.hear())
            await echo.tell(b"hello")
            assert await echo.hear() == b"heard hello\n"
            assert (echo.code, alive(pid)) == (None, True)
            echo.hang_up()
            assert await echo.hear() == b""
            assert await echo.wait() == 3

    asyncio.run(talk())


@pytest.mark.parametrize("grace", [0.0, 10.0])
def test_all_end_with_the_block(logs: Path, grace: float) -> None:
    async def started() -> list[int]:
        async with Supervisor(logs, grace=grace, ended_first=("berta",)) as children:
            each = [await children.spawn(name, "echo", "0") for name in ("anna", "berta")]
            return [int(await child.hear()) for child in each]

    assert not any(map(alive, asyncio.run(started())))


def test_only_a_signal_is_a_death_where_children_may_end(logs: Path) -> None:
    async def work() -> None:
        async with Supervisor(logs) as children:
            ends = await children.spawn("anna", "echo", "3")
            killed = await children.spawn("berta", "echo", "0")
            pid = int(await killed.hear())

            async def goes_on() -> str:
                ends.hang_up()
                await ends.wait()
                await asyncio.sleep(0.05)
                return "done"

            assert await children.watched(goes_on(), may_end=True) == "done"
            with pytest.raises(PeerUnreachable, match="party anna: its process ended with exit code 3"):
                await children.watched(asyncio.Event().wait())
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(PeerUnreachable, match="party berta: its process was ended by signal 9"):
                await children.watched(asyncio.Event().wait(), may_end=True)

    asyncio.run(work())


def test_a_killed_child_is_reported_though_another_one_does_not_end(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one neither ends nor says anything; the report is there long before it counts as hanging."""

    monkeypatch.setattr(MashupRun, "_left", lambda _: "nothing was written")
    monkeypatch.setattr(MashupRun, "method", JointMondrian())

    async def work() -> dict[str, str]:
        run = MashupRun(None, None, logs, silent, lambda _party, _stage: None)  # type: ignore[arg-type]
        async with Supervisor(logs, grace=0.0) as children:
            killed, frozen = [await children.spawn(name, "echo", "0") for name in ("anna", "berta")]
            victim, stopped = [int(await each.hear()) for each in (killed, frozen)]
            os.kill(stopped, signal.SIGSTOP)
            os.kill(victim, signal.SIGKILL)
            with pytest.raises(PeerUnreachable):
                await children.watched(asyncio.Event().wait(), may_end=True)
            async with asyncio.timeout(_GRACE):
                found = await run._endings(children, [])
        return {name: str(error) for name, error in found.items()}

    assert _AFTER_A_KILL + _TIMINGS.grace <= 2.5  # and so within 3 s
    told = asyncio.run(work())
    assert told["anna"] == "party anna: its process was ended by signal 9; nothing was written"
    assert told["berta"] == "None"


def test_what_ended_hears_nothing(logs: Path) -> None:
    async def work() -> None:
        async with Supervisor(logs) as children:
            echo = await children.spawn("anna", "echo", "0")
            echo.kill()
            await echo.wait()
            with pytest.raises(PeerUnreachable, match="party anna: its process has ended"):
                await echo.tell(b"x" * (1 << 20))

    asyncio.run(work())


def test_a_forked_process_starts_as_a_fresh_one_does(logs: Path) -> None:
    """But for its randomness, which it shares with no other, and for what it has loaded already."""

    async def two() -> list[list[Any]]:
        async with Supervisor(logs, loads=("state", "numpy", "random", "no_such_module")) as children:
            forked = [await children.spawn(name, "state", "a b") for name in ("anna", "berta")]
            said = [json.loads(await each.hear()) for each in forked]
            assert [await each.wait() for each in forked] == [1, 1]
        return said

    (logs / "state.py").write_text("if __name__ == '__main__':\n" + textwrap.indent(STATE, "    "))
    (one, drawn, parent, _), (other, drawn_by_other, parent_of_other, _) = asyncio.run(two())
    done = subprocess.run(
        [sys.executable, "-m", "state", "a b"],
        stdin=subprocess.PIPE,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    assert one == other == json.loads(done.stdout)[0]
    assert not set(drawn) & set(drawn_by_other)
    assert parent == parent_of_other
    assert (logs / "anna.log").read_text().endswith("RuntimeError: all is said\n")
    assert done.returncode == 1


def test_nobody_outlives_the_process_that_all_are_forked_from(logs: Path) -> None:
    async def work() -> int:
        async with Supervisor(logs) as children:
            child = await children.spawn("anna", "state", "waits", "for us")
            _, _, server, pid = json.loads(await child.hear())
            os.kill(server, signal.SIGKILL)
            with pytest.raises(PeerUnreachable, match="party anna: its process was ended by signal 15"):
                await children.watched(asyncio.Event().wait())
            with pytest.raises(PeerUnreachable, match="party berta: its process was ended by signal 15"):
                raise children.death(lost := await children.spawn("berta", "echo", "0"), await lost.wait())
        return int(pid)

    pid = asyncio.run(work())
    until = time.monotonic() + 900
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(pid)
