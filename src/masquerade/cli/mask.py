"""`masquerade mask TABLE`: which columns of a table may be published together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say_plainly
from masquerade.cli.table_answers import looked_at, seconds_of
from masquerade.cli.table_options import (
    Columns,
    Encoding,
    EngineName,
    Memory,
    Query,
    Seed,
    Separator,
    TableArgument,
    WeightsFile,
    asked_table,
    weights_in,
    words,
)

if TYPE_CHECKING:
    from masquerade.risk.publishing import Masked


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
    from masquerade.library.keys_and_masks import mask as choose

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
        say_plainly(*_lines(found))


def _lines(found: Masked) -> list[str]:
    return [
        f"publish: {', '.join(found.published) or 'nothing'}",
        f"withhold: {', '.join(found.withheld) or 'nothing'}",
        f"{found.measure} ratio of what is published: {found.ratio:.6f}; looked at {looked_at(found)}",
        seconds_of(found),
    ]
