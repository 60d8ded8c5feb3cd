"""The end of an audit log, for a page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.logs import BANK
from masquerade.audit import AuditLog, last_records
from masquerade.errors import ParameterError


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
