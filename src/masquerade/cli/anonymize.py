"""`masquerade anonymize JOB`: one table in, one verified release out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say

if TYPE_CHECKING:
    from masquerade.library.deliver import Written
    from masquerade.library.release import Release


def anonymize(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file (TOML).", show_default=False)],
    json: Json = False,
) -> None:
    """Anonymise the table of a job, verify the result, and write the release and a report.

    Example: masquerade anonymize job.toml
    """
    from masquerade.library.jobs import anonymize_job

    with progress() as shown:
        written = anonymize_job(job, on_stage=shown.stage, on_step=shown.step)
    if json:
        print_json(written.summary)
    else:
        say(*describe(written))


def describe(written: Written) -> list[str]:
    """A few lines for a person."""
    release = written.release
    count = f"{release.rows:,} rows read"
    if release.dropped_rows:
        count += f", {release.dropped_rows:,} dropped for missing cells"
    if release.suppressed:
        count += f", {release.suppressed:,} suppressed"
    lines = [f"{count}; {release.released:,} released in {release.group_sizes.size:,} groups"]
    lines += choice_lines(release)
    lines += written_lines(release, written.table, written.report, written.labels)
    lines.append(seconds_line(release))
    return lines


def choice_lines(release: Release) -> list[str]:
    """Which method was chosen, by what, and what was not tried."""
    from masquerade.methods import described

    if (choice := release.choice) is None:
        return []
    best = f"the best of {len(choice.tried)} by " if len(choice.tried) > 1 else ""
    value = f"{choice.measure.replace('_', ' ')}: {_figure(choice.chosen.value)}"
    lines = [f"method: {described(choice.chosen.method)} ({best}{value})"]
    lines += [f"not tried, over the budget: {described(each)}" for each in choice.left_out]
    lines += [f"warning: {described(each.method)} {each.reason}" for each in choice.failed]
    return lines


def written_lines(
    release: Release, table: Path, report: Path | None, labels: Path | None = None
) -> list[str]:
    """What holds, what was left out, where everything is, and what to know before using it."""
    from masquerade.anonymize.cautions import cautions

    lines = [
        f"holds: {verdict.requirement} (worst group: {_figure(verdict.value)})"
        for verdict in release.verdicts
    ]
    if release.unchanged:
        lines.append(f"published as they are: {', '.join(release.unchanged)}")
    if release.dropped:
        lines.append(f"columns left out: {', '.join(release.dropped)}")
    lines.append(f"release: {table}")
    if report is not None:
        lines.append(f"report:  {report}")
    if labels is not None:
        lines.append(f"labels:  {labels} (names every value that a label stands for, rare ones too)")
    lines += [f"warning: {caution}" for caution in cautions(release)]
    return lines


def seconds_line(release: Release) -> str:
    """How long each part took."""
    return "seconds: " + ", ".join(f"{name} {spent:.3f}" for name, spent in release.seconds.items())


def _figure(value: float | int | None) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
