"""What the coordinator reads from its own folder: released files, and the end of the audit log."""

from __future__ import annotations

from pathlib import Path

import pytest

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
