"""`masquerade keys TABLE`: which few columns identify the people in a table, or the people of several parties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Json, looked_at, print_json, progress, say_plainly, seconds_of

if TYPE_CHECKING:
    from masquerade.data.read import TableFile
    from masquerade.jobs.joint_keys import JointKeysFound
    from masquerade.jobs.rows import AskedTable
    from masquerade.risk.keys import Keys
    from masquerade.risk.masking import Masked

# --- table options ------------------------------------------------------------------------------------------
# Options that several commands have: how a table is written, lists of columns, and their weights.

TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A table: .csv, .parquet, or a database URL. Or a job (.toml) with [data].",
        show_default=False,
    ),
]
Query = Annotated[
    str | None, typer.Option(help="The query, where TABLE is a database URL.", show_default=False)
]
Separator = Annotated[
    str | None, typer.Option(help="Of a CSV file; by default, as its header shows.", show_default=False)
]
Encoding = Annotated[
    str | None, typer.Option(help="Of a CSV file; by default, as its bytes show.", show_default=False)
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="FILE", help="Weights of columns: .toml, .json, .csv.", show_default=False
    ),
]
Columns = Annotated[str, typer.Option(metavar="A,B", help="Look at these columns alone.", show_default=False)]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="local|tcp://…",
        help="Count all rows in chunks: on this machine, or on a Dask cluster.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="With --engine local: held at once, such as 4GB.", show_default=False),
]
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
    from masquerade.data.read import TableFile

    return TableFile(source, query, "\t" if separator == "\\t" else separator, encoding)


@contextmanager
def asked_table(
    source: str,
    engine: str | None,
    memory: str | None,
    query: str | None,
    separator: str | None,
    encoding: str | None,
) -> Iterator[AskedTable]:
    """Open the table that the options describe, or that of a job, whose `[data]` and `[engine]` do."""
    from masquerade.jobs.keys import opened_engine
    from masquerade.jobs.rows import opened_job_table

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
    from masquerade.risk.masking import read_weights

    return None if file is None else read_weights(file)


# --- keys ---------------------------------------------------------------------------------------------------


def keys(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A table: .csv, .parquet, or a database URL. Or a job (.toml).",
            show_default=False,
        ),
    ],
    measure: Annotated[str, typer.Option(help="distinct or separation.")] = "distinct",
    epsilon: Annotated[
        float | None, typer.Option(help="Sample: the share that may be missed.", show_default=False)
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Sample: the chance that more is missed.", show_default=False)
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="The ratio to reach, instead of all.", show_default=False)
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="The smallest key, by search.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="All minimal sets that reach --beta.")] = False,
    max_size: Annotated[int, typer.Option(min=1, help="With --all: columns in a set, at most.")] = 3,
    precision: Annotated[
        float | None,
        typer.Option(help="Parties: show ratios in steps of this, such as 0.01.", show_default=False),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=2, help="Parties: common records compared, at most.", show_default=False),
    ] = None,
    weights: WeightsFile = None,
    columns: Columns = "",
    seed: Seed = 7,
    engine: EngineName = None,
    memory: Memory = None,
    query: Query = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Find a small set of columns that tells the rows of a table apart: a key, or nearly one.

    The distinct ratio of a set is groups / rows, the separation ratio the share of all pairs of rows that it tells
    apart. With --epsilon and --delta a sample is enough, and a table of any size is read in one pass.

    Of a job with [data], its attributes are looked at, on the engine that it names.

    Of a job with [parties], --columns names columns of several of them, and the ratio tells how far these identify
    the common people. Each party is a process of its own on this machine; nothing but the ratio comes out.

    Example: masquerade keys people.csv --all --beta 0.9 --max-size 3
    """
    if table.endswith(".toml") and _is_about_parties(table):
        only_tables = {
            "--epsilon": epsilon,
            "--delta": delta,
            "--exact": exact or None,
            "--query": query,
            "--separator": separator,
            "--encoding": encoding,
            "--engine": engine,
            "--memory": memory,
        }
        refuse_given(only_tables, "one table; a job has it not")
        options = {"measure": measure, "all": all_, "beta": beta, "max_size": max_size}
        options |= {"precision": precision, "sample": sample, "columns": words(columns) or None}
        _joint_keys(table, options, weights_in(weights), json=json)
        return
    refuse_given({"--precision": precision, "--sample": sample}, "a job with [parties]; a table has it not")
    from masquerade.jobs.keys import keys as find

    asked = asked_table(table, engine, memory, query, separator, encoding)
    with progress() as shown, asked as (file, attributes, counting):
        found = find(
            file,
            measure=measure,  # type: ignore[arg-type] # checked there
            epsilon=epsilon,
            delta=delta,
            beta=beta,
            exact=exact,
            all=all_,
            max_size=max_size,
            weights=weights_in(weights),
            columns=words(columns) or attributes,
            seed=seed,
            engine=counting,
            on_stage=shown.stage,
        )
    if json:
        print_json(found.summary)
    else:
        say_plainly(*_keys_lines(found))


def _is_about_parties(job: str) -> bool:
    from masquerade.jobs.rows import is_about_parties

    return is_about_parties(job)


def _joint_keys(job: str, options: dict[str, Any], costs: dict[str, float] | None, *, json: bool) -> None:
    from masquerade.jobs.joint_keys import joint_keys

    with progress() as shown:
        found = joint_keys(job, weights=costs, on_stage=shown.stage, on_party=shown.party, **options)
    if json:
        print_json(found.summary)
    else:
        say_plainly(*_joint_lines(found))


def _joint_lines(found: JointKeysFound) -> list[str]:
    listed = found.keys if found.keys is not None else [(found.key, found.ratio)]
    least = "" if found.precision is None else " at least"
    lines = [f"{found.measure} ratio{least} {share:.6f}: {', '.join(key)}" for key, share in listed]
    compared = f"{found.sampled:,} of the" if found.sampled is not None else "all"
    lines.append(f"compared {compared} {found.common_records:,} common records")
    sent = ", ".join(f"{name} {count:,} bytes" for name, count in found.bytes_sent.items())
    return [*lines, seconds_of(found), f"sent by {sent}"]


def _keys_lines(found: Keys) -> list[str]:
    listed = found.keys if found.keys is not None else [(found.key, found.ratio)]
    lines = [f"{found.measure} ratio {share:.6f}: {', '.join(key) or 'no column'}" for key, share in listed]
    lines.append(f"looked at {looked_at(found)}; {found.duplicates:,} equal to an earlier one in all columns")
    return [*lines, seconds_of(found)]


# --- mask ---------------------------------------------------------------------------------------------------
# `masquerade mask TABLE`: which columns of a table may be published together.


def mask(
    table: TableArgument,
    measure: Annotated[str, typer.Option(help="distinct or separation.", show_default=False)],
    beta: Annotated[float, typer.Option(help="The highest ratio allowed.", show_default=False)],
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Look at so many rows (or pairs of rows) alone.", show_default=False),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Sample: the chance that the ratio is higher after all.", show_default=False),
    ] = None,
    weights: WeightsFile = None,
    columns: Columns = "",
    always: Annotated[
        str, typer.Option(metavar="A,B", help="Publish these in any case.", show_default=False)
    ] = "",
    never: Annotated[str, typer.Option(metavar="A,B", help="Never publish these.", show_default=False)] = "",
    seed: Seed = 7,
    engine: EngineName = None,
    memory: Memory = None,
    query: Query = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Choose as many columns as possible that tell at most a share of the rows (or pairs of rows) apart.

    Of a job with [data], its attributes are chosen from, on the engine that it names.

    Example: masquerade mask people.csv --measure distinct --beta 0.2 --never name
    """
    from masquerade.jobs.keys import mask as choose

    asked = asked_table(table, engine, memory, query, separator, encoding)
    with progress() as shown, asked as (file, attributes, counting):
        found = choose(
            file,
            measure=measure,  # type: ignore[arg-type] # checked there
            beta=beta,
            sample=sample,
            delta=delta,
            weights=weights_in(weights),
            columns=words(columns) or attributes,
            always=words(always),
            never=words(never),
            seed=seed,
            engine=counting,
            on_stage=shown.stage,
        )
    if json:
        print_json(found.summary)
    else:
        say_plainly(*_mask_lines(found))


def _mask_lines(found: Masked) -> list[str]:
    return [
        f"publish: {', '.join(found.published) or 'nothing'}",
        f"withhold: {', '.join(found.withheld) or 'nothing'}",
        f"{found.measure} ratio of what is published: {found.ratio:.6f}; looked at {looked_at(found)}",
        seconds_of(found),
    ]
