"""Audit logs for tests: a small one with everything in it, and how to read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from masquerade.audit import AuditLog, LogVerification, verify
from masquerade.net import Identity
from net.nodes import PEOPLE

BANK = PEOPLE["bank"]
SESSION = "5e" * 32
CONTRACT = b'{"nonce":"1","parties":["bank","loans"]}'


def fill(path: Path, identity: Identity = BANK, **options: Any) -> None:
    """A small log with everything in it."""
    with AuditLog(path, identity, durable=False, **options) as log:
        log.contract(CONTRACT)
        log.refusal("lab", ["k is 3; at least 20 is asked", "purpose “märketing” is not allowed"], SESSION)
        with log.session(SESSION, ["loans"]) as transcript:
            transcript.sent("loans", "offer", b"a secret")
            transcript.received("loans", "instruct", b"another")


def whole_log(folder: Path) -> list[bytes]:
    """The lines of a whole log, with their ends."""
    fill(folder / "whole.jsonl", seal_every=5)
    return (folder / "whole.jsonl").read_bytes().splitlines(keepends=True)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def events(path: Path) -> list[str]:
    return [record["event"] for record in records(path)]


def judged(folder: Path, data: bytes, **options: Any) -> LogVerification:
    """What is found in a log of these bytes."""
    (folder / "judged.jsonl").write_bytes(data)
    return verify(folder / "judged.jsonl", **options)
