"""A process that runs sessions: all that they leave behind ends, however often it is told to stop."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from masquerade.net import make_trial, run_async

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


# --- parties as processes: what the others see when one is killed, frozen or interrupted ---


PROGRAM = Path(__file__).with_name("party_process.py")
NAMES = ("bank", "loans", "shop")
ENDLESS = 10**9
WAIT = 900  # generous: a hang is a failure, a slow machine is not

Party = subprocess.Popen[str]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(stack: ExitStack, folder: Path, rounds: int, silence: float = 30) -> dict[str, Party]:
    """All parties, told of each other."""
    make_trial(folder, NAMES)
    parties = {}
    for name in NAMES:
        command = [sys.executable, str(PROGRAM), str(folder / name), str(rounds), str(silence)]
        pipe = subprocess.PIPE
        party = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        stack.callback(party.kill)
        parties[name] = party
    addresses = {name: read_line(party) for name, party in parties.items()}
    for name, party in parties.items():
        assert party.stdin is not None
        peers = [{"name": other, "address": addresses[other]} for other in NAMES if other != name]
        party.stdin.write(json.dumps(peers) + "\n")
        party.stdin.flush()
    return parties


def read_line(party: Party) -> str:
    assert party.stdout is not None
    return party.stdout.readline().strip()


def test_whole_sessions_end_with_0_and_say_nothing_else(stack: ExitStack, tmp_path: Path) -> None:
    parties = start(stack, tmp_path / "trial", rounds=3)
    for party in parties.values():
        out, err = party.communicate(timeout=WAIT)
        assert (party.returncode, out, err) == (0, "round 0\nround 1\nround 2\n", "")


@pytest.mark.parametrize("victim", ["bank", "shop"])  # one who dialled everybody, one whom everybody dialled
def test_a_killed_party_is_named_by_all_others(victim: str, stack: ExitStack, tmp_path: Path) -> None:
    parties = start(stack, tmp_path / "trial", ENDLESS)
    for _ in range(3):
        assert read_line(parties[victim]).startswith("round")
    parties[victim].kill()
    for name in set(NAMES) - {victim}:
        _out, err = parties[name].communicate(timeout=WAIT)
        assert parties[name].returncode == 3, err
        assert err.startswith(f"error: party {victim}: ")
        assert err.count("\n") == 1
        assert "vanished in the middle of the session" in err or "reports it" in err


def test_a_frozen_party_is_named_by_all_others(stack: ExitStack, tmp_path: Path) -> None:
    parties = start(
        stack, tmp_path / "trial", ENDLESS, silence=20
    )  # who lives pulses far more often, however slow the machine
    read_line(parties["loans"])
    parties["loans"].send_signal(signal.SIGSTOP)
    for name in ("bank", "shop"):
        _out, err = parties[name].communicate(timeout=WAIT)
        assert parties[name].returncode == 3, err
        assert err.startswith("error: party loans: ")
        assert "fell silent" in err or "reports it" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_party_says_so(number: signal.Signals, stack: ExitStack, tmp_path: Path) -> None:
    parties = start(stack, tmp_path / "trial", ENDLESS)
    read_line(parties["loans"])
    parties["loans"].send_signal(number)
    _out, err = parties["loans"].communicate(timeout=WAIT)
    assert (parties["loans"].returncode, err) == (130, "")
    for name in ("bank", "shop"):
        _out, err = parties[name].communicate(timeout=WAIT)
        assert parties[name].returncode == 3, err
        assert err.startswith("error: party loans: ")
        assert "was stopped" in err or "reports it" in err or "vanished" in err
