"""A process that runs sessions: all that they leave behind ends, however often it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from masquerade.net import run_async

pytestmark = pytest.mark.system

STUBBORN = """
import asyncio, sys
from masquerade.net.session import run_async

async def slow_end():
    try:
        await asyncio.sleep(60)
    finally:
        print("ending", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("ended", flush=True)

async def session():
    other = asyncio.create_task(slow_end())
    await asyncio.sleep(0)
    print("ready", flush=True)
    await asyncio.sleep(60)

try:
    run_async(session())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_insists_on_stopping_waits_for_the_end(number: signal.Signals) -> None:
    words, pipe = [sys.executable, "-c", STUBBORN], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "ending\n"
        process.send_signal(number)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.read() == "ended\ninterrupted\n"
        assert process.stderr.read() == ""
        assert process.wait(timeout=900) == 0


def test_sessions_share_a_loop_and_leave_no_task_to_the_next() -> None:
    left: list[asyncio.Task[None]] = []

    async def first() -> asyncio.AbstractEventLoop:
        left.append(asyncio.create_task(asyncio.sleep(60)))
        return asyncio.get_running_loop()

    async def second() -> asyncio.AbstractEventLoop:
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return asyncio.get_running_loop()

    assert run_async(first()) is run_async(second())
    assert left[0].cancelled()


def test_what_is_about_to_end_by_itself_is_let_end() -> None:
    steps: list[int] = []
    kept: list[asyncio.Task[None]] = []

    async def ending() -> None:
        for step in range(3):
            await asyncio.sleep(0)
            steps.append(step)

    async def session() -> None:
        kept.append(asyncio.create_task(ending()))

    run_async(session())
    assert steps == [0, 1, 2]


CELL = """
import asyncio, signal
from masquerade.net.session import run_async

async def session():
    try:
        print("ready", flush=True)
        await asyncio.sleep(60)
    finally:
        print("ended", flush=True)

async def cell():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook has it while a cell runs
    try:
        run_async(session())
    except KeyboardInterrupt:
        print("interrupted", flush=True)

asyncio.run(cell())
"""


def test_a_session_of_a_notebook_runs_beside_its_loop() -> None:
    async def session() -> str:
        await asyncio.sleep(0)
        return "made"

    async def cell() -> str:
        return run_async(session())

    async def failing() -> None:
        raise ValueError("refused")

    async def other_cell() -> None:
        run_async(failing())

    assert asyncio.run(cell()) == "made"
    with pytest.raises(ValueError, match="refused"):
        asyncio.run(other_cell())


def test_an_interrupted_cell_ends_its_session() -> None:
    words, pipe = [sys.executable, "-c", CELL], subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "ended\ninterrupted\n"
        assert process.stderr.read() == ""
        assert process.wait(timeout=900) == 0
