"""Parties as processes: what the others see when one is killed, frozen or interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from masquerade.net import make_trial

pytestmark = pytest.mark.system

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
