"""`masquerade keys TABLE`: which few columns identify the people in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say_plainly
from masquerade.cli.table_answers import looked_at, seconds_of
from masquerade.cli.table_options import (
    Columns,
    Encoding,
    Query,
    Seed,
    Separator,
    TableArgument,
    WeightsFile,
    table_file,
    weights_in,
    words,
)

if TYPE_CHECKING:
    from masquerade.risk.finding import Keys


def keys(
    table: TableArgument,
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
    weights: WeightsFile = None,
    columns: Columns = "",
    seed: Seed = 7,
    query: Query = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Find a small set of columns that tells the rows of a table apart: a key, or nearly one.

    The distinct ratio of a set is groups / rows, the separation ratio the share of all pairs of rows that it tells
    apart. With --epsilon and --delta a sample is enough, and a table of any size is read in one pass.

    Example: masquerade keys people.csv --all --beta 0.9 --max-size 3
    """
    from masquerade.library.keys_and_masks import keys as find

    with progress() as shown:
        found = find(
            table_file(table, query, separator, encoding),
            measure=measure,  # type: ignore[arg-type] # checked there
            epsilon=epsilon,
            delta=delta,
            beta=beta,
            exact=exact,
            all=all_,
            max_size=max_size,
            weights=weights_in(weights),
            columns=words(columns) or None,
            seed=seed,
            on_stage=shown.stage,
        )
    if json:
        print_json(found.summary)
    else:
        say_plainly(*_lines(found))


def _lines(found: Keys) -> list[str]:
    listed = found.keys if found.keys is not None else [(found.key, found.ratio)]
    lines = [f"{found.measure} ratio {share:.6f}: {', '.join(key) or 'no column'}" for key, share in listed]
    lines.append(f"looked at {looked_at(found)}; {found.duplicates:,} equal to an earlier one in all columns")
    return [*lines, seconds_of(found)]
