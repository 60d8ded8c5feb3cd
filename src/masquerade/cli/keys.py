"""`masquerade keys`, `masquerade mask`: which few columns identify people, and which may be published together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli import table_options as of
from masquerade.cli.output import Json, answer, argument, looked_at, option, progress, seconds_of
from masquerade.cli.table_options import asked_table, refuse_given, weights_in, words

if TYPE_CHECKING:
    from masquerade.jobs import JointKeysFound


def keys(
    table: Annotated[str, argument("TABLE", "A table: .csv, .parquet, or a database URL. Or a job (.toml).")],
    measure: Annotated[str, typer.Option(help="distinct or separation.")] = "distinct",
    epsilon: Annotated[float | None, option("--epsilon", "Sample: the share that may be missed.")] = None,
    delta: Annotated[float | None, option("--delta", "Sample: the chance that more is missed.")] = None,
    beta: Annotated[float | None, option("--beta", "The ratio to reach, instead of all.")] = None,
    exact: Annotated[bool, option("--exact", "The smallest key, by search.")] = False,
    all_: Annotated[bool, option("--all", "All minimal sets that reach --beta.")] = False,
    max_size: Annotated[int, typer.Option(min=1, help="With --all: columns in a set, at most.")] = 3,
    precision: Annotated[
        float | None, option("--precision", "Parties: show ratios in steps of this, such as 0.01.")
    ] = None,
    sample: Annotated[int | None, option("--sample", "Parties: common records compared, at most.", min=2)] = None,
    weights: of.WeightsFile = None,
    columns: of.Columns = "",
    seed: of.Seed = 7,
    engine: of.EngineName = None,
    memory: of.Memory = None,
    query: of.Query = None,
    separator: of.Separator = None,
    encoding: of.Encoding = None,
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
        from masquerade.jobs import joint_keys

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
        options: dict[str, Any] = {"measure": measure, "all": all_, "beta": beta, "max_size": max_size}
        options |= {"precision": precision, "sample": sample, "columns": words(columns) or None}
        with progress() as shown:
            joint = joint_keys(
                table, weights=weights_in(weights), on_stage=shown.stage, on_party=shown.party, **options
            )
        answer(json, joint.summary, *_joint_lines(joint))
        return
    refuse_given({"--precision": precision, "--sample": sample}, "a job with [parties]; a table has it not")
    from masquerade.jobs import keys as find

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
    listed = found.keys if found.keys is not None else [(found.key, found.ratio)]
    answer(
        json,
        found.summary,
        *(f"{found.measure} ratio {share:.6f}: {', '.join(key) or 'no column'}" for key, share in listed),
        f"looked at {looked_at(found)}; {found.duplicates:,} equal to an earlier one in all columns",
        seconds_of(found),
    )


def _is_about_parties(job: str) -> bool:
    from masquerade.jobs import is_about_parties

    return is_about_parties(job)


def _joint_lines(found: JointKeysFound) -> list[str]:
    listed = found.keys if found.keys is not None else [(found.key, found.ratio)]
    least = "" if found.precision is None else " at least"
    lines = [f"{found.measure} ratio{least} {share:.6f}: {', '.join(key)}" for key, share in listed]
    compared = f"{found.sampled:,} of the" if found.sampled is not None else "all"
    lines.append(f"compared {compared} {found.common_records:,} common records")
    sent = ", ".join(f"{name} {count:,} bytes" for name, count in found.bytes_sent.items())
    return [*lines, seconds_of(found), f"sent by {sent}"]


def mask(
    table: of.TableArgument,
    measure: Annotated[str, option("--measure", "distinct or separation.")],
    beta: Annotated[float, option("--beta", "The highest ratio allowed.")],
    sample: Annotated[int | None, option("--sample", "Look at so many rows (or pairs of rows) alone.", min=1)] = None,
    delta: Annotated[float | None, option("--delta", "Sample: the chance that the ratio is higher after all.")] = None,
    weights: of.WeightsFile = None,
    columns: of.Columns = "",
    always: Annotated[str, option("--always A,B", "Publish these in any case.")] = "",
    never: Annotated[str, option("--never A,B", "Never publish these.")] = "",
    seed: of.Seed = 7,
    engine: of.EngineName = None,
    memory: of.Memory = None,
    query: of.Query = None,
    separator: of.Separator = None,
    encoding: of.Encoding = None,
    json: Json = False,
) -> None:
    """Choose as many columns as possible that tell at most a share of the rows (or pairs of rows) apart.

    Of a job with [data], its attributes are chosen from, on the engine that it names.

    Example: masquerade mask people.csv --measure distinct --beta 0.2 --never name
    """
    from masquerade.jobs import mask as choose

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
    answer(
        json,
        found.summary,
        f"publish: {', '.join(found.published) or 'nothing'}",
        f"withhold: {', '.join(found.withheld) or 'nothing'}",
        f"{found.measure} ratio of what is published: {found.ratio:.6f}; looked at {looked_at(found)}",
        seconds_of(found),
    )
