"""Releases on the disk: `releases/SESSION/` with release.csv, release.parquet, report.html and summary.json.

The folder is written under a hidden name and gets its own when everything in it is whole and on the disk; only then is
its row stored. What has no row was never published, and is swept away.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from masquerade.anonymize.release import Release
from masquerade.data.as_json import as_json
from masquerade.data.write import write_table
from masquerade.errors import NotFound, ParameterError, shown
from masquerade.files import sync_folder, write_whole
from masquerade.report.html import render_report

Format = Literal["csv", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "parquet")
CSV, PARQUET, REPORT, SUMMARY = "release.csv", "release.parquet", "report.html", "summary.json"


@dataclass(frozen=True)
class Written:
    """A release on the disk; paths are relative to the folder of all releases."""

    table: str
    report: str
    sha256: str


class ReleaseFiles:
    """The folder of all releases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, session: str, release: Release, summary: Mapping[str, Any]) -> Written:
        """Write a release as a whole; an older one of the same session, which was discarded, makes room.

        What that took is noted in the release's `seconds`.
        """
        hidden = self.folder / f".{session}.{secrets.token_hex(8)}"
        final = self.folder / session
        try:
            hidden.mkdir(mode=0o700)
            with _timed(release, "write"):
                write_table(release.table, hidden / CSV)
                write_table(release.table, hidden / PARQUET)
            sha256 = _sha256(hidden / CSV)
            with _timed(release, "report"):
                write_whole(hidden / REPORT, render_report(release, sha256))
            digest = _sha256(hidden / REPORT)
            # after the files, with what they took
            told = {**summary, "seconds": release.seconds, "report_sha256": digest}
            write_whole(hidden / SUMMARY, as_json(told))
            sync_folder(hidden)
            shutil.rmtree(final, ignore_errors=True)
            hidden.rename(final)
            sync_folder(self.folder)
        except OSError as error:
            raise ParameterError(f"{final}: cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        return Written(f"{session}/{CSV}", f"{session}/{REPORT}", sha256)

    def table(self, path: str, format: str) -> Path:
        """A release's table in one of the formats, given the path that is stored."""
        if format not in FORMATS:
            raise ParameterError(f"format: must be one of {', '.join(FORMATS)}; got {shown(format)}")
        return self.whole(str(Path(path).with_name(CSV if format == "csv" else PARQUET)))

    def summary(self, path: str) -> dict[str, Any]:
        """The summary of a release, given the path of its table."""
        content: dict[str, Any] = json.loads(self.whole(str(Path(path).with_name(SUMMARY))).read_bytes())
        return content

    def whole(self, path: str) -> Path:
        """The file at a stored path, which lies in the folder of all releases."""
        file = (self.folder / path).resolve()
        if not file.is_relative_to(self.folder.resolve()) or not file.is_file():
            raise NotFound("the release's files are no longer kept")
        return file

    def remove(self, path: str) -> None:
        """Delete the folder of a stored path."""
        folder = (self.folder / path).resolve().parent
        if folder.parent == self.folder.resolve():
            shutil.rmtree(folder, ignore_errors=True)

    def discard(self, session: str, kept: Collection[str]) -> None:
        """Delete what was written for a session, unless a stored path lies in it."""
        if f"{session}/{CSV}" not in kept:
            self.remove(f"{session}/{CSV}")

    def sweep(self, kept: Collection[str]) -> list[str]:
        """Delete every folder that no stored path lies in; their names."""
        needed = {Path(path).parts[0] for path in kept}
        orphans = [each for each in sorted(self.folder.iterdir()) if each.name not in needed]
        for orphan in orphans:
            if orphan.is_dir():
                shutil.rmtree(orphan, ignore_errors=True)
            else:
                orphan.unlink(missing_ok=True)
        return [orphan.name for orphan in orphans]


@contextmanager
def _timed(release: Release, part: str) -> Iterator[None]:
    """Note how long a part of the work took."""
    started = time.perf_counter()
    yield
    release.seconds[part] = time.perf_counter() - started


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
