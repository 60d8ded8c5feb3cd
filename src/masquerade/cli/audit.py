"""`masquerade audit …`: prove that an audit log is whole, or go on where its end is lost; check a commitment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import By, Json, answer, argument, operator, option, print_json, say

app = typer.Typer(help="A party's audit log.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """A party's audit log."""


@app.command("verify", short_help="Prove that the log is whole.")
def verify(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The audit log.")],
    certificate: Annotated[
        list[Path] | None,
        option("--certificate PEM", "The party's certificate, to check the seals; repeat when it was renewed."),
    ] = None,
    anchor: Annotated[
        list[str] | None, option("--anchor NUMBER:HASH", "A record that the log must hold; repeat for more.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every line of an audit log: its form, its number, its hash, and that it follows the line before it.

    Exit code 0 when the log is whole, 1 when it is not; the first bad line is named. Where the log's head (audit.head)
    is beside it, the log must go as far. That nobody has cut off its end on purpose, or rewritten all of it, shows only
    with --anchor or --certificate.

    Example: masquerade audit verify audit.jsonl --certificate identity.pem
    """
    from masquerade.audit import Anchor, verify as verify_log
    from masquerade.files import read_file
    from masquerade.net import party_of
    from masquerade.report import counted

    certificates = []
    for path in certificate or ():
        certificates.append(read_file(path))
        party_of(certificates[-1], str(path))  # an error names the file
    found = verify_log(log, [Anchor.read(text) for text in anchor or ()], certificates)
    if json:
        print_json(
            {
                "log": str(log),
                "whole": found.whole,
                "first_bad": found.first_bad,
                "problem": found.problem,
                "party": found.party,
                "records": found.records,
                "sessions": found.sessions,
                "unfinished": found.unfinished,
                "seals": found.seals,
                "sealed_up_to": found.sealed_up_to,
                "last": str(found.last),
            }
        )
    elif found.whole:
        unchecked = f"{counted(found.seals, 'seal')}, not checked"
        seals = f"sealed up to record {found.sealed_up_to}" if certificates else unchecked
        say(
            f"whole: {counted(found.records, 'record')} of party {found.party}, {counted(found.sessions, 'session')}"
            f" ({found.unfinished} unfinished), {seals}",
            f"last: {found.last}",
        )
    found.insist()


@app.command("snapshot", short_help="Check a party's table against its contract.")
def snapshot(
    contract: Annotated[Path, argument("CONTRACT", "The contract's file.")],
    table: Annotated[str, argument("TABLE", "What the party shows: a file, or a database URL.")],
    party: Annotated[str, option("--party NAME", "Whose table it is.")],
    key: Annotated[Path, option("--key FILE", "Its key, of `party snapshot-key`: of the table, or of one column.")],
    query: Annotated[str, option("--query SQL", "With a database URL.")] = "",
    json: Json = False,
) -> None:
    """Say whether a table, or one column of it, is the one that a party has committed to in a contract.

    Exit code 0 when it is, 1 when it is not: a cell, a row or the rows' order differs, or the key is another's. For the
    auditor of a dispute, who is given all of this and needs nothing else.

    Example: masquerade audit snapshot contract.json patients.csv --party clinic --key patients.key
    """
    from masquerade.errors import AnswerIsNo
    from masquerade.service import fits, provision_of, read_contract, read_key

    signed, opened = read_contract(contract), read_key(key)
    provision = provision_of(signed, party)
    same = fits(opened, signed, party, opened.table(table, query or None))
    what = f"column {opened.column}" if opened.column is not None else "the table"
    found = {"dataset": provision.dataset, "snapshot": provision.snapshot, "column": opened.column}
    lines = [
        f"{what} is the one that {party} committed to: {provision.dataset}, snapshot {provision.snapshot}",
        f"contract: {signed.hash.hex()}",
    ]
    answer(json, {"same": same, "contract": signed.hash.hex(), "party": party, **found}, *(lines if same else ()))
    if not same:
        other = opened.snapshot != provision.snapshot
        why = "the key is another snapshot's" if other else "a cell, a row or the rows' order differs"
        raise AnswerIsNo(f"{table}: {what} is not the one that {party} committed to in the contract: {why}")


@app.command("forget", short_help="Go on with a log whose end is lost.")
def forget(
    log: Annotated[Path, argument("LOG", "The audit log.")],
    identity: Annotated[Path, option("--identity FOLDER", "The identity of whoever the log is of.")],
    by: By = "",
    json: Json = False,
) -> None:
    """Go on with an audit log that was emptied, removed or cut short, when there is no backup to restore.

    Nothing is hidden by it: a record tells how far the log went, how much is left, and who said so. Do it while nothing
    runs on the log.

    Example: masquerade audit forget state/audit.jsonl --identity identity
    """
    from masquerade.audit import AuditLog
    from masquerade.net import Identity

    with AuditLog(log, Identity.load(identity), forget=operator(by)) as opened:
        last = opened.anchor()
    answer(
        json,
        {"log": str(log), "forgotten": True, "last": str(last)},
        f"{log}: goes on without what is lost, and says so in its record {last.number}",
    )
