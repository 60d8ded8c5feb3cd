"""`masquerade party …`: run a party's node, look at what a contract lets leave, decide, look back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import By, Json, answer, argument, operator, option, print_json, say, say_plainly

if TYPE_CHECKING:
    from masquerade.service import NodeSettings, SignedContract

app = typer.Typer(help="A party's node.", no_args_is_help=True, rich_markup_mode=None)

Conf = Annotated[Path, argument("CONF", "The node's configuration (TOML).")]
DealName = Annotated[str, argument("DEAL", "The deal's name, or its beginning.")]


@app.callback()
def _group() -> None:
    """A party's node."""


@app.command("snapshot-key", short_help="What an auditor needs to check a table.")
def snapshot_key(
    conf: Conf,
    contract: Annotated[Path, argument("CONTRACT", "The contract's file.")],
    out: Annotated[Path, option("--out -o FILE", "Where the key goes (mode 0600).")],
    column: Annotated[str, option("--column NAME", "Only this column's key; without it, the table's.")] = "",
    table: Annotated[str, option("--table FILE", "The table as it was then, where it has changed since.")] = "",
    by: By = "",
    json: Json = False,
) -> None:
    """Write the key that opens the commitment to a table in a contract, for an auditor who is given the table as well.

    It opens this one snapshot of the table, or this one column of it, and nothing else; the audit log notes it. The
    auditor uses it with `masquerade audit snapshot`.

    Example: masquerade party snapshot-key bank.toml contract.json --column salary --out salary.key
    """
    from masquerade.service import NodeSettings, hand_out, read_contract

    settings = NodeSettings.load(conf)
    found = hand_out(settings, read_contract(contract), out, column or None, table or None, operator(by))
    what = f"column {found.column} of {found.dataset}" if found.column else found.dataset
    if json:
        told = {"dataset": found.dataset, "column": found.column, "snapshot": found.snapshot}
        print_json({"key": str(out), **told})
    else:
        say_plainly(f"{out}: opens {what}, snapshot {found.snapshot}; give it to nobody but the auditor")


@app.command("serve", short_help="Run the node.")
def serve(conf: Conf, json: Json = False) -> None:
    """Run a party's node until it is interrupted.

    It publishes its schemas to the coordinator, answers requests by its policy, signs contracts and takes part in
    sessions. One line on standard output says where it listens; the log goes to standard error, as JSON lines unless
    that is a terminal.

    Example: masquerade party serve bank.toml
    """
    import asyncio
    import os
    import sys

    from masquerade.cli.app import open_files_for_many
    from masquerade.net import run_async
    from masquerade.service import NodeSettings, configure, running

    settings = NodeSettings.load(conf)
    configure(as_json=sys.stderr is None or not sys.stderr.isatty())
    open_files_for_many()

    async def run() -> None:
        async with running(settings) as node:
            answer(
                json,
                {"party": settings.name, "address": node.address, "pid": os.getpid()},
                f"party {settings.name} listens on https://{node.address}",
            )
            await asyncio.Event().wait()

    try:
        run_async(run())
    except KeyboardInterrupt:  # how a node is meant to end
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        # Threads that still blind identifiers for a session that is over are not waited for.
        os._exit(0)


@app.command("card", short_help="What is published of the datasets.")
def card(conf: Conf, json: Json = False) -> None:
    """Read and check every dataset, and show what others get to know of it.

    Example: masquerade party card bank.toml
    """
    import msgspec

    from masquerade.service import NodeSettings, StateFolder, open_datasets

    settings = NodeSettings.load(conf)
    state = StateFolder(settings.state)
    state.make()
    datasets = [each.published(asked=False) for each in open_datasets(settings, state).values()]
    if json:
        print_json({"party": settings.name, "datasets": [msgspec.to_builtins(each) for each in datasets]})
        return
    for each in datasets:
        card = each.card
        who = "everybody" if each.public else ", ".join(each.users) or "nobody"
        say_plainly(
            f"{card.dataset}: {_records(card.records)}, identified by {card.identifier}",
            f"  may be asked by {who}, for {', '.join(each.purposes) or 'nothing'}; {each.sessions} sessions at once",
            f"  snapshot {card.snapshot}",
            f"  cents for a column: {each.price.per_attribute}, for a record: {each.price.per_record}"
            + "".join(f", for {name}: {cents}" for name, cents in each.price.attributes.items()),
        )
        if card.horizontal:
            say("  may be published together with others that have the same columns")
        for column in card.columns:
            tree = column.taxonomy
            height = (
                f", taxonomy of height {tree.height} below {tree.root or 'a top that is not published'}" if tree else ""
            )
            say_plainly(f"  {column.name}: {column.kind}, {column.role}{height}")


def _records(count: int | None) -> str:
    return "number of records not published" if count is None else f"{count:,} records at most"


@app.command("preview", short_help="What a contract lets leave this machine.")
def preview(
    conf: Conf,
    contract: Annotated[str, argument("CONTRACT", "A file, or the name of a deal that waits.")] = "",
    json: Json = False,
) -> None:
    """Show exactly what a contract lets leave this machine, and to whom. Without a contract: list what waits.

    Needs no network and changes nothing.

    Example: masquerade party preview bank.toml 3f9a
    """
    from masquerade.service import Ledger, NodeSettings, StateFolder, described, preview as previewed

    settings = NodeSettings.load(conf)
    if not contract:
        _list_waiting(settings, json)
        return
    signed = _found(settings, contract)
    provision = signed.deal.terms.provision(settings.name)
    dataset = settings.datasets.get(provision.dataset) if provision is not None else None
    made = previewed(
        signed,
        settings.name,
        dataset.schema if dataset is not None else None,
        trust=settings.trust,
        own=settings.identity,
        clients=settings.clients,
        policy=dataset.policy if dataset is not None else None,
        ledger=Ledger.load(StateFolder(settings.state).ledger),
    )
    answer(json, made.content(), *described(made))


@app.command("approve", short_help="Let a contract that waits be signed.")
def approve(conf: Conf, deal: DealName, by: By = "", json: Json = False) -> None:
    """Approve a deal: the node signs its contract when the coordinator asks next. Look at the preview first.

    Example: masquerade party approve bank.toml 3f9a
    """
    _decide(conf, deal, None, by, json)


@app.command("refuse", short_help="Refuse a contract that waits.")
def refuse(
    conf: Conf,
    deal: DealName,
    reason: Annotated[str, option("--reason TEXT", "The reason that the asker reads.")] = "",
    by: By = "",
    json: Json = False,
) -> None:
    """Refuse a deal: the node says so, with the reason, when the coordinator asks next.

    Example: masquerade party refuse bank.toml 3f9a --reason "ask the data office first"
    """
    _decide(conf, deal, reason, by, json)


@app.command("review", short_help="A page for approvals, in the browser.")
def review(
    conf: Conf,
    port: Annotated[int, typer.Option("--port", metavar="PORT", help="Where to serve it; 0: any free port.")] = 0,
    by: By = "",
    json: Json = False,
) -> None:
    """Serve a page on this machine that shows what waits for approval, with a button to approve or refuse each.

    Its address holds a secret; nobody else can open it, and it ends with this command (Ctrl-C).

    Example: masquerade party review bank.toml
    """
    import asyncio

    import uvicorn

    from masquerade.net import run_async
    from masquerade.service import ConnectionLimits, NodeSettings, listening_at, review_page, served

    settings = NodeSettings.load(conf)
    page, path = review_page(settings, operator(by))

    async def run() -> None:
        listening = listening_at(f"127.0.0.1:{port}", ConnectionLimits(), key="--port")
        address = f"http://127.0.0.1:{listening.getsockname()[1]}{path}"
        config = uvicorn.Config(page, lifespan="off", log_config=None, access_log=False, server_header=False)
        async with served(config, listening):
            answer(json, {"party": settings.name, "address": address}, f"open {address}", "Ctrl-C ends it")
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):  # how it is meant to end
        run_async(run())


@app.command("ledger", short_help="What was released from which snapshot.")
def ledger(
    conf: Conf,
    forget: Annotated[
        str,
        option(
            "--forget DATASET",
            "Begin anew with a dataset whose secret is lost: its earlier releases are not known again.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """List what this party has released, the oldest first, then with whom it looked for common records.

    A ledger that was changed is refused, with the line.

    Example: masquerade party ledger bank.toml
    """
    from datetime import UTC, datetime

    import msgspec

    from masquerade.methods import described
    from masquerade.service import RULES, Ledger, NodeSettings, StateFolder, against

    settings = NodeSettings.load(conf)
    known = Ledger.load(StateFolder(settings.state).ledger)
    if forget:
        _forget(settings, forget, json)
        return
    if json:
        released, declined = (
            [msgspec.to_builtins(each) for each in found] for found in (known.records, known.declined)
        )
        alignments = [
            msgspec.to_builtins(each.begun) | {"submitted": dict(each.submitted)} for each in known.alignments
        ]
        told = {"releases": released, "declined": declined, "alignments": alignments}
        print_json({"party": settings.name, **told})
        return
    for each in sorted(known.shown, key=lambda each: each.time):
        terms = each.terms
        moment = datetime.fromtimestamp(each.time, UTC)
        say_plainly(
            f"{moment:%Y-%m-%d %H:%M:%S} UTC  {each.dataset} {each.snapshot[:12]}  "
            f"{', '.join(column.name for column in terms.columns)}  for {', '.join(each.recipients)}  "
            f"with {', '.join(terms.parties)}",
            *(f"  {part}" for part in terms.parts),
            *(f"  {line}" for line in against(terms.m)),
            f"  {RULES[terms.arrangement].made} by {described(terms.method)}"
            if terms.source is None
            else f"  rolled up from the release {terms.source[:12]}; nothing left this machine",
            *(["  declined: shown to peers and not released"] if each in known.declined else []),
        )
    if not known.shown:
        say("nothing was released yet")
    for aligned in known.alignments:
        begun = aligned.begun
        lists = ", ".join(f"{peer} ({aligned.submitted.get(peer, 0):,} identifiers)" for peer in begun.peers)
        moment = datetime.fromtimestamp(begun.time, UTC)
        say_plainly(f"{moment:%Y-%m-%d %H:%M:%S} UTC  {begun.dataset} {begun.snapshot[:12]}  aligned with {lists}")


def _forget(settings: NodeSettings, dataset: str, json: bool) -> None:
    """A new secret where the old one is lost, while no node runs. The ledger's lines stay; the audit log notes it."""
    from masquerade.audit import AuditLog
    from masquerade.errors import Conflict, ParameterError, hint
    from masquerade.service import Ledger, StateFolder

    known = settings.datasets
    if dataset not in known:
        listed = f"{hint(dataset, known)}; there are {', '.join(known)}"
        raise ParameterError(f'{settings.path}: there is no dataset "{dataset}"{listed}')
    state = StateFolder(settings.state)
    state.make()
    with state.locked():
        releases = Ledger.load(state.ledger).releases(dataset)
        if state.lost_secret(dataset, releases) is None:
            raise Conflict(f"{dataset}: its secret is not lost; nothing needs to be forgotten")
        with AuditLog(state.audit, settings.identity) as audit:
            audit.append("secret replaced", {"dataset": dataset, "releases": releases})
        state.renew_secret(dataset)
    answer(
        json,
        {"dataset": dataset, "releases": releases, "forgotten": True},
        f"{dataset}: a new secret is made; what was released of it before ({releases}) is not known again",
    )


def _list_waiting(settings: NodeSettings, json: bool) -> None:
    from masquerade.service import Approvals, StateFolder

    waiting = Approvals(StateFolder(settings.state)).waiting()
    rows: list[dict[str, Any]] = [
        {
            "deal": each.deal,
            "user": each.contract.deal.user,
            "purpose": each.contract.deal.purpose,
            "columns": [column.name for column in each.contract.contract.columns_of(settings.name)],
            "parties": list(each.contract.parties),
        }
        for each in waiting
    ]
    if json:
        print_json({"party": settings.name, "waiting": rows})
        return
    for row in rows:
        say_plainly(
            f"{row['deal'][:12]}  {row['user']}, for {row['purpose']}: {', '.join(row['columns'])}"
            f"  (parties {', '.join(row['parties'])})"
        )
    if not rows:
        say("nothing waits for approval")


def _found(settings: NodeSettings, word: str) -> SignedContract:
    """The contract in a file, or the one that waits under this name."""
    from masquerade.errors import ParameterError
    from masquerade.service import Approvals, StateFolder, read_contract

    path = Path(word)
    if path.is_file():
        return read_contract(path)
    if path.suffix or len(path.parts) > 1:  # no deal is called that
        raise ParameterError(f"{path}: there is no such file")
    return Approvals(StateFolder(settings.state)).find(word).contract


def _decide(conf: Path, word: str, reason: str | None, by: str, json: bool) -> None:
    from masquerade.service import NodeSettings, decide

    deal, before = decide(NodeSettings.load(conf), word, reason, operator(by))
    said = "approved" if reason is None else "refused"
    if json:
        print_json({"deal": deal, "approved": reason is None, "before": before})
    elif before is None:
        say(f"{said}: {deal}")
    else:
        say(f"was {before} before; {said} now: {deal}" if before != said else f"{said} again: {deal}")
