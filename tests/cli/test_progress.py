"""What a log reads while a command works or waits."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from itertools import pairwise

import pytest
import typer

from masquerade.cli import output
from masquerade.cli.client import Teller
from masquerade.cli.output import REPEAT_AFTER, REPEAT_AT_LEAST, ProgressDisplay, progress
from masquerade.service import Event

Capture = pytest.CaptureFixture[str]


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def waited(shown: ProgressDisplay, clock: Clock, seconds: int) -> None:
    """Let time pass in which nothing happens."""
    for _ in range(seconds):
        clock.now += 1
        shown.repeat()


def test_waiting_for_a_person_is_told_every_few_seconds(capsys: Capture) -> None:
    clock = Clock()
    shown = ProgressDisplay(clock)
    tell = Teller(shown)
    tell(Event(session="s", number=1, time=datetime.now(UTC), kind="approval", data={"party": "clinic"}))
    waited(shown, clock, 16)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{at} s: negotiating: a person at clinic has to approve it" for at in (5, 10, 15)]


def test_work_that_has_not_come_to_its_first_stage_is_told(capsys: Capture) -> None:
    """A job with thousands of attributes takes a while to read."""
    clock = Clock()
    waited(ProgressDisplay(clock), clock, 6)
    assert capsys.readouterr().err == "5 s: starting\n"


def test_a_long_wait_fills_no_disk(capsys: Capture) -> None:
    clock = Clock()
    shown = ProgressDisplay(clock)
    shown.stage("queued")
    waited(shown, clock, 86_400)
    times = [int(line.split(" s: ")[0]) for line in capsys.readouterr().err.splitlines()]
    pauses = [after - before for before, after in pairwise(times)]
    assert min(pauses) >= REPEAT_AFTER
    assert max(pauses) == REPEAT_AT_LEAST
    assert pauses == sorted(pauses)


def test_news_is_told_once_and_then_repeated(capsys: Capture) -> None:
    clock = Clock()
    shown = ProgressDisplay(clock)
    for seconds, stage in ((3, "negotiating"), (3, "running"), (1, "assembling")):
        clock.now += seconds
        shown.stage(stage)
        shown.repeat()
    waited(shown, clock, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["3 s: negotiating", "6 s: running", "11 s: assembling"]


def test_a_command_off_a_terminal_repeats_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(output, "REPEAT_AFTER", 0.0)
    monkeypatch.setattr(output, "_TICK", 0.001)
    monkeypatch.setattr(typer, "echo", lambda *_words, **_options: told.set())
    with progress() as shown:
        shown.stage("queued")
        assert told.wait(900)
        shown.done()


def test_a_reader_that_has_gone_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_words: object, **_options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(output, "REPEAT_AFTER", 0.0)
    monkeypatch.setattr(output, "_TICK", 0.0)
    monkeypatch.setattr(typer, "echo", broken)
    shown = ProgressDisplay()
    shown.stage("queued")
    shown.keep_repeating()
