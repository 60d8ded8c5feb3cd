"""Write a release with its report, and what else a run keeps: all complete, or nothing.

The table is renamed into its place last, and the report names the table's digest. So a release is never without its
report, and a report that a killed process left beside another table, or beside none, does not pass for that table's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.data.formulas import escape_formulas
from masquerade.data.write import check_target, encode_table
from masquerade.files import make_folder, read_file, replacing_together
from masquerade.job.outputs import Outputs
from masquerade.library.release import Release
from masquerade.net.progress import OnStage, Stage, silent


@dataclass(frozen=True)
class Written:
    """A release and the files it was written to."""

    release: Release
    table: Path
    report: Path | None
    labels: Path | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary, with the files."""
        files = {"table": self.table, "report": self.report, "labels": self.labels}
        written = {key: str(path) for key, path in files.items() if path is not None}
        return {**self.release.summary, **written}


def deliver(
    release: Release,
    outputs: Outputs,
    on_stage: OnStage = silent,
    *,
    records: Sequence[Path] = (),
    into: Path | None = None,
) -> None:
    """Write the release and its report, and copy `records` with their modes into a folder.

    The time taken is added to the release's `seconds`.
    """
    with replacing_together() as opened:
        on_stage(Stage(f"writing {outputs.table.name}"))
        started = time.perf_counter()
        check_target(outputs.table)
        with opened(outputs.table) as file:
            table = escape_formulas(release.table) if outputs.escape_formulas else release.table
            encode_table(table, file, outputs.table.suffix)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # any file will do
        release.seconds["write"] = time.perf_counter() - started
        if outputs.report is not None:
            from masquerade.report.html import render_report

            on_stage(Stage(f"writing {outputs.report.name}"))
            started = time.perf_counter()
            with opened(outputs.report) as file:
                file.write(render_report(release, digest).encode())
            release.seconds["report"] = time.perf_counter() - started
        if outputs.labels is not None:
            labels = release.labels(outputs.labelled)
            with opened(outputs.labels) as file:
                encode_table(
                    escape_formulas(labels) if outputs.escape_formulas else labels,
                    file,
                    outputs.labels.suffix,
                )
        if into is not None:
            make_folder(into)
            for record in records:
                with opened(into / record.name, record.stat().st_mode & 0o777) as file:
                    file.write(read_file(record))
