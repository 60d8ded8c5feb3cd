"""A release and its report appear together: both whole, or neither.

Each is written, whole and safe on the disk, under a hidden name beside its place; only then do both get
their names. What fails before leaves nothing behind, and an older release stays as it was.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from masquerade.data.write import write_table, write_text_atomically
from masquerade.errors import ParameterError
from masquerade.job.outputs import Outputs
from masquerade.library.evaluation import OnStage, silent
from masquerade.library.frames import Release


def deliver(release: Release, outputs: Outputs, on_stage: OnStage = silent) -> None:
    """Write the release and its report; how long that took is added to the release's `seconds`."""
    hidden: dict[Path, Path] = {}
    try:
        on_stage(f"writing {outputs.table.name}")
        started = time.perf_counter()
        hidden[outputs.table] = temporary = _beside(outputs.table)
        with _named(outputs.table, temporary):
            write_table(release.table, temporary)
        release.seconds["write"] = time.perf_counter() - started
        if outputs.report is not None:
            from masquerade.report.html import render_report

            on_stage(f"writing {outputs.report.name}")
            started = time.perf_counter()
            hidden[outputs.report] = temporary = _beside(outputs.report)
            with _named(outputs.report, temporary):
                write_text_atomically(temporary, render_report(release))
            release.seconds["report"] = time.perf_counter() - started
        for path, temporary in hidden.items():
            try:
                temporary.replace(path.resolve())
            except OSError as error:
                raise ParameterError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        for temporary in hidden.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def _named(path: Path, temporary: Path) -> Iterator[None]:
    """Call the file by its own name where something goes wrong."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(*(each.replace(str(temporary), str(path)) for each in error.problems)) from None


def _beside(path: Path) -> Path:
    """A hidden name in the folder of the file that a path leads to: a link stays a link."""
    target = path.resolve()
    return target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
