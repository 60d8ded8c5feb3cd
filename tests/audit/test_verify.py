"""Nothing in an audit log changes unseen: the chain, anchors kept elsewhere, and seals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from audit.logs import BANK, events, fill, judged, records, whole_log
from examples import examples
from masquerade.audit import Anchor, AuditLog, verify
from masquerade.audit.chained_file import MOST_LINE
from masquerade.errors import AnswerIsNo, DataError, ParameterError
from masquerade.net import self_signed
from net.nodes import PEOPLE

thorough = settings(max_examples=examples(150), deadline=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[bytes]:
    return whole_log(folder)


def anchor_of(line: bytes) -> Anchor:
    record = json.loads(line)
    return Anchor(record["number"], record["hash"])


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
    found = judged(tmp_path, b"")
    assert (found.first_bad, found.problem) == (1, "missing: the log is empty, and every log has a beginning")
    for data in (b"\n", b"a,b\n1,2\n", b'{"event":"message"}\n', b"\x00" * 100, b"[" * 100_000 + b"\n"):
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
        out.append(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
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


def test_an_endless_line_does_not_fill_the_memory(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    with path.open("r+b") as file:
        file.truncate(MOST_LINE * 8)  # zeros, which take no room on the disk
    found = verify(path)
    assert found.first_bad == len(lines) + 1
    assert "longer than any line of an audit log" in (found.problem or "")


def test_anchors_as_text() -> None:
    anchor = Anchor(17, "ab" * 32)
    assert Anchor.read(str(anchor)) == anchor
    for text in ("", "17", f"0:{'ab' * 32}", f"17:{'AB' * 32}", f"17:{'ab' * 31}", f" {anchor}", f"{anchor}\n"):
        with pytest.raises(ParameterError, match="not NUMBER:HASH"):
            Anchor.read(text)
    with pytest.raises(ParameterError, match="records are numbered from 1"):
        verify(Path("log"), [Anchor(0, "0" * 64)])


def test_a_bad_log_is_insisted_on(folder: Path, lines: list[bytes]) -> None:
    found = judged(folder, b"".join([*lines[:3], b"{\n", *lines[3:]]))
    with pytest.raises(AnswerIsNo, match=r"judged.jsonl: line 4: not JSON") as caught:
        found.insist()
    assert caught.value.exit_code == 1


# --- seals ---


def test_a_seal_of_another_log_is_bad(tmp_path: Path) -> None:
    for name in ("one", "two"):
        AuditLog(tmp_path / name, BANK).close()
    one, two = ((tmp_path / name).read_bytes().splitlines(keepends=True) for name in ("one", "two"))
    forged = rechained([one[0], two[1]], lambda _: None)
    found = judged(tmp_path, forged, certificates=[BANK.certificate])
    assert (found.first_bad, found.problem) == (2, "bad seal: the signature is not the certificate's")


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
    assert (found.first_bad, found.problem) == (1, "the log is one without seals: no certificate can prove it")


def test_a_seal_of_another_key_is_bad(tmp_path: Path) -> None:
    impostor = self_signed("bank")
    fill(tmp_path / "log", impostor)
    assert verify(tmp_path / "log", certificates=[impostor.certificate]).whole
    found = verify(tmp_path / "log", certificates=[BANK.certificate])
    assert found.first_bad == 2
    assert "which was not given" in (found.problem or "")
    found = verify(tmp_path / "log", certificates=[PEOPLE["loans"].certificate])
    assert (found.first_bad, found.problem) == (1, 'the log is of party "bank", and the certificate of loans')

    def take_name(record: dict[str, Any]) -> None:
        record["fields"] = {
            key: BANK.fingerprint if key == "certificate" else value for key, value in record["fields"].items()
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
