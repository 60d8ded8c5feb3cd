"""`masquerade decide SESSION accept|relax|withdraw`: your word on a release that misses the wished quality."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from masquerade.cli.client_conf import Conf, SessionId, again, client_of, lines_of
from masquerade.cli.output import Json, print_json, say
from masquerade.errors import ParameterError
from masquerade.service.session_states import Decision


def decide(
    session: SessionId,
    decision: Annotated[
        Decision,
        typer.Argument(metavar="DECISION", help="One of accept, relax, withdraw.", show_default=False),
    ],
    request: Annotated[
        Path | None,
        typer.Option(
            "--request",
            metavar="FILE",
            help="relax: the keys of the request that change (TOML).",
            show_default=False,
        ),
    ] = None,
    most_error: Annotated[
        float | None,
        typer.Option(
            "--most-error",
            metavar="E",
            help="relax: the error that you would take instead.",
            show_default=False,
        ),
    ] = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Decide on a session that awaits its client: its release was made, and misses the quality you wished for.

    accept publishes it as it is; relax asks the parties again, for less, and where only the error is another publishes
    it if that is met; withdraw does without it. Nothing is published, and nothing charged, before.

    Example: masquerade decide 5f2c0e… relax --most-error 0.3
    """
    from masquerade.library.client.requests import keys_of

    changes: dict[str, Any] = keys_of(request) if request is not None else {}
    changes |= {"most_error": most_error} if most_error is not None else {}
    if (decision is Decision.RELAX) != bool(changes):
        wrong = "relax: give --most-error E or --request FILE: what changes"
        raise ParameterError(wrong if not changes else f"{decision}: nothing can change; that is for relax")
    with client_of(conf) as client:
        if decision is Decision.RELAX:
            with _naming(request, most_error):
                decided = client.relax(session, changes)
        elif decision is Decision.ACCEPT:
            decided = client.accept(session)
        else:
            decided = client.withdraw(session)
    if json:
        print_json(decided.content())
        return
    say(*lines_of(decided, conf))
    if decided.published:
        say(f"take it: {again('download SESSION', session, conf)}")
    elif decision is Decision.RELAX:
        say(f"watch it: {again('sessions SESSION --watch', session, conf)}")


@contextmanager
def _naming(request: Path | None, most_error: float | None) -> Iterator[None]:
    """Let what the coordinator finds wrong name the file, or the option, that says it."""
    from masquerade.library.client.requests import is_of_request, placed

    try:
        yield
    except ParameterError as error:
        option = ("most_error",) if most_error is not None else None
        given = [each for each in error.problems if is_of_request(each) and each.key == option]
        others = [each for each in error.problems if each not in given]
        named = (each.at(source="--most-error", key=()) for each in given)
        raise ParameterError(*named, *placed(others, request)) from None
