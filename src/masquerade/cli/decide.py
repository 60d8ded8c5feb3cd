"""`masquerade decide SESSION accept|relax|withdraw`: your word on a release that misses the wished quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    most_ncp: Annotated[
        float | None,
        typer.Option(
            "--most-ncp",
            metavar="N",
            help="relax: the normalised certainty penalty that you would take instead.",
            show_default=False,
        ),
    ] = None,
    most_query_error: Annotated[
        float | None,
        typer.Option(
            "--most-query-error",
            metavar="Q",
            help="relax: the query error that you would take instead.",
            show_default=False,
        ),
    ] = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Decide on a session that awaits its client: its release was made, and misses the quality you wished for.

    accept publishes it as it is; relax asks the parties again, for less, and where only the wished quality is another
    publishes it if that is met; withdraw does without it. Nothing is published, and nothing charged, before.

    Example: masquerade decide 5f2c0e… relax --most-error 0.3
    """
    from masquerade.library.client.requests import keys_of

    changes: dict[str, Any] = keys_of(request) if request is not None else {}
    wished = {"most_error": most_error, "most_ncp": most_ncp, "most_query_error": most_query_error}
    options = {key: limit for key, limit in wished.items() if limit is not None}
    changes |= options
    if (decision is Decision.RELAX) != bool(changes):
        wrong = (
            "relax: give --most-error E, --most-ncp N, --most-query-error Q or --request FILE: what changes"
        )
        raise ParameterError(wrong if not changes else f"{decision}: nothing can change; that is for relax")
    with client_of(conf) as client:
        if decision is Decision.RELAX:
            with _naming(request, options):
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
def _naming(request: Path | None, options: Mapping[str, float]) -> Iterator[None]:
    """Let what the coordinator finds wrong name the file, or the option, that says it."""
    from masquerade.library.client.requests import is_of_request, placed

    try:
        yield
    except ParameterError as error:
        given = [
            each for each in error.problems if is_of_request(each) and each.key[:1] and each.key[0] in options
        ]
        others = [each for each in error.problems if each not in given]
        named = (each.at(source=f"--{str(each.key[0]).replace('_', '-')}", key=()) for each in given)
        raise ParameterError(*named, *placed(others, request)) from None
