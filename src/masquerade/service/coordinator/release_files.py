"""Releases on the disk: `releases/SESSION/` with its product's files (`protocol/product.py`), report and summary.

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

from masquerade.data.as_json import as_json
from masquerade.errors import NotFound, ParameterError, shown
from masquerade.files import sync_folder, write_whole
from masquerade.protocol.product import product_of
from masquerade.service.coordinator.products import Made, page_of, seconds_of, written_in

Format = Literal["csv", "parquet", "json"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "json")
REPORT, SUMMARY = "report.html", "summary.json"


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

    def write(self, session: str, release: Made, summary: Mapping[str, Any]) -> Written:
        """Write a release as a whole; an older one of the same session, which was discarded, makes room.

        What that took is noted in the release's `seconds`.
        """
        hidden = self.folder / f".{session}.{secrets.token_hex(8)}"
        final = self.folder / session
        try:
            hidden.mkdir(mode=0o700)
            seconds = seconds_of(release)
            with _timed(seconds, "write"):
                first = written_in(release, hidden)
            sha256 = _sha256(first)
            with _timed(seconds, "report"):
                write_whole(hidden / REPORT, page_of(release, sha256))
            digest = _sha256(hidden / REPORT)
            # after the files, with what they took
            told = {**summary, "seconds": seconds, "report_sha256": digest}
            write_whole(hidden / SUMMARY, as_json(told))
            sync_folder(hidden)
            shutil.rmtree(final, ignore_errors=True)
            hidden.rename(final)
            sync_folder(self.folder)
        except OSError as error:
            raise ParameterError(f"{final}: cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        return Written(f"{session}/{first.name}", f"{session}/{REPORT}", sha256)

    def table(self, path: str, format: str) -> Path:
        """A release's table, model or answer in one of its formats, given the path that is stored."""
        if format not in FORMATS:
            raise ParameterError(f"format: must be one of {', '.join(FORMATS)}; got {shown(format)}")
        made = product_of(Path(path).name)
        if format not in made.files:
            raise NotFound(f"the session made {_a(made.name)}, which is there as {made.formats}")
        return self.whole(str(Path(path).with_name(made.files[format])))

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
        if not any(Path(path).parts[0] == session for path in kept):
            self.remove(f"{session}/{SUMMARY}")

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


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


@contextmanager
def _timed(seconds: dict[str, float], part: str) -> Iterator[None]:
    """Note how long a part of the work took."""
    started = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - started


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
