"""`masquerade coordinator …`: run the coordinator, and keep its accounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Json, answer, argument, option, print_json, say
from masquerade.cli.tokens import Days, Scopes, asked_password

if TYPE_CHECKING:
    from masquerade.service import Accounts, Store, User

app = typer.Typer(help="The coordinator.", no_args_is_help=True, rich_markup_mode=None)
users = typer.Typer(help="The coordinator's accounts.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(users, name="user", short_help="Accounts: add, list, disable, enable, unlock, role.")

Conf = Annotated[Path, argument("CONF", "The coordinator's configuration (TOML).")]
Name = Annotated[str, argument("NAME", "The user's name.")]


@app.callback()
def _group() -> None:
    """The coordinator."""


@users.callback()
def _users() -> None:
    """The coordinator's accounts."""


@app.command("serve", short_help="Run the coordinator.")
def serve(conf: Conf, json: Json = False) -> None:
    """Run the coordinator until it is interrupted.

    It serves the HTTP API and the console, negotiates with the parties' nodes, and assembles, verifies and publishes
    what they hand in. One line on standard output says where it listens; the log goes to standard error, as JSON lines
    unless that is a terminal.

    Example: masquerade coordinator serve coordinator.toml
    """
    import asyncio
    import os
    import sys

    from masquerade.cli.app import open_files_for_many
    from masquerade.net import run_async
    from masquerade.service import Coordinator, CoordinatorSettings, configure, create_app, serving

    configure(as_json=sys.stderr is None or not sys.stderr.isatty())
    open_files_for_many()
    settings = CoordinatorSettings.load(conf)
    with Coordinator(settings) as coordinator:
        public = create_app(coordinator)
        if settings.console:
            from masquerade.console import mount

            mount(public, coordinator)

        async def run() -> None:
            async with serving(coordinator, public) as address:
                place = f"{settings.scheme}://{address}"
                if json:
                    print_json({"address": place, "party_address": coordinator.party_address, "pid": os.getpid()})
                else:
                    console = f"console {place}/console, " if settings.console else ""
                    say(f"coordinator: {console}API {place}/api/v1")
                await asyncio.Event().wait()

        try:
            run_async(run())
        except KeyboardInterrupt:  # how a coordinator is meant to end
            return


@app.command("token", short_help="Make an API token for a user.")
def token(conf: Conf, name: Name, days: Days = 90, scope: Scopes = None, json: Json = False) -> None:
    """Make an API token for a user. It is shown here, and never again.

    Example: masquerade coordinator token coordinator.toml ana --days 30 --scope read --scope download > token
    """
    from datetime import timedelta

    from masquerade.service import USUAL_SCOPES

    with _accounts(conf) as (store, accounts):
        user = store.users.get(name)
        made, described = accounts.create_token(user, "command line", timedelta(days=days), scope or USUAL_SCOPES)
    answer(json, {"token": made, **described.content()}, made)


@app.command("sessions", short_help="List the newest sessions of all users.")
def sessions(
    conf: Conf,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many.")] = 50,
    json: Json = False,
) -> None:
    """List the newest sessions of all users, straight from the store.

    Example: masquerade coordinator sessions coordinator.toml
    """
    with _accounts(conf) as (store, _):
        found = store.sessions.recent(limit=limit)
    if json:
        rows = [
            {
                "id": each.id,
                "client": each.client,
                "providers": list(each.providers),
                "status": each.status.value,
                "cause": each.cause,
                "attempts": each.attempts,
                "created": each.created.isoformat(),
                "updated": each.updated.isoformat(),
            }
            for each in found
        ]
        print_json({"sessions": rows})
        return
    for each in found:
        cause = f": {each.cause}" if each.cause is not None else ""
        parties = ", ".join(each.providers)
        say(f"{each.id}  {each.created:%Y-%m-%d %H:%M}  {each.client}  {parties}  {each.status}{cause}")
    if not found:
        say("no session yet")


@users.command("add", short_help="Open an account.")
def add(
    conf: Conf,
    name: Name,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="analyst or admin.")] = "analyst",
    password_stdin: Annotated[bool, option("--password-stdin", "Take the password from standard input.")] = False,
    json: Json = False,
) -> None:
    """Open an account. The password is asked for twice, or taken from standard input.

    Example: masquerade coordinator user add coordinator.toml ana --role analyst
    """
    from masquerade.service import checked_password, user_name

    user_name(name)
    with _accounts(conf) as (_, accounts):
        password = checked_password(asked_password(password_stdin, twice=True))
        _show(accounts.create(name, password, role), json)


@users.command("list", short_help="List the accounts.")
def list_users(conf: Conf, json: Json = False) -> None:
    """List all accounts.

    Example: masquerade coordinator user list coordinator.toml
    """
    rows = []
    with _accounts(conf) as (store, accounts):
        after = ""
        while page := store.users.all(limit=1000, after=after):
            after = page[-1].name
            rows += [(each, accounts.wrong_guesses(each.name)) for each in page]
    if json:
        print_json({"users": [_as_json(each) | {"wrong_guesses": guesses} for each, guesses in rows]})
        return
    for each, guesses in rows:
        guessed = f"; {guesses} wrong guess{'es' if guesses > 1 else ''} in a day" if guesses else ""
        say(f"{each.name}  {each.role}  {'disabled' if each.disabled else 'open'}{guessed}")
    if not rows:
        say("no account yet; add one with `coordinator user add`")


@users.command("disable", short_help="Shut an account.")
def disable(conf: Conf, name: Name, json: Json = False) -> None:
    """Shut an account: neither its password nor its tokens open anything.

    Example: masquerade coordinator user disable coordinator.toml ana
    """
    with _accounts(conf) as (_, accounts):
        _show(accounts.disable(name), json)


@users.command("enable", short_help="Open an account again.")
def enable(conf: Conf, name: Name, json: Json = False) -> None:
    """Open an account that was disabled.

    Example: masquerade coordinator user enable coordinator.toml ana
    """
    with _accounts(conf) as (_, accounts):
        _show(accounts.enable(name), json)


@users.command("unlock", short_help="Forget the wrong guesses at a password.")
def unlock(conf: Conf, name: Name, json: Json = False) -> None:
    """Forget the wrong guesses at an account's password, so that nobody has to wait for the next one.

    Example: masquerade coordinator user unlock coordinator.toml ana
    """
    with _accounts(conf) as (store, accounts):
        user = store.users.get(name)
        accounts.unlock(name)
        _show(user, json)


@users.command("role", short_help="Change an account's role.")
def role(
    conf: Conf, name: Name, role: Annotated[str, argument("ROLE", "analyst or admin.")], json: Json = False
) -> None:
    """Change an account's role.

    Example: masquerade coordinator user role coordinator.toml ana admin
    """
    with _accounts(conf) as (_, accounts):
        _show(accounts.set_role(name, role), json)


@contextmanager
def _accounts(conf: Path) -> Iterator[tuple[Store, Accounts]]:
    """The store of a coordinator, which may be running meanwhile."""
    from masquerade.audit import AuditLog
    from masquerade.service import AccountLog, Accounts, CoordinatorSettings, open_store

    settings = CoordinatorSettings.load(conf)
    settings.make_state()
    with ExitStack() as opened:
        store = opened.enter_context(open_store(settings))

        def enter(event: str, fields: Mapping[str, Any]) -> None:
            opened.enter_context(AuditLog(settings.audit, settings.identity)).append(event, fields)

        yield store, Accounts(store, log=AccountLog(None, enter, "command line"))


def _as_json(user: User) -> dict[str, object]:
    return {"name": user.name, "role": user.role.value, "disabled": user.disabled, "created": user.created.isoformat()}


def _show(user: User, json: bool) -> None:
    answer(json, _as_json(user), f"{user.name}  {user.role}  {'disabled' if user.disabled else 'open'}")
