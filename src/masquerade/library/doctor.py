"""`doctor`: check a configuration and everything it names, and advise what to do.

It recognises a party's, a coordinator's and a client's configuration by their keys. It changes nothing, and shows no
secret: no key, no token, no database URL with its password.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from masquerade.errors import AnswerIsNo, BadInput, ParameterError, PeerUnreachable, Problem
from masquerade.library.doctor_check import Check, error, fine, problems
from masquerade.net.progress import OnStage, silent

Kind = Literal["party", "coordinator", "client"]


@dataclass(frozen=True)
class Examination:
    """The results of all checks."""

    path: Path
    kind: Kind | None
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no errors; warnings are allowed."""
        return not self.errors

    @property
    def errors(self) -> tuple[Check, ...]:
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
    from masquerade.library.client.requests import read_configuration

    try:
        content = read_configuration(path)
    except ParameterError as caught:
        return Examination(path, None, tuple(problems("configuration", caught, BadInput.exit_code)))
    kind = recognise(content)
    if kind is None:
        told = Check(
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


def _all(kind: Kind, path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[Check]:
    yield _versions()
    if kind == "client":
        from masquerade.library.doctor_client import client_checks

        yield from client_checks(path, on_stage)
        return
    try:
        from masquerade.library.doctor_node import coordinator_checks, party_checks
    except ModuleNotFoundError as missing:
        yield error("versions", f"{missing.name} is not installed", 'pip install "masquerade[service]"')
        return
    yield from (party_checks if kind == "party" else coordinator_checks)(path, content, on_stage)


def _versions() -> Check:
    import platform

    from masquerade import __version__
    from masquerade.net.channel import PROTOCOL_VERSION

    detail = f"Masquerade {__version__}, protocol {PROTOCOL_VERSION}, Python {platform.python_version()}"
    return fine("versions", detail)
