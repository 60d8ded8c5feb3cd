"""What the coordinator reads from its own folder: released files, and the end of the audit log."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.errors import NotFound, ParameterError
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


def test_the_report_names_the_table_that_it_is_about(tmp_path: Path) -> None:
    table = mq.Table(pa.table({"age": [20, 20, 30, 30]}))
    made = mq.anonymize(table, mq.KAnonymity(["age"], 2))
    written = ReleaseFiles(tmp_path).write("ab" * 16, made, {})
    assert hashlib.sha256((tmp_path / written.table).read_bytes()).hexdigest() == written.sha256
    assert written.sha256 in (tmp_path / written.report).read_text()
