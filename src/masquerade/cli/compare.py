"""`masquerade compare JOB`: the methods that fit a job, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say
from masquerade.cli.table_options import words
from masquerade.errors import ParameterError, shown

if TYPE_CHECKING:
    from masquerade.anonymize.side_by_side import Row, SideBySide


def compare(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file (TOML).", show_default=False)],
    methods: Annotated[
        str, typer.Option(metavar="A,B", help="Some methods alone, by name.", show_default=False)
    ] = "",
    k: Annotated[
        str, typer.Option("--k", metavar="5,10,50", help="Each in place of the job's k.", show_default=False)
    ] = "",
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with the table and a chart.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Run the methods that take the requirements of a job, and compare what their releases keep and risk.

    The job's own [algorithm] does not matter, and no release is written.

    Example: masquerade compare job.toml --k 5,10,50 --report comparison.html
    """
    from masquerade.library.jobs import compare_job

    with progress() as told, _naming_options():
        found = compare_job(job, methods=words(methods), ks=_numbers(k), on_stage=told.stage)
    if report is not None:
        found.report(report)
    if json:
        print_json(found.summary | ({"report": str(report)} if report is not None else {}))
    else:
        say(*_lines(found), *([f"report: {report}"] if report is not None else []))


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


def _lines(found: SideBySide) -> list[str]:
    """A table in columns, those who refused, and the best."""
    from masquerade.methods import described

    measure, *others = (name.replace("_", " ") for name in found.headline)
    head = ["method", measure, "k", *others, "highest risk", "mean risk", "groups", "suppressed", "seconds"]
    rows = [head, *([described(row.method), *_cells(row, found.headline)] for row in found.rows)]
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [f"{name:<{first}}", *(f"{each:>{width}}" for each, width in zip(cells, widths, strict=True))]
        )
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


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    measured, *figures = (
        "" if (value := row.metrics.get(name)) is None else f"{value:.4f}" for name in names
    )
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
