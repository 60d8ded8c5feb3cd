"""`audit verify`: exit code 0 for a whole log, 1 and the first bad line for another, 2 for what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command import answered, here, refused
from masquerade.audit import Anchor, AuditLog
from masquerade.net import Identity, self_signed

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def bank() -> Identity:
    return self_signed("bank")


@pytest.fixture
def anchor(tmp_path: Path, bank: Identity) -> Anchor:
    """The last record of a log with a session in it, beside the party's identity."""
    bank.save(tmp_path / "bank")
    with AuditLog(tmp_path / "log", bank, durable=False) as log:
        log.contract(b"{}")
        with log.session("5e" * 32, ["loans"]) as transcript:
            transcript.sent("loans", "offer", b"1")
        return log.anchor()


def test_a_whole_log(tmp_path: Path, capsys: Capture, anchor: Anchor) -> None:
    answer = answered(capsys, "audit", "verify", tmp_path / "log")
    assert answer.out.splitlines() == [
        "whole: 7 records of party bank, 1 session (0 unfinished), 2 seals, not checked",
        f"last: {anchor}",
    ]
    certificate = tmp_path / "bank" / "identity.pem"
    answer = answered(
        capsys, "audit", "verify", tmp_path / "log", "--certificate", certificate, "--anchor", str(anchor)
    )
    assert "sealed up to record 7" in answer.out


def test_as_json(tmp_path: Path, capsys: Capture, anchor: Anchor) -> None:
    certificate = tmp_path / "bank" / "identity.pem"
    words = ("audit", "verify", tmp_path / "log", "--certificate", certificate, "--json")
    answer = answered(capsys, *words)
    assert answer.json == {
        "log": str(tmp_path / "log"), "whole": True, "first_bad": None, "problem": None, "party": "bank",
        "records": 7, "sessions": 1, "unfinished": 0, "seals": 2, "sealed_up_to": 7, "last": str(anchor),
    }  # fmt: skip
    lines = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    (tmp_path / "log").write_bytes(b"".join([*lines[:3], *lines[4:]]))
    answer = here(capsys, *words)
    assert answer.code == 1
    assert (answer.json["whole"], answer.json["first_bad"], answer.json["records"]) == (False, 4, 3)
    assert answer.problems == [f"{tmp_path / 'log'}: line 4: {answer.json['problem']}"]


def test_the_first_bad_line_is_named(tmp_path: Path, capsys: Capture, anchor: Anchor) -> None:
    log = tmp_path / "log"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"peer":"loans"', b'"peer":"bonds"'))
    problems = refused(capsys, "audit", "verify", log, code=1)
    assert problems == [f"{log}: line 5: wrong hash: the line was changed after it was written"]
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert here(capsys, "audit", "verify", log).code == 0  # the chain alone cannot tell
    assert refused(capsys, "audit", "verify", log, "--anchor", str(anchor), code=1) == [
        f"{log}: line 7: missing: the log ends before it, but record 7 was anchored; its end was cut off"
    ]


def test_a_log_that_was_emptied(tmp_path: Path, capsys: Capture, bank: Identity) -> None:
    log = tmp_path / "audit.jsonl"
    log.touch()
    problems = refused(capsys, "audit", "verify", log, code=1)
    assert problems == [f"{log}: line 1: missing: the log is empty, and every log has a beginning"]
    bank.save(tmp_path / "bank")
    with AuditLog(log, bank) as opened:
        opened.contract(b"{}")
    log.unlink()
    assert "nothing is there, but 3 records were written" in refused(capsys, "audit", "verify", log, code=1)[0]
    words = ("audit", "forget", log, "--identity", tmp_path / "bank")
    answered(capsys, *words, "--by", "Ada of the data office")
    answered(capsys, "audit", "verify", log)
    noted = json.loads(log.read_text().splitlines()[-1])
    assert (noted["event"], noted["fields"]["record"], noted["fields"]["found"]) == ("cut", 3, 0)
    assert noted["fields"]["by"] == "Ada of the data office"
    assert noted["fields"]["user"]
    assert here(capsys, *words).code == 1  # nothing is missing any more


def test_what_is_no_log(tmp_path: Path, capsys: Capture, anchor: Anchor) -> None:
    table = tmp_path / "people.csv"
    table.write_text("name\nAnn\n")
    assert refused(capsys, "audit", "verify", table) == [f"{table}: not an audit log"]
    problems = refused(capsys, "audit", "verify", tmp_path / "nothing")
    assert problems == [f"{tmp_path / 'nothing'}: cannot be read: No such file or directory"]
    answer = here(capsys, "audit", "verify", tmp_path / "log", "--anchor", "17")
    assert (answer.code, len(answer.problems)) == (2, 1)
    assert 'anchor "17": not NUMBER:HASH' in answer.problems[0]
    answer = here(capsys, "audit", "verify", tmp_path / "log", "--certificate", table)
    assert (answer.code, len(answer.problems)) == (2, 1)
    assert f"{table}: not a PEM certificate" in answer.problems[0]
