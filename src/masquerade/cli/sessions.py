"""`masquerade sessions`: what was asked for, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.client_conf import Conf, client_of, insist, lines_of, wait_for
from masquerade.cli.output import Json, print_json, progress, say
from masquerade.errors import ParameterError, one_line

if TYPE_CHECKING:
    from masquerade.service.resources import Session


def sessions(
    session: Annotated[
        str | None,
        typer.Argument(metavar="SESSION", help="One session; without it the newest.", show_default=False),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the session until it ends.")] = False,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="Only those, such as running.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Show at most N.", min=1)] = 20,
    everyone: Annotated[bool, typer.Option("--everyone", help="Everybody's, for admins.")] = False,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Show your newest sessions, or one of them; with --watch, follow it to its end.

    Exit code 0; with --watch 1 when the session is refused or fails, with one line a reason, and 3 when it fails
    because of a party.

    Example: masquerade sessions --status running
    """
    if watch and session is None:
        raise ParameterError("--watch: name the session that is to be followed")
    with client_of(conf) as client:
        if session is None:
            found = client.sessions(status=status, limit=limit, everyone=everyone)
            if json:
                print_json({"sessions": [each.content() for each in found]})
            else:
                say(*(table_of(found) if found else ["no sessions"]))
            return
        one = client.session(session)
        if watch and not one.final:
            with progress() as shown:
                one = wait_for(client, session, shown, conf)
        decides = one.status != "awaiting_client" or one.client == client.me().name
        if json:
            print_json(one.content())
        else:
            say(*lines_of(one, conf, decides=decides))
        if watch:
            insist(one, conf, decides=decides)


def table_of(found: Sequence[Session]) -> list[str]:
    """A table for people, in columns as wide as they need."""
    head = ("STATUS", "CREATED", "COLUMNS", "PURPOSE", "PARTIES", "SESSION", "CAUSE")
    rows = [head, *(_row(each) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(session: Session) -> tuple[str, ...]:
    created = f"{session.created:%Y-%m-%d %H:%M}" if session.created is not None else ""
    parties = ", ".join(session.providers)
    return (
        session.status,
        created,
        _short(", ".join(map(str, session.request.get("attributes") or ())), 40),
        _short(session.purpose, 30),
        parties,
        session.id,
        _short(session.cause or "", 60),
    )


def _short(text: str, longest: int) -> str:
    line = one_line(" ".join(text.split()))  # others wrote it
    return line if len(line) <= longest else line[: longest - 1] + "…"
