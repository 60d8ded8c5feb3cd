"""Releases on the disk: `releases/SESSION/` with its product's files (`protocol/contract.py`), report and summary.

The folder is written under a hidden name and gets its own when everything in it is whole and on the disk; only then is
its row stored. What has no row was never published, and is swept away.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from masquerade.anonymize import VerifiedRelease
from masquerade.arrangement import ANSWER, MODEL, TABLE, product_of
from masquerade.data import as_json, write_table
from masquerade.errors import NotFound, ParameterError, shown
from masquerade.files import sync_folder, write_whole
from masquerade.methods import plain_method
from masquerade.protocol import REPORTED_SETTINGS, JointRatios, Learned
from masquerade.report import attacks_on, render_answer, render_model, render_report
from masquerade.service.agree import quality
from masquerade.service.agree.arrangements import RULES
from masquerade.service.agree.further_releases import can_be_rolled_up
from masquerade.service.agree.quality import Figures
from masquerade.service.agree.terms import Terms

# --- products -----------------------------------------------------------------------------------------------
# What a session makes, a table, a model or an answer: how it is judged, described and written.
#
# Publishing asks here, and nowhere else.

Made = VerifiedRelease | Learned | JointRatios


def figures_of(made: Made, terms: Terms) -> Figures:
    """Return the figures that a request may limit: of a model or an answer there are none."""
    return quality.figures_of(made, terms) if isinstance(made, VerifiedRelease) else {}


def losses_of(made: Made, terms: Terms) -> dict[str, dict[str, float]]:
    """Return what each column lost, to be named beside the figures, and which lost nearly all."""
    return quality.losses_of(made, terms) if isinstance(made, VerifiedRelease) else {}


def as_asked(made: Made, columns: Sequence[str], *, show_steps: bool) -> Made:
    """Return it with its columns in the order of the request, and without steps that nobody may see."""
    if not isinstance(made, VerifiedRelease):
        return made
    return replace(made, table=made.table.select(list(columns)), steps=made.steps if show_steps else ())


def bound(made: Made, terms: Terms) -> Made:
    """Return it with what its parties let follow it, so that nothing else is advised."""
    if not isinstance(made, VerifiedRelease):
        return made
    return replace(made, followed_by="coarser" if can_be_rolled_up(terms) else "nothing")


def rows_of(made: Made) -> int:
    """Return how many records are paid for: those released, learned from, or compared."""
    if isinstance(made, VerifiedRelease):
        return int(made.table.num_rows)
    return made.n_records if isinstance(made, Learned) else made.compared


def kind_figures(made: Made, terms: Terms) -> dict[str, Any]:
    """Return the figures that only sessions of one kind have; without groups nothing is promised against colluders."""
    rules = RULES[terms.arrangement]
    return rules.figures(terms, made.rows) if isinstance(made, VerifiedRelease) else {"kind": rules.name}


def summary_of(made: Made, *, show_steps: bool) -> dict[str, Any]:
    """Return its own figures; nothing in it depends on who asked."""
    summary = made.summary if isinstance(made, VerifiedRelease) else made.summary()
    if isinstance(made, Learned):
        return {**summary, "roles": dict(made.roles), "curves": dict(made.curves)}
    if not isinstance(made, VerifiedRelease):
        return summary
    if not show_steps:
        del summary["steps"]
    settings = {name: made.settings[name] for name in REPORTED_SETTINGS if name in made.settings}
    return {**summary, **settings, "attacks": [each.summary() for each in attacks_on(made)]}


def written_in(made: Made, folder: Path) -> Path:
    """Write its files into a folder; return the one that its digest is of."""
    if isinstance(made, VerifiedRelease):
        files = [folder / name for name in TABLE.files.values()]
        for file in files:
            write_table(made.table, file)
        return files[0]
    file = folder / (MODEL if isinstance(made, Learned) else ANSWER).files["json"]
    if isinstance(made, Learned):
        made = replace(made, algorithm=plain_method(made.algorithm))
    write_whole(file, made.file())
    return file


def page_of(made: Made, sha256: str) -> str:
    """Return its report."""
    if isinstance(made, VerifiedRelease):
        return render_report(made, sha256)
    return render_model(made) if isinstance(made, Learned) else render_answer(made)


# --- release files ------------------------------------------------------------------------------------------

Format = Literal["csv", "parquet", "json"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "json")
REPORT, SUMMARY = "report.html", "summary.json"


@dataclass(frozen=True)
class WrittenRelease:
    """A release on the disk; paths are relative to the folder of all releases."""

    table: str
    report: str
    sha256: str


class ReleaseFiles:
    """The folder of all releases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, session: str, release: Made, summary: Mapping[str, Any]) -> WrittenRelease:
        """Write a release as a whole; an older one of the same session, which was discarded, makes room.

        What that took is noted in the release's `seconds`.
        """
        hidden = self.folder / f".{session}.{secrets.token_hex(8)}"
        final = self.folder / session
        try:
            hidden.mkdir(mode=0o700)
            # A table's own dictionary: its report tells how long the writing took.
            seconds = release.seconds if isinstance(release, VerifiedRelease) else dict(release.seconds)
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
        return WrittenRelease(f"{session}/{first.name}", f"{session}/{REPORT}", sha256)

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
