"""`doctor`: check a configuration and everything it names, and advise what to do.

It recognises a party's, a coordinator's and a client's configuration by their keys. It changes nothing, and shows no
secret: no key, no token, no database URL with its password.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from masquerade.client import Client, ClientSettings, read_settings
from masquerade.doctor.checks import (
    CheckResult,
    clock_check,
    error,
    file_dated,
    fine,
    mode_checks,
    problems,
    unreachable,
    warning,
    words_of,
)
from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    MasqueradeError,
    NotAllowed,
    ParameterError,
    PeerError,
    PeerUnreachable,
    Problem,
)
from masquerade.progress import OnStage, Stage, silent

Kind = Literal["party", "coordinator", "client"]


@dataclass(frozen=True)
class Examination:
    """The results of all checks."""

    path: Path
    kind: Kind | None
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no errors; warnings are allowed."""
        return not self.errors

    @property
    def errors(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.status == "error")

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary."""
        checks = [
            {"name": each.name, "status": each.status, "detail": each.detail, "advice": each.advice}
            for each in self.checks
        ]
        return {"configuration": str(self.path), "kind": self.kind, "ok": self.ok, "checks": checks}

    def insist(self) -> None:
        """Raise the errors as ParameterError if a file is bad, PeerUnreachable if a peer is absent, else AnswerIsNo."""
        if self.ok:
            return
        lines = [each.line for each in self.errors]
        codes = {each.code for each in self.errors}
        if BadInput.exit_code in codes:
            raise ParameterError(*lines)
        if PeerUnreachable.exit_code in codes:
            raise PeerUnreachable("", *map(Problem, lines))
        raise AnswerIsNo(*lines)


def examine(path: Path, on_stage: OnStage = silent) -> Examination:
    """Check a configuration and everything it names."""
    from masquerade.client import read_configuration

    try:
        content = read_configuration(path)
    except ParameterError as caught:
        return Examination(path, None, tuple(problems("configuration", caught, BadInput.exit_code)))
    kind = recognise(content)
    if kind is None:
        told = CheckResult(
            "configuration",
            "error",
            f"{path}: neither a party's ([datasets.NAME]), nor a coordinator's ([parties.NAME]), nor a client's "
            'configuration (coordinator = "https://…")',
            code=BadInput.exit_code,
        )
        return Examination(path, None, (told,))
    return Examination(path, kind, tuple(dict.fromkeys(_all(kind, path, content, on_stage))))


def recognise(content: dict[str, Any]) -> Kind | None:
    """Return whose configuration this is, judging by its keys; None if unknown."""
    if "datasets" in content or isinstance(content.get("coordinator"), dict):
        return "party"
    if {"parties", "party_address", "database", "https"} & content.keys():
        return "coordinator"
    if {"coordinator", "token_file", "ca", "request"} & content.keys():
        return "client"
    return None


def _all(kind: Kind, path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[CheckResult]:
    yield _versions()
    if kind == "client":
        yield from client_checks(path, on_stage)
        return
    try:
        from masquerade.doctor.service import coordinator_checks, party_checks
    except ModuleNotFoundError as missing:
        yield error("versions", f"{missing.name} is not installed", 'pip install "masquerade[service]"')
        return
    yield from (party_checks if kind == "party" else coordinator_checks)(path, content, on_stage)


def _versions() -> CheckResult:
    import platform

    from masquerade import __version__
    from masquerade.net import PROTOCOL_VERSION

    detail = f"Masquerade {__version__}, protocol {PROTOCOL_VERSION}, Python {platform.python_version()}"
    return fine("versions", detail)


# --- doctor client ------------------------------------------------------------------------------------------
# The doctor's checks of a client: is the coordinator reachable, is it the right one, does it accept the user?


def client_checks(path: Path, on_stage: OnStage) -> Iterator[CheckResult]:
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


def _coordinator(settings: ClientSettings, path: Path) -> Iterator[CheckResult]:
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
        yield error("coordinator", f"{settings.url}: {caught}", "make a new token, and put it in place of the old one")
    except PeerError as caught:
        yield unreachable("coordinator", words_of(caught))
    except MasqueradeError as caught:
        yield from problems("coordinator", caught)


def _request(client: Client, path: Path, away: Sequence[str]) -> Iterator[CheckResult]:
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
