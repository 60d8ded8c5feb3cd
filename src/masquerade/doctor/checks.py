"""What one check of the doctor found and advises, and the checks of clocks, certificates and keys.

Nothing here needs the dependencies of a server: a client has a doctor, too.
"""

from __future__ import annotations

import shlex
import ssl
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography import x509

from masquerade.errors import AnswerIsNo, MasqueradeError, ParameterError, PeerUnreachable
from masquerade.files import read_file
from masquerade.net import KEY_FILE, Identity, TrustStore, ends_soon, out_of_date
from masquerade.report import counted

Status = Literal["ok", "warning", "error"]

DIFFERS, TOO_MUCH = 5.0, 60.0  # seconds between two clocks


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `code` is the exit code if it is an error."""

    name: str
    status: Status
    detail: str
    advice: str = ""
    code: int = AnswerIsNo.exit_code

    @property
    def line(self) -> str:
        """The finding and the advice, on one line."""
        return f"{self.name}: {self.detail}" + (f"; {self.advice}" if self.advice else "")


def fine(name: str, detail: str) -> CheckResult:
    """Return a check that passed."""
    return CheckResult(name, "ok", detail)


def warning(name: str, detail: str, advice: str = "") -> CheckResult:
    """Return a check of something that works now but may soon fail."""
    return CheckResult(name, "warning", detail, advice)


def error(name: str, detail: str, advice: str = "") -> CheckResult:
    """Return a check of something that does not work."""
    return CheckResult(name, "error", detail, advice)


def unreachable(name: str, detail: str, advice: str = "") -> CheckResult:
    """Return a failed check for which another machine is at fault or absent."""
    return CheckResult(name, "error", detail, advice, PeerUnreachable.exit_code)


def words_of(caught: MasqueradeError) -> str:
    """Return an error on one line, without the party's name, which the check already has."""
    return "; ".join(str(each.at(party=None)) for each in caught.problems)


def problems(name: str, caught: MasqueradeError, code: int = AnswerIsNo.exit_code) -> list[CheckResult]:
    """Return a failed check for each problem of an error."""
    return [CheckResult(name, "error", problem, code=code) for problem in caught.lines]


def clock_check(name: str, now: float, before: float, after: float, grain: float = 0.0) -> CheckResult:
    """Check how far a clock is off, at least: it was read between `before` and `after`, with resolution `grain`."""
    ahead = now - after
    behind = before - now - grain
    difference = max(ahead, behind, 0.0)
    side = "ahead of" if ahead > behind else "behind"
    if difference < DIFFERS:
        return fine(f"clock {name}", "agrees with ours")
    told = f"{difference:.0f} s {side} ours"
    advice = "let both machines take their time from the network (NTP)"
    if difference < TOO_MUCH:
        return warning(f"clock {name}", told, advice)
    return error(f"clock {name}", f"{told}; tokens and certificates are judged by the clock", advice)


# --- certificates and keys ----------------------------------------------------------------------------------
# The doctor's checks of certificates and keys: their names, validity and file permissions.


def identity_checks(folder: Path, name: str | None) -> tuple[Identity | None, list[CheckResult]]:
    """Check our own certificate and key; return the identity, if it could be loaded, with the checks."""
    checks = list(mode_checks("key", folder / KEY_FILE))
    try:
        identity = Identity.load(folder)
    except ParameterError as caught:
        known = {check.detail for check in checks if check.status == "error"}
        readable = [line for line in problems("identity", caught) if not (known and "others may read" in line.detail)]
        return None, [*checks, *readable]
    if name is not None and identity.name != name:
        detail = f'{folder}: the certificate is for "{identity.name}", and the configuration\'s name is "{name}"'
        checks.append(error("identity", detail, "correct the name, or take the folder that belongs to it"))
    else:
        checks.append(fine("identity", f"{identity.name}, certificate and key belong together"))
    renew = (
        f"masquerade identity make {identity.name} --folder NEW, send NEW/identity.pem to every peer, then put both"
        f" files into {folder}, and start again"
    )
    checks.append(_dated(f"certificate of {identity.name}", "our own", identity.certificate, renew))
    return identity, checks


def trust_checks(folder: Path, needed: Iterable[str]) -> tuple[TrustStore | None, list[CheckResult]]:
    """Check the pinned certificates: all needed ones are present, and all are valid."""
    try:
        trust = TrustStore.load(folder)
    except ParameterError as caught:
        return None, problems("trust", caught)
    checks = []
    for name in needed:
        if name not in trust.names:
            known = ", ".join(trust.names) or "nobody"
            checks.append(
                error("trust", f"{name} is not in {folder}, which knows {known}", trusting("FILE", folder, name))
            )
    checks += [
        _dated(f"certificate of {name}", "pinned", trust.pin(name), trusting("FILE --replace", folder, name))
        for name in trust.names
    ]
    if not any(check.name == "trust" for check in checks):
        checks.insert(0, fine("trust", f"knows {', '.join(trust.names) or 'nobody'}"))
    return trust, checks


def trusting(file: str, store: Path, name: str) -> str:
    """Say how a peer's certificate gets into a trust store."""
    command = f"masquerade identity trust add {file} --store {shlex.quote(str(store))} --fingerprint …"
    asked = f"get its identity.pem and, through another channel, its fingerprint from the steward of {name}"
    return f"{asked}; then: {command}"


def mode_checks(name: str, path: Path) -> Iterator[CheckResult]:
    """Check that only its owner may read a secret."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return  # a missing file is reported by the check that needs it
    if mode & 0o007:
        yield error(name, f"{path}: everybody on this machine may read it (mode {mode:04o})", f"chmod 600 {path}")
    elif mode & 0o070:
        yield warning(name, f"{path}: its group may read it (mode {mode:04o})", f"chmod 600 {path}")
    else:
        yield fine(name, f"{path.name}: only its owner may read it")


def https_checks(certificate: Path, key: Path) -> Iterator[CheckResult]:
    """Check the certificate that browsers and clients see."""
    yield from mode_checks("https", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password, to prevent a prompt at the terminal
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as caught:
        missing = isinstance(caught, OSError) and not isinstance(caught, ssl.SSLError)
        reason = caught.strerror if missing else "certificate and key do not belong together, or are no PEM"
        yield error("https", f"{certificate}, {key}: {reason}", "correct https in the configuration")
        return
    try:
        yield file_dated("https", certificate, "renew it")
    except ParameterError as caught:
        yield from problems("https", caught)


def file_dated(name: str, path: Path, renew: str) -> CheckResult:
    """Check the expiry date of the first certificate in a file."""
    pem = read_file(path)
    try:
        x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise ParameterError(f"{path}: not a certificate in PEM") from None
    return _dated(name, path.name, pem, renew)


def _dated(name: str, whose: str, pem: bytes, renew: str) -> CheckResult:
    problem = out_of_date(pem)
    if problem is not None:
        return error(name, f"{whose} {problem}", renew)
    until = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    left = until - datetime.now(UTC)
    detail = f"{whose}: valid until {until:%Y-%m-%d} ({counted(left.days, 'day')})"
    return warning(name, detail, f"{renew} in time") if ends_soon(pem) else fine(name, detail)
