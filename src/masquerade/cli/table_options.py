"""Options that several commands have: how a table is written, lists of columns, and their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import argument, option

if TYPE_CHECKING:
    from masquerade.data import TableFile
    from masquerade.jobs import AskedTable

TableArgument = Annotated[
    str, argument("TABLE", "A table: .csv, .parquet, or a database URL. Or a job (.toml) with [data].")
]
Query = Annotated[str | None, option("--query", "The query, where TABLE is a database URL.")]
Separator = Annotated[str | None, option("--separator", "Of a CSV file; by default, as its header shows.")]
Encoding = Annotated[str | None, option("--encoding", "Of a CSV file; by default, as its bytes show.")]
WeightsFile = Annotated[Path | None, option("--weights FILE", "Weights of columns: .toml, .json, .csv.")]
Columns = Annotated[str, option("--columns A,B", "Look at these columns alone.")]
EngineName = Annotated[
    str | None, option("--engine local|tcp://…", "Count all rows in chunks: on this machine, or on a Dask cluster.")
]
Memory = Annotated[str | None, option("--memory SIZE", "With --engine local: held at once, such as 4GB.")]
Seed = Annotated[int, typer.Option(min=0, help="Draws the samples.")]


def words(text: str) -> list[str]:
    """The words of a list that is separated by commas; a text without any is an error."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    if text and not found:
        from masquerade.errors import ParameterError, given

        raise ParameterError(f"a list such as a,b is expected; got {given(text)}")
    return found


def table_file(source: str, query: str | None, separator: str | None, encoding: str | None) -> TableFile:
    """The table that the options describe; a separator may be written as \\t."""
    from masquerade.data import TableFile

    return TableFile(source, query, "\t" if separator == "\\t" else separator, encoding)


@contextmanager
def asked_table(
    source: str, engine: str | None, memory: str | None, query: str | None, separator: str | None, encoding: str | None
) -> Iterator[AskedTable]:
    """Open the table that the options describe, or that of a job, whose `[data]` and `[engine]` do."""
    from masquerade.jobs import opened_engine, opened_job_table

    if not source.endswith(".toml"):
        with opened_engine(engine, memory) as opened:
            yield table_file(source, query, separator, encoding), None, opened
        return
    in_data = {"--query": query, "--separator": separator, "--encoding": encoding}
    refuse_given(in_data, "a table; of a job it is in [data]")
    refuse_given({"--engine": engine, "--memory": memory}, "a table; of a job it is in [engine]")
    with opened_job_table(source) as found:
        yield found


def refuse_given(options: Mapping[str, object], home: str) -> None:
    """Raise if one of the options is given; `home` is where they belong."""
    from masquerade.errors import ParameterError

    if wrong := [name for name, value in options.items() if value is not None]:
        raise ParameterError(*(f"{name} belongs to {home}" for name in wrong))


def weights_in(file: Path | None) -> dict[str, float] | None:
    """The weights in a file, if one is given."""
    from masquerade.risk import read_weights

    return None if file is None else read_weights(file)
