"""`masquerade anonymize JOB`, and what is asked of one table, of a release and of several parties on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Json, answer, argument, option, print_json, progress, say, say_plainly
from masquerade.cli.table_options import Encoding, Query, Separator, table_file, words
from masquerade.errors import ParameterError, shown

if TYPE_CHECKING:
    from masquerade.anonymize import MethodResult, SideBySide
    from masquerade.jobs import Mashup, Release, Written


def anonymize(
    job: Annotated[
        str, argument("JOB|TABLE", "A job file (.toml); or a table, for which a job is drafted as init does.")
    ],
    k: Annotated[int | None, option("--k", "Records in a group, at least; of a table 5.", min=1)] = None,
    qid: Annotated[str, option("--qid A,B", "Of a table: its quasi-identifiers.")] = "",
    method: Annotated[str | None, option("--method NAME", "In place of the job's.")] = None,
    output: Annotated[Path | None, option("--output FILE", "The release; its report goes beside it.")] = None,
    quick: Annotated[bool, option("--quick", "Take a fast method rather than the best of several.")] = False,
    show_job: Annotated[bool, option("--show-job", "Of a table: print the job that is drafted.")] = False,
    class_: Annotated[str | None, option("--class COLUMN", "Of a table: the class.")] = None,
    sensitive: Annotated[
        list[str] | None, option("--sensitive COLUMN", "Of a table: a sensitive attribute; may be repeated.")
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
    if quick and method is not None:
        from masquerade.methods import DEFAULT

        if method != DEFAULT:
            raise ParameterError(f"--quick: chooses a fast method, and --method names {method}; give one of them")
    text: list[str] = []
    with progress() as shown:
        if not _is_table(job):
            if beside := [name for name, given in of_table.items() if given]:
                raise ParameterError(*(f"{name}: belongs to a table; a job file says it itself" for name in beside))
            from masquerade.jobs import anonymize_job

            written = anonymize_job(
                job, method=method, k=k, output=output, quick=quick, on_stage=shown.stage, on_step=shown.step
            )
        else:
            from masquerade.jobs import anonymize_table

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
    from masquerade.data import CSV_SUFFIXES, EXCEL_SUFFIXES, PARQUET_SUFFIXES, database_scheme, is_partitioned

    if database_scheme(source) is not None or is_partitioned(source, Path()):
        return True
    return Path(source).suffix.lower() in (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *EXCEL_SUFFIXES)


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


def written_lines(release: Release, table: Path, report: Path | None, labels: Path | None = None) -> list[str]:
    """What holds, what was left out, where everything is, and what to know before using it."""
    from masquerade.anonymize import cautions

    lines = [f"holds: {verdict.requirement} (worst group: {_figure(verdict.value)})" for verdict in release.verdicts]
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


def attack(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="The released table (.csv or .parquet).")],
    job: Annotated[Path, option("--job JOB", "The job file.")],
    original: Annotated[str | None, option("--original TABLE", "The original, to name its most exposed rows.")] = None,
    outside: Annotated[str | None, option("--outside TABLE", "A table of people that shares columns.")] = None,
    earlier: Annotated[
        list[str] | None, option("--earlier RELEASE", "Another release of the same table; may be repeated.")
    ] = None,
    population: Annotated[
        int | None, option("--population", "The people whom the release is a sample of.", min=1)
    ] = None,
    json: Json = False,
) -> None:
    """Play attacks on a release, and tell what each of them gets.

    Example: masquerade attack release.csv --job job.toml --outside voters.csv
    """
    from masquerade.jobs import attack_job

    with progress() as shown:
        shown.stage("attacking")
        found = attack_job(
            release, job, original=original, outside=outside, earlier=earlier or (), population=population
        )
    lines = []
    for each in found:
        lines.append(f"{each.name}: {each.value:.6g}: {each.meaning}")
        if each.records:
            lines.append(f"  most exposed: row {', '.join(map(str, each.records))}")
    answer(json, {"attacks": [each.summary() for each in found]}, *lines)


def compare(
    job: Annotated[Path, argument("JOB", "The job file (TOML).")],
    methods: Annotated[str, option("--methods A,B", "Some methods alone, by name.")] = "",
    k: Annotated[str, option("--k 5,10,50", "Each in place of the job's k.")] = "",
    report: Annotated[Path | None, option("--report FILE", "Write a page with the table and a chart.")] = None,
    json: Json = False,
) -> None:
    """Run the methods that take the requirements of a job, and compare what their releases keep and risk.

    The job's own [algorithm] does not matter, and no release is written.

    Example: masquerade compare job.toml --k 5,10,50 --report comparison.html
    """
    from masquerade.jobs import compare_job

    with progress() as told, _naming_options():
        found = compare_job(job, methods=words(methods), ks=_numbers(k), on_stage=told.stage)
    if report is not None:
        found.report(report)
    page, lines = ({}, []) if report is None else ({"report": str(report)}, [f"report: {report}"])
    answer(json, found.summary | page, *_compare_lines(found), *lines)


@contextmanager
def _naming_options() -> Iterator[None]:
    """Let what is wrong with a parameter of `compare` name the option that gives it."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(
            *(
                each.at(source=f"--{each.parameter}", parameter="", owner="")
                if each.owner == compare.__name__
                else each
                for each in error.problems
            )
        ) from None


def _numbers(text: str) -> list[int]:
    numbers = words(text)
    for word in numbers:
        if not (word.isascii() and word.isdigit() and len(word) < 16):
            raise ParameterError(f"--k: must be whole numbers such as 5,10,50; got {shown(word)}")
    return [int(word) for word in numbers]


def _compare_lines(found: SideBySide) -> list[str]:
    """A table in columns, those who refused, and the best."""
    from masquerade.methods import described

    measure, *others = (name.replace("_", " ") for name in found.headline)
    head = ["method", measure, "k", *others, "highest risk", "mean risk", "groups", "suppressed", "seconds"]
    rows = [head, *([described(row.method), *_cells(row, found.headline)] for row in found.rows)]
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([f"{name:<{first}}", *(f"{each:>{width}}" for each, width in zip(cells, widths, strict=True))])
        for name, *cells in rows
    ]
    lines += [
        f"left out: {name}: {problems[0]}" if problems else f"left out: {name}"
        for name, problems in found.refused.items()
    ]
    lines += [
        f"best by {found.measure.replace('_', ' ')}{f', k = {row.k}' if row.k is not None else ''}: "
        f"{described(row.method)}"
        for row in found.best
    ]
    return lines


def _cells(row: MethodResult, names: Sequence[str]) -> list[str]:
    measured, *figures = ("" if (value := row.metrics.get(name)) is None else f"{value:.4f}" for name in names)
    return [
        measured,
        "" if row.k is None else str(row.k),
        *figures,
        f"{row.risk.highest:.4f}",
        f"{row.risk.mean:.4f}",
        str(row.groups),
        str(row.suppressed),
        f"{row.seconds:.3f}",
    ]


def evaluate(
    original: Annotated[str, typer.Argument(metavar="ORIGINAL", help="The original table.")],
    release: Annotated[str, typer.Argument(metavar="RELEASE", help='Its release, made with order = "input".')],
    job: Annotated[Path, option("--job JOB", "The job file.")],
    queries: Annotated[int, typer.Option(min=0, help="Random range queries for the query error; 0 for none.")] = 2500,
    train: Annotated[
        int | None, typer.Option(min=1, help="Grow decision trees on the first N kept rows, test on the rest.")
    ] = None,
    folds: Annotated[
        int, typer.Option(min=0, help="Without --train: cross-validate in N parts; 0 for no decision trees.")
    ] = 10,
    workload: Annotated[
        Path | None,
        option("--workload", "A file of SQL queries whose selections are measured; without it the job's own."),
    ] = None,
    predict: Annotated[
        list[str] | None, option("--predict NAME", "An attribute that the others are to predict; repeatable.")
    ] = None,
    clusters: Annotated[
        int, typer.Option(min=0, help="Find N clusters in the release, and judge them; 0 for none.")
    ] = 0,
    json: Json = False,
) -> None:
    """Measure a release: metrics, query error and, where the job has a class, classification errors.

    Example: masquerade evaluate people.csv release.csv --job job.toml
    """
    from masquerade.jobs import evaluate_job

    with progress() as shown:
        summary = evaluate_job(
            original,
            release,
            job,
            queries=queries,
            train=train,
            folds=folds,
            workload=workload,
            predict=predict or (),
            clusters=clusters,
            on_stage=shown.stage,
        )
    answer(json, summary, *_evaluate_lines(summary))


def _evaluate_lines(summary: Mapping[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, value in summary.items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_evaluate_lines(value, indent + "  ")]
        elif key == "attacks":
            told = (f"{each['name']}: {each['value']:.4f}: {each['meaning']}" for each in value)
            lines += [f"{indent}{name}:", *(f"{indent}  {line}" for line in told)]
        elif key == "left_out":
            lines.append(f"{indent}{name}: {', '.join(value)}")
        elif isinstance(value, float):
            lines.append(f"{indent}{name}: {value:.4f}")
        else:
            lines.append(f"{indent}{name}: {'none' if value is None else value}")
    return lines


def mashup(job: Annotated[Path, argument("JOB", "The job file (TOML).")], json: Json = False) -> None:
    """Join the tables of a job's [parties] without any of them showing its own to another.

    For trials and tests: each party is a process of its own on this machine, with a fresh certificate and mutual
    TLS. They find their common records, specialise together, and hand in their columns; this command joins,
    shuffles, verifies and only then writes them, with a report and each party's transcript.

    Example: masquerade mashup job.toml
    """
    from masquerade.jobs import mashup_job

    with progress() as shown:
        made = mashup_job(job, on_stage=shown.stage, on_party=shown.party)
    answer(json, made.summary, *describe_mashup(made))


def describe_mashup(made: Mashup) -> list[str]:
    """A few lines for a person, the last of them the cost."""
    release = made.release
    sent = ", ".join(f"{name} {count:,} bytes" for name, count in made.bytes_sent.items())
    suppressed = f", {release.suppressed:,} suppressed" if release.suppressed else ""
    dropped = ", ".join(f"{name} {count:,}" for name, count in made.dropped_rows.items() if count)
    whose = "records of all providers" if "third_party" in release.settings else "common records"
    told = (f"{name} {gain.alone:.1%} alone (gain {gain.gain:+.1%})" for name, gain in made.gains.items())
    gains = [] if release.error is None else ["; ".join([f"classification error: {release.error:.1%} together", *told])]
    return [
        f"{release.rows:,} {whose}; released in {release.group_sizes.size:,} groups{suppressed}",
        *([f"rows dropped for missing cells: {dropped}"] if dropped else []),
        *(f"engine of {name}: {told}" for name, told in made.engine.items()),
        *_method(made),
        *written_lines(release, made.table, made.report, made.labels),
        *gains,
        f"transcripts: {made.transcripts}",
        seconds_line(release),
        f"cost: {made.rounds} rounds; sent by {sent}",
    ]


def _method(made: Mashup) -> list[str]:
    """The method that was agreed on; if it was chosen, why."""
    from masquerade.arrangement import chosen_lines
    from masquerade.methods import described, plain_method

    method, choice = described(plain_method(made.contract.method)), made.contract.choice
    why, *others = chosen_lines(choice.summary()) if choice is not None else ("",)
    return [f"method: {method} ({why})" if why else f"method: {method}", *others]


def verify(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="The released table (.csv or .parquet).")],
    job: Annotated[Path, option("--job JOB", "The job file.")],
    sql: Annotated[bool, option("--sql", "Count once more in SQL, with DuckDB; print the statements.")] = False,
    json: Json = False,
) -> None:
    """Check a release against the requirements of its job, by counting its cells.

    With --sql, DuckDB reads and counts the release once more by statements that are printed, and that anybody can run.

    Exit code 0 when all hold, 1 when one does not; the first violating group is named.

    Example: masquerade verify release.csv --job job.toml
    """
    from masquerade.jobs import verify_job

    verification = verify_job(release, job, sql=sql)
    if json:
        print_json(verification.summary)
    else:
        say(*(line for each in verification.sql for line in each.lines()))
        say(*(f"holds: {verdict.requirement}" for verdict in verification.verdicts if verdict.holds))
    verification.insist()


def weights(
    job: Annotated[Path, option("--job JOB", "The job file.")],
    log: Annotated[
        str | None,
        argument("LOG", "A log of SQL queries, or a declaration (.toml); without it, the job's class is asked."),
    ] = None,
    by: Annotated[
        str | None, option("--by", "What to learn from: queries, declaration, information, accuracy.")
    ] = None,
    owner_share: Annotated[
        float, typer.Option(min=0, max=1, help="How much the weights in the job file count, of 1.")
    ] = 0.0,
    dialect: Annotated[str | None, option("--dialect", "The SQL of the log, such as postgres or mysql.")] = None,
    json: Json = False,
) -> None:
    """Learn attribute weights: from queries, from a declaration, or from what attributes tell about the class.

    Example: masquerade weights queries.sql --job job.toml
    """
    from masquerade.jobs import weights_job

    with progress() as shown:
        found = weights_job(log, job, by=by, owner_share=owner_share, dialect=dialect, on_stage=shown.stage)
    heaviest = sorted(found["weights"].items(), key=lambda each: -each[1])
    width = max(len(name) for name, _ in heaviest)
    lines = [f"{name:{width}}  {weight:.4f}  {found['reasons'][name]}" for name, weight in heaviest]
    if found.get("passed_over"):
        lines.append(f"statements passed over, because they are no queries: {found['passed_over']}")
    lines += [f"warning: {each}" for each in found["warnings"]]
    answer(json, found, *lines, "write each into the job as weight = … below its [attributes.NAME]")
