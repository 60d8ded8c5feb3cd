"""The audit log: what it holds, that nothing in it changes unseen, and that no crash loses a line."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.errors import AnswerIsNo, DataError, ParameterError, PeerError, PeerUnreachable
from masquerade.net.channel import Channel
from masquerade.net.identity import Identity, self_signed
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.net.session import run_script
from masquerade.net.transcript import Entry, read_transcript
from masquerade.service.audit import AuditLog
from masquerade.service.audit_line import MOST_LINE, Anchor
from masquerade.service.audit_verify import Verification, verify
from net.nodes import PEOPLE, Party, session

BANK = PEOPLE["bank"]
SESSION = "5e" * 32
CONTRACT = b'{"nonce":"1","parties":["bank","loans"]}'
WRITER = Path(__file__).with_name("audit_writer.py")

thorough = settings(max_examples=150, deadline=None)


def fill(path: Path, identity: Identity = BANK, **options: Any) -> None:
    """A small log with everything in it."""
    with AuditLog(path, identity, durable=False, **options) as log:
        log.contract(CONTRACT)
        log.refusal("lab", ["k is 3; at least 20 is asked", "purpose “märketing” is not allowed"], SESSION)
        with log.session(SESSION, ["loans"]) as transcript:
            transcript.sent("loans", "offer", b"a secret")
            transcript.received("loans", "instruct", b"another")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def events(path: Path) -> list[str]:
    return [record["event"] for record in records(path)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[bytes]:
    """The lines of a whole log, with their ends."""
    fill(folder / "whole.jsonl", seal_every=5)
    return (folder / "whole.jsonl").read_bytes().splitlines(keepends=True)


def judged(folder: Path, data: bytes, **options: Any) -> Verification:
    (folder / "judged.jsonl").write_bytes(data)
    return verify(folder / "judged.jsonl", **options)


def anchor_of(line: bytes) -> Anchor:
    record = json.loads(line)
    return Anchor(record["number"], record["hash"])


# ---- what it holds ---------------------------------------------------------------------------------------------


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
    assert contract == {
        "contract": CONTRACT.decode(),
        "contract_hash": hashlib.sha256(CONTRACT).hexdigest(),
    }
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


# ---- sessions --------------------------------------------------------------------------------------------------


class Secret(Message, tag="secret", frozen=True):
    text: str


def tell(me: str, other: str) -> Script[str]:
    yield Send((other,), Secret(f"the secret of {me}"))
    heard = yield Receive(other, Secret)
    return str(heard.text)


def fail(other: str) -> Script[str]:
    yield Receive(other, Secret)
    raise DataError("row 7 of Ms Miller is wrong")


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
        async with asyncio.timeout(60):
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


# ---- what verify finds -----------------------------------------------------------------------------------------


def test_a_whole_log(folder: Path, lines: list[bytes]) -> None:
    found = judged(folder, b"".join(lines), anchors=[anchor_of(line) for line in lines])
    assert (found.whole, found.first_bad, found.problem) == (True, None, None)
    assert (found.records, found.party, found.sessions, found.unfinished) == (len(lines), "bank", 1, 0)
    assert (found.seals, found.sealed_up_to) == (sum(b'"event":"seal"' in line for line in lines), None)
    found.insist()


@thorough
@given(data=st.data())
def test_any_changed_byte_is_found_in_its_line(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(lines)
    at = data.draw(st.integers(0, len(whole) - 1))
    mask = data.draw(st.integers(1, 255))
    changed = bytearray(whole)
    changed[at] ^= mask
    found = judged(folder, bytes(changed))
    assert found.first_bad == whole[:at].count(b"\n") + 1
    assert found.records == found.first_bad - 1


@thorough
@given(data=st.data())
def test_a_removed_line_is_missed_where_it_was(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    found = judged(folder, b"".join(lines[:at] + lines[at + 1 :]), anchors=[anchor_of(lines[-1])])
    assert found.first_bad == at + 1
    assert found.problem is not None
    if at < len(lines) - 1:
        assert f"number out of order: {at + 2}, where {at + 1} belongs; lines are missing" in found.problem
    else:
        assert f"record {len(lines)} was anchored; its end was cut off" in found.problem


@thorough
@given(data=st.data())
def test_a_repeated_or_moved_line_is_found(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    places = st.integers(0, len(lines) - 1)
    one, other = sorted((data.draw(places), data.draw(places)))
    found = judged(folder, b"".join([*lines[: other + 1], lines[one], *lines[other + 1 :]]))
    assert found.first_bad == other + 2
    assert f"number out of order: {one + 1}" in (found.problem or "")
    if one != other:
        swapped = list(lines)
        swapped[one], swapped[other] = lines[other], lines[one]
        assert judged(folder, b"".join(swapped)).first_bad == one + 1


@thorough
@given(data=st.data())
def test_any_cut_is_found_with_an_anchor(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(lines)
    kept = whole[: data.draw(st.integers(1, len(whole) - 1))]
    found = judged(folder, kept, anchors=[anchor_of(lines[-1])])
    assert found.first_bad == kept.count(b"\n") + 1
    assert ("torn end" in (found.problem or "")) != kept.endswith(b"\n")


def test_nothing_and_something_else_are_no_logs(tmp_path: Path) -> None:
    for data in (b"", b"\n", b"a,b\n1,2\n", b'{"event":"message"}\n', b"\x00" * 100, b"[" * 100_000 + b"\n"):
        with pytest.raises(DataError, match=r"judged.jsonl: not an audit log"):
            judged(tmp_path, data)
    with pytest.raises(ParameterError, match="nothing: cannot be read: No such file"):
        verify(tmp_path / "nothing")
    with pytest.raises(ParameterError, match="cannot be read: Is a directory"):
        verify(tmp_path)


def rechained(lines: list[bytes], change: Callable[[dict[str, Any]], None]) -> bytes:
    """The log as somebody would write it who changes it and mends the chain, but has no key."""
    previous, out = "0" * 64, []
    for number, line in enumerate(lines, 1):
        record = json.loads(line)
        change(record)
        record.update(number=number, previous=previous)
        del record["hash"]
        body = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        record["hash"] = previous = hashlib.sha256(body).hexdigest()
        out.append(
            json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        )
    return b"".join(out)


def whiten(record: dict[str, Any]) -> None:
    if record["event"] == "refusal":
        record["fields"]["reasons"] = []


def test_a_log_written_anew_is_whole_in_itself_but_not_with_anchors_or_certificates(
    folder: Path, lines: list[bytes]
) -> None:
    refusal = next(number for number, line in enumerate(lines, 1) if b'"event":"refusal"' in line)
    forged = rechained(lines, whiten)
    assert judged(folder, forged).whole
    anchored = judged(folder, forged, anchors=[anchor_of(lines[-1])])
    assert (anchored.first_bad, anchored.last.number) == (len(lines), len(lines) - 1)
    assert "not the record that was anchored" in (anchored.problem or "")
    sealed = judged(folder, forged, certificates=[BANK.certificate])
    assert sealed.first_bad == next(
        number for number, line in enumerate(lines, 1) if b'"event":"seal"' in line and number > refusal
    )
    assert sealed.problem == "bad seal: the signature is not the certificate's"


def test_a_wrong_link_with_right_hashes_is_a_broken_chain(tmp_path: Path, lines: list[bytes]) -> None:
    forged = rechained(lines, whiten).splitlines(keepends=True)
    refusal = next(number for number, line in enumerate(lines, 1) if b'"event":"refusal"' in line)
    found = judged(tmp_path, b"".join(lines[:refusal] + forged[refusal:]))
    assert found.first_bad == refusal + 1
    assert "broken chain" in (found.problem or "")


def test_a_line_that_lacks_something(tmp_path: Path, lines: list[bytes]) -> None:
    for key in ("event", "fields", "hash", "number", "previous", "time"):
        record = json.loads(lines[2])
        del record[key]
        line = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        found = judged(tmp_path, b"".join([*lines[:2], line, *lines[3:]]))
        assert (found.first_bad, found.problem) == (3, f"not a record: Object missing required field `{key}`")


def test_a_line_in_another_form_is_bad_though_its_hash_is_right(tmp_path: Path, lines: list[bytes]) -> None:
    for old, new in ((b'{"event":', b'{"event": '), (b'"hash":', b'"hash" :'), (b"offer", rb"\u006fffer")):
        changed = [*lines]
        at = next(number for number, line in enumerate(lines) if b'"offer"' in line)
        record = json.loads(lines[at].replace(old, new))
        assert record == json.loads(lines[at])
        changed[at] = lines[at].replace(old, new)
        body = changed[at].rstrip().rpartition(b'"hash"')
        behind = body[2].partition(b",")[2]
        digest = hashlib.sha256(body[0] + behind).hexdigest().encode()  # right over the bytes as they stand
        changed[at] = changed[at].replace(record["hash"].encode(), digest)
        found = judged(tmp_path, b"".join(changed))
        assert (found.first_bad, found.problem) == (at + 1, "not canonical JSON")


def test_a_seal_of_another_log_is_bad(tmp_path: Path) -> None:
    for name in ("one", "two"):
        AuditLog(tmp_path / name, BANK).close()
    one, two = ((tmp_path / name).read_bytes().splitlines(keepends=True) for name in ("one", "two"))
    forged = rechained([one[0], two[1]], lambda _: None)
    found = judged(tmp_path, forged, certificates=[BANK.certificate])
    assert (found.first_bad, found.problem) == (2, "bad seal: the signature is not the certificate's")


def test_an_endless_line_does_not_fill_the_memory(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    with path.open("r+b") as file:
        file.truncate(MOST_LINE * 8)  # zeros, which take no room on the disk
    found = verify(path)
    assert found.first_bad == len(lines) + 1
    assert "longer than any line of an audit log" in (found.problem or "")


# ---- seals -----------------------------------------------------------------------------------------------------


def test_seals_stand_where_they_must(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log", BANK, durable=False, seal_every=3) as log:
        for turn in range(8):
            log.append("test", {"turn": turn})
    assert [number for number, event in enumerate(events(tmp_path / "log"), 1) if event == "seal"] == [
        2, 3, 6, 9, 12,
    ]  # fmt: skip
    found = verify(tmp_path / "log", certificates=[BANK.certificate])
    assert (found.whole, found.records, found.sealed_up_to) == (True, 14, 12)


def test_seals_cannot_be_left_out(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log", BANK, durable=False, seal_every=4) as log:
        for turn in range(8):
            log.append("test", {"turn": turn})
    every = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    without = [*every[:2], *(line for line in every[2:] if b'"event":"seal"' not in line)]
    found = judged(tmp_path, rechained(without, lambda _: None), certificates=[BANK.certificate])
    assert (found.first_bad, found.problem) == (4, "bad seal: a seal belongs here, and there is none")
    found = judged(tmp_path, every[0], certificates=[BANK.certificate])
    assert (found.first_bad, found.problem) == (2, "missing: the log ends before its first seal")
    fill(tmp_path / "unsealed", seal_every=None)
    assert "seal" not in events(tmp_path / "unsealed")
    found = verify(tmp_path / "unsealed", certificates=[BANK.certificate])
    assert (found.first_bad, found.problem) == (
        1,
        "the log is one without seals: no certificate can prove it",
    )


def test_a_seal_of_another_key_is_bad(tmp_path: Path) -> None:
    impostor = self_signed("bank")
    fill(tmp_path / "log", impostor)
    assert verify(tmp_path / "log", certificates=[impostor.certificate]).whole
    found = verify(tmp_path / "log", certificates=[BANK.certificate])
    assert found.first_bad == 2
    assert "which was not given" in (found.problem or "")
    found = verify(tmp_path / "log", certificates=[PEOPLE["loans"].certificate])
    assert (found.first_bad, found.problem) == (
        1,
        'the log is of party "bank", and the certificate of loans',
    )

    def take_name(record: dict[str, Any]) -> None:
        record["fields"] = {
            key: BANK.fingerprint if key == "certificate" else value
            for key, value in record["fields"].items()
        }

    every = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    found = judged(tmp_path, rechained(every, take_name), certificates=[BANK.certificate])
    assert (found.first_bad, found.problem) == (2, "bad seal: the signature is not the certificate's")


def test_a_renewed_certificate_goes_on_and_both_are_needed(tmp_path: Path) -> None:
    renewed = self_signed("bank")
    fill(tmp_path / "log")
    with AuditLog(tmp_path / "log", renewed) as log:
        log.seal()
    assert records(tmp_path / "log")[-2]["fields"] == {"certificate": renewed.fingerprint}
    found = verify(tmp_path / "log", certificates=[BANK.certificate, renewed.certificate])
    assert (found.whole, found.sealed_up_to) == (True, found.records)
    assert verify(tmp_path / "log", certificates=[BANK.certificate]).first_bad == found.records
    assert verify(tmp_path / "log", certificates=[renewed.certificate]).first_bad == 2


# ---- crashes, and others that write ----------------------------------------------------------------------------


@thorough
@given(data=st.data())
def test_a_torn_line_is_set_aside_and_told(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(lines)
    kept = whole[: data.draw(st.integers(1, len(whole)))]
    path, aside = folder / "torn.jsonl", folder / "torn.jsonl.torn"
    path.write_bytes(kept)
    aside.unlink(missing_ok=True)
    with AuditLog(path, BANK, durable=False, seal_every=5) as log:
        log.append("test", {})
    good, _, torn = kept.rpartition(b"\n")
    assert path.read_bytes().startswith(good)
    assert verify(path, certificates=[BANK.certificate]).whole
    told = [record["fields"] for record in records(path) if record["event"] == "recovered"]
    if torn:
        assert [(each["bytes"], each["file"]) for each in told] == [(len(torn), "torn.jsonl.torn")]
        assert told[0]["digest"] == hashlib.sha256(torn).hexdigest()
        assert aside.read_bytes() == torn + b"\n"
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    else:
        assert not told
        assert not aside.exists()


def writer(log: Path, folder: Path, records: int, size: int, word: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WRITER), str(log), str(folder), str(records), str(size), word]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_processes_that_write_at_once_take_turns(tmp_path: Path) -> None:
    BANK.save(tmp_path / "bank")
    path = tmp_path / "log"
    words = ("one", "two")
    running = [writer(path, tmp_path / "bank", 300, 5000, word) for word in words]
    anchors = []
    for process in running:
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        anchors += [Anchor.read(line) for line in out.decode().split()]
    found = verify(path, anchors, [BANK.certificate])
    assert (found.whole, found.problem, len(anchors)) == (True, None, 600)
    written = [record["fields"] for record in records(path) if record["event"] == "test"]
    for word in words:
        assert [each["turn"] for each in written if each["writer"] == word] == list(range(300))
    assert events(path).count("genesis") == 1


def test_threads_that_write_at_once_take_turns(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log", BANK, durable=False) as log:
        threads = [
            threading.Thread(target=lambda: [log.append("test", {}) for _ in range(200)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert events(tmp_path / "log").count("test") == 800
    assert verify(tmp_path / "log").whole


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_killed_writer_loses_nothing_that_it_had_written(tmp_path: Path, size: int) -> None:
    BANK.save(tmp_path / "bank")
    path = tmp_path / "log"
    anchors: list[Anchor] = []
    for turn in range(4):
        process = writer(path, tmp_path / "bank", 0, size, "doomed")
        assert process.stdout is not None
        for _ in range(turn + 1):
            anchors.append(Anchor.read(process.stdout.readline().decode().strip()))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
        anchors += [
            Anchor.read(line) for line in rest.decode().splitlines() if line.count(":") and len(line) > 65
        ]
        left = verify(path)
        assert left.whole or "torn end" in (left.problem or "")
        with AuditLog(path, BANK, durable=False):
            pass
        found = verify(path, anchors, [BANK.certificate])
        assert (found.whole, found.problem) == (True, None)
        assert (events(path).count("recovered") > 0) == (tmp_path / "log.torn").exists()


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file of this process grows larger: a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_stops_the_message_and_the_log_recovers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with AuditLog(path, BANK) as log:
        log.append("test", {})
        with (
            room(path.stat().st_size + 100),
            pytest.raises(ParameterError, match="log: the audit log cannot be"),
        ):
            log.message(SESSION, Entry(0, 0.0, "sent", "loans", "offer", 1, "d" * 64))
        assert verify(path).problem == "torn end: it was cut short after 100 bytes, in a crash or by somebody"
        log.append("later", {})
    assert events(path) == ["genesis", "seal", "test", "recovered", "later"]
    assert verify(path).whole


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
        async with asyncio.timeout(60):
            return await session(Party("bank", speak), Party("loans", listen))

    results = asyncio.run(bounded())
    assert "the audit log was removed while it is in use" in str(results["bank"])
    assert isinstance(results["loans"], PeerError)
    assert heard == []


# ---- what is not a log to write to -----------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"a secret", b"a,b\n1,2\n", b"\n", b"{}"])
def test_another_file_is_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(ParameterError, match="other: not an audit log, and nothing is written to it"):
        AuditLog(path, BANK)
    assert path.read_bytes() == data
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


def test_logs_that_are_refused(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ParameterError, match="log: the audit log of party bank, not of loans"):
        AuditLog(path, PEOPLE["loans"])
    path.write_bytes(b"".join(lines)[:-10] + b"?" * 9 + b"\n")
    with pytest.raises(ParameterError, match=r"log: the last line is damaged \(not JSON\); nothing is added"):
        AuditLog(path, BANK)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(ParameterError, match="line 1 is not the beginning of an audit log"):
        AuditLog(path, BANK)
    with pytest.raises(ParameterError, match="nowhere/log: the audit log cannot be written: No such file"):
        AuditLog(tmp_path / "nowhere" / "log", BANK)
    with pytest.raises(ParameterError, match="/dev/null: not a file, which an audit log is"):
        AuditLog(Path("/dev/null"), BANK)
    with pytest.raises(ParameterError, match="sealed every 2 records or more, not every 1"):
        AuditLog(tmp_path / "new", BANK, seal_every=1)
    assert not (tmp_path / "new").exists()


def test_a_log_that_is_taken_away_while_in_use(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with AuditLog(path, BANK) as log:
        with pytest.raises(ParameterError, match="the event seal is the log's own"):
            log.append("seal", {})
        os.truncate(path, path.stat().st_size - 1)
        with pytest.raises(ParameterError, match="log: the audit log was cut while it is in use"):
            log.append("test", {})
        path.unlink()
        with pytest.raises(ParameterError, match="log: the audit log was removed while it is in use"):
            log.append("test", {})


def test_anchors_as_text() -> None:
    anchor = Anchor(17, "ab" * 32)
    assert Anchor.read(str(anchor)) == anchor
    for text in (
        "",
        "17",
        f"0:{'ab' * 32}",
        f"17:{'AB' * 32}",
        f"17:{'ab' * 31}",
        f" {anchor}",
        f"{anchor}\n",
    ):
        with pytest.raises(ParameterError, match="not NUMBER:HASH"):
            Anchor.read(text)
    with pytest.raises(ParameterError, match="records are numbered from 1"):
        verify(Path("log"), [Anchor(0, "0" * 64)])


def test_a_bad_log_is_insisted_on(folder: Path, lines: list[bytes]) -> None:
    found = judged(folder, b"".join([*lines[:3], b"{\n", *lines[3:]]))
    with pytest.raises(AnswerIsNo, match=r"judged.jsonl: line 4: not JSON") as caught:
        found.insist()
    assert caught.value.exit_code == 1
