"""Each command answers and writes what it always did. `make golden` makes the files again; read the difference."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cli.command import here
from golden.cases import CASES, COMMANDS, left_behind
from parties_here import parties_here

AGAIN = "if that is as it should be, run `make golden`"


@pytest.mark.parametrize("name", CASES)
def test_a_command_answers_and_writes_what_it_always_did(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with parties_here():
        found = left_behind(CASES[name], tmp_path, lambda *words: here(capsys, *words), monkeypatch)
    frozen = {path.name: path.read_text() for path in (COMMANDS / name).iterdir()}
    assert found.keys() == frozen.keys()
    for file in sorted(found):
        if file.endswith(".json"):
            told, kept = json.loads(found[file]), json.loads(frozen[file])
            assert told == like(kept, told), f"{name}/{file}: {AGAIN}"
        else:
            assert found[file] == frozen[file], f"{name}/{file}: {AGAIN}"


def like(kept: Any, told: Any) -> Any:
    """What is kept, with the numbers that are told wherever they differ in their last digits alone.

    These are open: sums between parties are rounded, and not every processor adds up in the same order.
    """
    if isinstance(kept, dict) and isinstance(told, dict):
        return {key: like(each, told.get(key)) for key, each in kept.items()}
    if isinstance(kept, list) and isinstance(told, list) and len(kept) == len(told):
        return [*map(like, kept, told)]
    if isinstance(kept, float) and isinstance(told, float):
        return told if math.isclose(kept, told, rel_tol=1e-4, abs_tol=1e-6) else kept
    return kept


def test_no_case_is_forgotten() -> None:
    assert {path.name for path in COMMANDS.iterdir()} == CASES.keys()
