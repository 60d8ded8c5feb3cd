"""`masquerade anonymize JOB`: one table in, one verified release out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say, say_plainly
from masquerade.cli.table_options import Encoding, Query, Separator, table_file, words

if TYPE_CHECKING:
    from masquerade.library.deliver import Written
    from masquerade.library.release import Release


def anonymize(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB|TABLE",
            help="A job file (.toml); or a table, for which a job is drafted as init does.",
            show_default=False,
        ),
    ],
    k: Annotated[
        int | None,
        typer.Option("--k", min=1, help="Records in a group, at least; of a table 5.", show_default=False),
    ] = None,
    qid: Annotated[
        str, typer.Option(metavar="A,B", help="Of a table: its quasi-identifiers.", show_default=False)
    ] = "",
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="In place of the job's.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The release; its report goes beside it.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Take a fast method rather than the best of several.")
    ] = False,
    show_job: Annotated[
        bool, typer.Option("--show-job", help="Of a table: print the job that is drafted.")
    ] = False,
    class_: Annotated[
        str | None,
        typer.Option("--class", metavar="COLUMN", help="Of a table: the class.", show_default=False),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Of a table: a sensitive attribute; may be repeated.", show_default=False
        ),
    ] = None,
    query: Query = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Anonymise a table, verify the result, and write the release and a report.

    Examples: masquerade anonymize people.csv --k 10 --qid age,sex --output release.csv;
    masquerade anonymize job.toml
    """
    of_table = {
        "--qid": qid,
        "--show-job": show_job,
        "--class": class_,
        "--sensitive": sensitive,
        "--query": query,
        "--separator": separator,
        "--encoding": encoding,
    }
    _refuse_quick_beside(method, quick)
    text: list[str] = []
    with progress() as shown:
        if not _is_table(job):
            _refuse_beside_job([name for name, given in of_table.items() if given])
            from masquerade.library.jobs import anonymize_job

            written = anonymize_job(
                job,
                method=method,
                k=k,
                output=output,
                quick=quick,
                on_stage=shown.stage,
                on_step=shown.step,
            )
        else:
            from masquerade.library.drafting import anonymize_table

            written = anonymize_table(
                table_file(job, query, separator, encoding),
                k=k,
                qid=words(qid) or None,
                method=method,
                output=output,
                target=class_,
                sensitive=sensitive or (),
                quick=quick,
                on_draft=lambda made: text.append(made.text),
                on_stage=shown.stage,
                on_step=shown.step,
            )
    if json:
        print_json({**written.summary, **({"job": text[0]} if show_job else {})})
        return
    if show_job:
        say_plainly(*text[0].splitlines(), "")
    say(*describe(written, quick=quick))


def _is_table(source: str) -> bool:
    """Whether it is a table that is named, by its ending or as a database, and not a job file."""
    from masquerade.data.database_url import database_scheme
    from masquerade.data.file_kinds import CSV_SUFFIXES, EXCEL_SUFFIXES, PARQUET_SUFFIXES, is_parted

    if database_scheme(source) is not None or is_parted(source, Path()):
        return True
    return Path(source).suffix.lower() in (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *EXCEL_SUFFIXES)


def _refuse_beside_job(names: list[str]) -> None:
    if names:
        from masquerade.errors import ParameterError

        raise ParameterError(*(f"{name}: belongs to a table; a job file says it itself" for name in names))


def _refuse_quick_beside(method: str | None, quick: bool) -> None:
    if not quick or method is None:
        return
    from masquerade.errors import ParameterError
    from masquerade.methods import DEFAULT

    if method != DEFAULT:
        raise ParameterError(f"--quick: chooses a fast method, and --method names {method}; give one of them")


def describe(written: Written, *, quick: bool = False) -> list[str]:
    """A few lines for a person."""
    release = written.release
    count = f"{release.rows:,} rows read"
    if release.dropped_rows:
        count += f", {release.dropped_rows:,} dropped for missing cells"
    if release.suppressed:
        count += f", {release.suppressed:,} suppressed"
    lines = [f"{count}; {release.released:,} released in {release.group_sizes.size:,} groups"]
    lines += choice_lines(release, quick=quick)
    lines += written_lines(release, written.table, written.report, written.labels)
    lines.append(seconds_line(release))
    return lines


def choice_lines(release: Release, *, quick: bool = False) -> list[str]:
    """Which method was chosen, by what, and what was not tried; of a quick one its name."""
    from masquerade.methods import described

    if (choice := release.choice) is None:
        return [f"method: {described(release.settings['algorithm'])}"] if quick else []
    best = f"the best of {len(choice.tried)} by " if len(choice.tried) > 1 else ""
    value = f"{choice.measure.replace('_', ' ')}: {_figure(choice.chosen.value)}"
    lines = [f"method: {described(choice.chosen.method)} ({best}{value})"]
    lines += [f"not tried, over the budget: {described(each)}" for each in choice.left_out]
    if choice.spared:
        names = dict.fromkeys(str(each["name"]) for each in choice.spared)
        lines.append(f"not tried, as no release can lose less: {', '.join(names)}")
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
