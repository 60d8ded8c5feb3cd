"""Transcripts: lines that prove what was said, without its content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from masquerade.errors import DataError, ParameterError
from masquerade.net import Transcript, read_transcript


def test_lines_are_on_disk_at_once_and_hold_no_content(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with Transcript(path) as transcript:
        transcript.sent("bank", "offer", b"a secret")
        transcript.received("loans", "instruct", b"")
        lines = path.read_text().splitlines()
    first, second = map(json.loads, lines)
    digest = hashlib.sha256(b"a secret").hexdigest()
    assert first.pop("seconds") >= 0
    assert first == {
        "number": 0, "direction": "sent", "peer": "bank", "kind": "offer", "size": 8, "digest": digest,
    }  # fmt: skip
    assert (second["number"], second["direction"], second["size"]) == (1, "received", 0)
    assert "secret" not in path.read_text()


def test_reading_gives_back_what_was_written(tmp_path: Path) -> None:
    with Transcript(tmp_path / "t.jsonl") as transcript:
        transcript.sent("bank", "offer", b"1")
    assert read_transcript(tmp_path / "t.jsonl") == tuple(transcript.entries)


def test_files_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="the transcript cannot be written: No such file or directory"):
        Transcript(tmp_path / "nowhere" / "t.jsonl")
    with pytest.raises(ParameterError, match="cannot be read"):
        read_transcript(tmp_path / "nothing.jsonl")
    (tmp_path / "broken.jsonl").write_bytes(b'{"number": 0}\n\xff')
    with pytest.raises(DataError, match=r"broken.jsonl: line 1: not an entry"):
        read_transcript(tmp_path / "broken.jsonl")


def test_a_full_disk_ends_the_session_with_the_files_name() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with (
        Transcript(Path("/dev/full")) as transcript,
        pytest.raises(ParameterError, match="/dev/full: the transcript cannot be written: No space left"),
    ):
        transcript.sent("bank", "offer", b"1")
