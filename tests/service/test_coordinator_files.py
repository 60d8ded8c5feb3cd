"""What the coordinator reads from its own folder: released files, and the end of the audit log."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.errors import NotFound, ParameterError
from masquerade.net.identity import Identity
from masquerade.service.audit import AuditLog
from masquerade.service.coordinator.audit_tail import audit_tail
from masquerade.service.coordinator.release_files import ReleaseFiles


def test_files_stay_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("x")
    files = ReleaseFiles(tmp_path / "releases")
    files.folder.mkdir()
    for path in ("../secret.csv", "/etc/passwd", "none/release.csv", "."):
        with pytest.raises(NotFound):
            files.whole(path)
    files.remove("../secret.csv")
    assert (tmp_path / "secret.csv").exists()
    with pytest.raises(ParameterError, match="csv, parquet"):
        files.table("a/release.csv", "../x")


def test_the_tail_of_the_log_is_its_last_records(trial: Path, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert audit_tail(path) == []
    with AuditLog(path, Identity.load(trial / "bank"), durable=False) as log:
        for number in range(300):
            log.append("thing", {"number": number, "text": "x" * 500})
    tail = audit_tail(path, 7)
    assert [each["fields"]["number"] for each in tail] == list(range(293, 300))
    assert len(audit_tail(path, 1000)) == len(path.read_text().splitlines())
    with pytest.raises(ParameterError):
        audit_tail(path, 0)
