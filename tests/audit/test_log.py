"""The audit log: what it holds, and that every message of a session is in it before it leaves."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.logs import BANK, CONTRACT, SESSION, events, fill, judged, records
from masquerade.audit import Anchor, AuditLog, last_records, verify
from masquerade.audit.chained_file import MOST_LINE
from masquerade.errors import DataError, ParameterError, PeerError, PeerUnreachable
from masquerade.net import Channel, Message, Receive, Script, Send, read_transcript, run_script
from net.nodes import PEOPLE, Party, session


def test_the_form_is_the_documented_one(tmp_path: Path) -> None:
    fill(tmp_path / "log", seal_every=None)
    previous = "0" * 64
    for number, line in enumerate((tmp_path / "log").read_text("utf-8").splitlines(), 1):
        record = json.loads(line)
        assert line == json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert (record["number"], record["previous"]) == (number, previous)
        previous = record.pop("hash")
        body = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(body.encode()).hexdigest() == previous
        assert record["time"].startswith("20")
        assert record["time"].endswith("Z")
    assert verify(tmp_path / "log").last == Anchor(number, previous)


def test_what_is_recorded(tmp_path: Path) -> None:
    fill(tmp_path / "log")
    found = records(tmp_path / "log")
    assert events(tmp_path / "log") == [
        "genesis", "seal", "contract", "refusal", "session start", "message", "message", "session end", "seal",
    ]  # fmt: skip
    genesis, contract, refusal = found[0]["fields"], found[2]["fields"], found[3]["fields"]
    assert (genesis["party"], genesis["certificate"]) == ("bank", BANK.fingerprint)
    assert len(bytes.fromhex(genesis["log"])) == 16
    assert contract == {"contract": CONTRACT.decode(), "contract_hash": hashlib.sha256(CONTRACT).hexdigest()}
    assert refusal == {
        "asker": "lab",
        "reasons": ["k is 3; at least 20 is asked", "purpose “märketing” is not allowed"],
        "session": SESSION,
    }
    assert found[5]["fields"] == {
        "digest": hashlib.sha256(b"a secret").hexdigest(),
        "direction": "sent",
        "kind": "offer",
        "message": 0,
        "peer": "loans",
        "session": SESSION,
        "size": 8,
    }
    assert found[7]["fields"] == {"cause": "done", "culprit": None, "messages": 2, "session": SESSION}
    text = (tmp_path / "log").read_text("utf-8")
    assert "secret" not in text
    assert "PRIVATE" not in text
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_two_logs_differ_in_their_id(tmp_path: Path) -> None:
    for name in ("one", "two"):
        AuditLog(tmp_path / name, BANK).close()
    one, two = (records(tmp_path / name)[0]["fields"]["log"] for name in ("one", "two"))
    assert one != two


def test_opened_again_the_log_goes_on(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log", BANK) as log:
        before = log.append("test", {})
    with AuditLog(tmp_path / "log", BANK, seal_every=None) as log:  # an old log keeps its own
        assert log.anchor() == (before.number + 1, records(tmp_path / "log")[-1]["hash"])
        log.seal()
    assert events(tmp_path / "log") == ["genesis", "seal", "test", "opened", "seal"]
    assert verify(tmp_path / "log", [before], [BANK.certificate]).sealed_up_to == 5


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"set": object()}, "cannot be written as JSON"),
        ({"half": "\ud800"}, "cannot be written as JSON"),
        ({"key": 1, 1: 2, "1": 3}, "cannot be written as JSON"),
        ({"long": "x" * MOST_LINE}, "a line has at most"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, fields: Any, says: str) -> None:
    with AuditLog(tmp_path / "log", BANK) as log:
        before = log.anchor()
        with pytest.raises(ParameterError, match=says):
            log.append("test", fields)
        assert log.anchor() == before
    assert verify(tmp_path / "log").whole


# --- sessions ---


class Secret(Message, tag="secret", frozen=True):
    text: str


def tell(me: str, other: str) -> Script[str]:
    yield Send((other,), Secret(f"the secret of {me}"))
    heard = yield Receive(other, Secret)
    return str(heard.text)


def both(folder: Path, scripts: dict[str, Callable[[], Script[str]]]) -> dict[str, Any]:
    """Two parties over TLS, each with an audit log."""

    def part(name: str) -> Any:
        async def drive(channels: dict[str, Channel]) -> str:
            log = AuditLog(folder / f"{name}.jsonl", PEOPLE[name])
            transcript = folder / f"{name}.transcript"
            with log, log.session(SESSION, list(channels), transcript) as entered:
                return await run_script(scripts[name](), channels, transcript=entered)

        return drive

    async def bounded() -> dict[str, Any]:
        async with asyncio.timeout(900):
            return await session(*(Party(name, part(name)) for name in scripts))

    return asyncio.run(bounded())


def test_a_session_over_tls_is_in_both_logs(tmp_path: Path) -> None:
    results = both(tmp_path, {"bank": lambda: tell("bank", "loans"), "loans": lambda: tell("loans", "bank")})
    assert results == {"bank": "the secret of loans", "loans": "the secret of bank"}
    said: dict[str, list[tuple[Any, ...]]] = {}
    for name in ("bank", "loans"):
        path = tmp_path / f"{name}.jsonl"
        found = verify(path, certificates=[PEOPLE[name].certificate])
        assert (found.whole, found.sessions, found.unfinished) == (True, 1, 0)
        assert found.sealed_up_to == found.records
        messages = [each["fields"] for each in records(path) if each["event"] == "message"]
        entries = read_transcript(tmp_path / f"{name}.transcript")
        assert [(each["message"], each["kind"], each["digest"]) for each in messages] == [
            (entry.number, entry.kind, entry.digest) for entry in entries
        ]
        said[name] = [(each["direction"], each["kind"], each["size"], each["digest"]) for each in messages]
        assert b"secret of" not in path.read_bytes()
    assert [each[1:] for each in said["bank"] if each[0] == "sent"] == [
        each[1:] for each in said["loans"] if each[0] == "received"
    ]
    assert len(said["bank"]) == 2


def fail(other: str) -> Script[str]:
    yield Receive(other, Secret)
    raise DataError("row 7 of Ms Miller is wrong")


def test_how_a_session_failed_is_told_by_kind_and_culprit(tmp_path: Path) -> None:
    results = both(tmp_path, {"bank": lambda: tell("bank", "loans"), "loans": lambda: fail("bank")})
    assert isinstance(results["bank"], PeerError)
    assert isinstance(results["loans"], DataError)
    ends = {
        name: next(each for each in records(tmp_path / f"{name}.jsonl") if each["event"] == "session end")
        for name in results
    }
    assert (ends["loans"]["fields"]["cause"], ends["loans"]["fields"]["culprit"]) == ("bad input", None)
    assert (ends["bank"]["fields"]["cause"], ends["bank"]["fields"]["culprit"]) == ("gave up", "loans")
    assert b"Miller" not in (tmp_path / "loans.jsonl").read_bytes()


def test_a_session_that_is_stopped(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log", BANK) as log:
        with pytest.raises(KeyboardInterrupt), log.session(SESSION, ["loans"]):
            raise KeyboardInterrupt
        with pytest.raises(PeerUnreachable), log.session(SESSION, ["loans"]):
            raise PeerUnreachable("loans", "fell silent")
    ends = [each["fields"] for each in records(tmp_path / "log") if each["event"] == "session end"]
    assert [(end["cause"], end["culprit"]) for end in ends] == [("stopped", None), ("unreachable", "loans")]


def test_a_session_without_its_end_is_unfinished(tmp_path: Path) -> None:
    fill(tmp_path / "log", seal_every=None)
    data = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    found = judged(tmp_path, b"".join(data[:-1]))
    assert (found.whole, found.sessions, found.unfinished) == (True, 1, 1)


def test_a_log_that_cannot_be_written_holds_the_message_back(tmp_path: Path) -> None:
    """The session ends before the message leaves: the peer hears of the end, and nothing else."""
    heard: list[bytes] = []

    async def speak(channels: dict[str, Channel]) -> str:
        with AuditLog(tmp_path / "log", BANK) as log, log.session(SESSION, ["loans"]) as transcript:
            (tmp_path / "log").unlink()
            return await run_script(tell("bank", "loans"), channels, transcript=transcript)

    async def listen(channels: dict[str, Channel]) -> None:
        heard.append(await channels["bank"].receive())

    async def bounded() -> dict[str, Any]:
        async with asyncio.timeout(900):
            return await session(Party("bank", speak), Party("loans", listen))

    results = asyncio.run(bounded())
    assert "the audit log was removed while it is in use" in str(results["bank"])
    assert isinstance(results["loans"], PeerError)
    assert heard == []


# --- the end of a log, for a page that shows it ---


def test_the_tail_of_the_log_is_its_last_records(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert last_records(path) == []
    with AuditLog(path, BANK, durable=False) as log:
        for number in range(300):
            log.append("thing", {"number": number, "text": "x" * 500})
    tail = last_records(path, 7)
    assert [each["fields"]["number"] for each in tail] == list(range(293, 300))
    assert len(last_records(path, 1000)) == len(path.read_text().splitlines())
    with pytest.raises(ParameterError):
        last_records(path, 0)
