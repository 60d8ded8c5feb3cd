"""`masquerade party snapshot-key`: what an auditor needs to check a table against its contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.operator import By, operator
from masquerade.cli.output import Json, print_json, say_plainly


def snapshot_key(
    conf: Annotated[
        Path, typer.Argument(metavar="CONF", help="The node's configuration (TOML).", show_default=False)
    ],
    contract: Annotated[
        Path, typer.Argument(metavar="CONTRACT", help="The contract's file.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where the key goes (mode 0600).", show_default=False
        ),
    ],
    column: Annotated[
        str,
        typer.Option(
            "--column",
            metavar="NAME",
            help="Only this column's key; without it, the table's.",
            show_default=False,
        ),
    ] = "",
    table: Annotated[
        str,
        typer.Option(
            "--table",
            metavar="FILE",
            help="The table as it was then, where it has changed since.",
            show_default=False,
        ),
    ] = "",
    by: By = "",
    json: Json = False,
) -> None:
    """Write the key that opens the commitment to a table in a contract, for an auditor who is given the table as well.

    It opens this one snapshot of the table, or this one column of it, and nothing else; the audit log notes it. The
    auditor uses it with `masquerade audit snapshot`.

    Example: masquerade party snapshot-key bank.toml contract.json --column salary --out salary.key
    """
    from masquerade.service.node.settings import Settings
    from masquerade.service.node.snapshot_keys import hand_out
    from masquerade.service.signing import read_contract

    settings = Settings.load(conf)
    found = hand_out(settings, read_contract(contract), out, column or None, table or None, operator(by))
    what = f"column {found.column} of {found.dataset}" if found.column else found.dataset
    if json:
        told = {"dataset": found.dataset, "column": found.column, "snapshot": found.snapshot}
        print_json({"key": str(out), **told})
    else:
        say_plainly(f"{out}: opens {what}, snapshot {found.snapshot}; give it to nobody but the auditor")
