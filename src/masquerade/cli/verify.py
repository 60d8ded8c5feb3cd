"""`masquerade verify RELEASE --job JOB`: does this release satisfy the job's requirements?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Json, print_json, say


def verify(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="The released table (.csv or .parquet).")],
    job: Annotated[Path, typer.Option("--job", metavar="JOB", help="The job file.", show_default=False)],
    sql: Annotated[
        bool, typer.Option("--sql", help="Count once more in SQL, with DuckDB; print the statements.")
    ] = False,
    json: Json = False,
) -> None:
    """Check a release against the requirements of its job, by counting its cells.

    With --sql, DuckDB reads and counts the release once more by statements that are printed, and that anybody can run.

    Exit code 0 when all hold, 1 when one does not; the first violating group is named.

    Example: masquerade verify release.csv --job job.toml
    """
    from masquerade.library.jobs import verify_job

    verification = verify_job(release, job, sql=sql)
    if json:
        print_json(verification.summary)
    else:
        say(*(line for each in verification.sql for line in each.lines()))
        say(*(f"holds: {verdict.requirement}" for verdict in verification.verdicts if verdict.holds))
    verification.insist()
