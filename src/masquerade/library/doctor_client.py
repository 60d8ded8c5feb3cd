"""The doctor's checks of a client: is the coordinator reachable, is it the right one, does it accept the user?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from masquerade.errors import BadInput, MasqueradeError, NotAllowed, ParameterError, PeerError
from masquerade.library.client import Client
from masquerade.library.client.settings import ClientSettings, read_settings
from masquerade.library.doctor_certificates import file_dated, mode_checks
from masquerade.library.doctor_check import Check, error, fine, problems, unreachable, warning, words_of
from masquerade.library.doctor_peers import clock_check
from masquerade.net.progress import OnStage, Stage


def client_checks(path: Path, on_stage: OnStage) -> Iterator[Check]:
    """Check everything that `request` needs."""
    try:
        settings = read_settings(path)
    except ParameterError as caught:
        yield from problems("configuration", caught, BadInput.exit_code)
        return
    yield fine("configuration", f"{path}: a client of {settings.url}")
    if settings.token_file is not None:
        yield from mode_checks("token", settings.token_file)
    if settings.ca is not None:
        try:
            yield file_dated("ca", settings.ca, "get the coordinator's new one")
        except ParameterError as caught:
            yield from problems("ca", caught)
    on_stage(Stage(f"asking {settings.url}"))
    yield from _coordinator(settings, path)


def _coordinator(settings: ClientSettings, path: Path) -> Iterator[Check]:
    try:
        with Client(settings.url, settings.token, ca=settings.ca) as client:
            before = time.time()
            me = client.me()
            after = time.time()
            yield fine("coordinator", f"answers at {settings.url}, and knows us as {me.name} ({me.role})")
            if me.now is not None:
                yield clock_check("coordinator", me.now.timestamp(), before, after, grain=1.0)
            providers = client.providers()
            away = [each.party for each in providers if not each.reachable]
            names = ", ".join(each.party for each in providers)
            if not providers:
                yield warning("providers", "nobody whom we may ask", "ask the parties' stewards for access")
            elif away:
                yield warning(
                    "providers",
                    f"{names}; away now: {', '.join(away)}",
                    "a request that needs one of them fails while it is away",
                )
            else:
                yield fine("providers", names)
            if settings.request is not None:
                yield from _request(client, path, away)
    except NotAllowed as caught:
        yield error(
            "coordinator", f"{settings.url}: {caught}", "make a new token, and put it in place of the old one"
        )
    except PeerError as caught:
        yield unreachable("coordinator", words_of(caught))
    except MasqueradeError as caught:
        yield from problems("coordinator", caught)


def _request(client: Client, path: Path, away: Sequence[str]) -> Iterator[Check]:
    preview = client.preview(path)
    missing = [party for party in preview.parties if party in away]
    if missing and not preview.problems:
        one = len(missing) == 1
        yield unreachable(
            "request",
            f"needs {', '.join(missing)}, which {'does' if one else 'do'} not answer the coordinator now: the session "
            "would fail",
            f"ask again once {'it is' if one else 'they are'} back",
        )
    elif not preview.problems and not preview.refusals:
        yield fine("request", f"can be asked of {', '.join(preview.parties) or 'the parties'}")
    for problem in preview.problems:
        yield error("request", problem)  # names the key to correct
    advice = f"accepted would be: {'; '.join(preview.changes)}" if preview.changes else ""
    for refusal in preview.refusals:
        yield error("request", f"would be refused: {refusal}", advice)
