"""A party hands an auditor the key to what it committed to, and the auditor says whether the table is that."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command import Answer, here
from masquerade.service import SignedContract
from service.party_nodes import DATASETS, DISEASES, Folder, run, world

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both parties' folders after they have offered, and the contract that came of it."""
    folder = Folder(tmp_path_factory.mktemp("parties"))

    async def part() -> SignedContract:
        async with world(folder) as here:
            return here.coordinator.draw_up(await here.coordinator.deal())

    (folder.path / "contract.json").write_bytes(run(part()).canonical())
    return folder.path


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "parties"))


def key(capsys: Capture, home: Path, name: str, out: Path, *words: str) -> Answer:
    conf = home / name / f"{name}.toml"
    return here(capsys, "party", "snapshot-key", conf, str(home / "contract.json"), "--out", out, *words)


def check(capsys: Capture, home: Path, table: Path, key: Path, party: str = "clinic") -> Answer:
    words = ("audit", "snapshot", home / "contract.json", table, "--party", party, "--key", key, "--json")
    return here(capsys, *words)


def _cell(text: str) -> str:
    return text.replace(DISEASES[0], DISEASES[1], 1)


def _row(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:5], *lines[6:]])


def _order(text: str) -> str:
    head, one, two, *lines = text.splitlines(keepends=True)
    return "".join([head, two, one, *lines])


def test_the_table_that_was_committed_to_and_others(home: Path, tmp_path: Path, capsys: Capture) -> None:
    table = home / "clinic" / "patients.csv"
    whole, one = tmp_path / "whole.key", tmp_path / "disease.key"
    for out, words in ((whole, ()), (one, ("--column", "disease"))):
        answer = key(capsys, home, "clinic", out, *words, "--by", "Ada")
        assert (answer.code, answer.err) == (0, "")
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        secret = json.loads(out.read_text())["key"]
        log = (home / "clinic" / "state" / "audit.jsonl").read_text()
        assert secret not in answer.out + log
        noted = json.loads(log.splitlines()[-1])
        assert (noted["event"], noted["fields"]["by"]) == ("snapshot key", "Ada")
        found = check(capsys, home, table, out)
        assert (found.code, found.json["same"], found.json["dataset"]) == (0, True, "patients")
    assert json.loads(whole.read_text())["key"] != json.loads(one.read_text())["key"]
    right = table.read_text()
    ages = right.replace("1003,23,", "1003,24,")
    changes: list[tuple[str, Callable[[str], str], int]] = [
        ("a cell", _cell, 1),
        ("a row", _row, 1),
        ("the order", _order, 1),
        ("another column", lambda _: ages, 0),  # which that key does not open
    ]
    assert ages != right
    for name, change, of_column in changes:
        table.write_text(change(right))
        answer = check(capsys, home, table, whole)
        assert (name, answer.code, answer.json["same"]) == (name, 1, False)
        assert "is not the one that clinic committed to" in answer.problems[0]
        assert (name, check(capsys, home, table, one).code) == (name, of_column)


def test_a_key_that_does_not_fit(home: Path, tmp_path: Path, capsys: Capture) -> None:
    table, out = home / "clinic" / "patients.csv", tmp_path / "key"
    assert key(capsys, home, "clinic", out).code == 0
    assert key(capsys, home, "clinic", out).problems == [f"{out}: exists already, and is not overwritten"]
    answer = check(capsys, home, table, out, "bank")  # with bank's root
    assert (answer.code, answer.json["same"]) == (1, False)
    assert "the key is another snapshot's" in answer.problems[0]
    answer = check(capsys, home, table, out, "clinik")
    assert answer.code == 2
    assert 'did you mean "clinic"' in answer.problems[0]
    content = json.loads(out.read_text())
    out.write_text(json.dumps(content | {"key": content["key"][::-1]}))
    assert check(capsys, home, table, out).code == 1
    for wrong in (content | {"key": "zz"}, content | {"key": "00"}, {"key": content["key"]}, []):
        out.write_text(json.dumps(wrong))
        answer = check(capsys, home, table, out)
        assert (answer.code, len(answer.problems)) == (2, 1)
        assert content["key"] not in answer.err
    answer = key(capsys, home, "clinic", tmp_path / "other", "--column", "diseas")
    assert answer.code == 2
    assert 'did you mean "disease"' in answer.problems[0]


def test_a_table_that_has_changed_since(home: Path, tmp_path: Path, capsys: Capture) -> None:
    table, out, copy = home / "bank" / "customers.csv", tmp_path / "key", tmp_path / "then.csv"
    shutil.copy(table, copy)
    table.write_text(table.read_text() + "1,Qzmover,30,low,new\n")
    answer = key(capsys, home, "bank", out)
    assert (answer.code, out.exists()) == (1, False)
    assert "is not the table that the contract commits to" in answer.problems[0]
    assert key(capsys, home, "bank", out, "--table", str(copy)).code == 0
    assert check(capsys, home, copy, out, "bank").code == 0
    assert check(capsys, home, table, out, "bank").code == 1
    assert DATASETS["bank"] in out.read_text()
