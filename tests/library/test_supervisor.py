"""Child processes: heard, watched, and ended in order."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from masquerade.errors import PeerUnreachable
from masquerade.library.mashup_run import _AFTER_A_KILL, _GRACE, _TIMINGS, MashupRun
from masquerade.library.supervisor import Supervisor
from masquerade.net.progress import silent

pytestmark = pytest.mark.system  # what it supervises are processes

ECHO = """
import os, sys
print(os.getpid(), flush=True)
for line in sys.stdin:
    print(f"heard {line}", end="", flush=True)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
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
