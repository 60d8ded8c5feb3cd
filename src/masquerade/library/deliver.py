"""Write a release and its report together: both complete, or neither."""

from __future__ import annotations

import time

from masquerade.data.write import check_target, encode_table
from masquerade.files import replacing_together
from masquerade.job.outputs import Outputs
from masquerade.library.python_api import Release
from masquerade.net.progress import OnStage, Stage, silent


def deliver(release: Release, outputs: Outputs, on_stage: OnStage = silent) -> None:
    """Write the release and its report; add the time taken to the release's `seconds`."""
    with replacing_together() as opened:
        on_stage(Stage(f"writing {outputs.table.name}"))
        started = time.perf_counter()
        check_target(outputs.table)
        with opened(outputs.table) as file:
            encode_table(release.table, file, outputs.table.suffix)
        release.seconds["write"] = time.perf_counter() - started
        if outputs.report is not None:
            from masquerade.report.html import render_report

            on_stage(Stage(f"writing {outputs.report.name}"))
            started = time.perf_counter()
            with opened(outputs.report) as file:
                file.write(render_report(release).encode())
            release.seconds["report"] = time.perf_counter() - started
