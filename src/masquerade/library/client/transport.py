"""How a client's requests travel: httpx, which certificates will do, and what its failures mean."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import httpx
import msgspec

from masquerade import __version__
from masquerade.errors import ParameterError, PeerError, PeerRefused, PeerUnreachable, one_line
from masquerade.library.client.address import Address
from masquerade.library.client.exchange import COORDINATOR, Answer, Ask

_CONNECT = 10.0  # seconds
_SILENCE = 60.0  # between two pieces of an answer; a stream of events has a sign of life far more often


def options(address: Address, ca: str | Path | None) -> dict[str, Any]:
    """How httpx is to behave: nobody but the coordinator hears the token."""
    return {
        "verify": trust(ca) if address.secure else False,  # plain http is for this machine alone
        "timeout": httpx.Timeout(_SILENCE, connect=_CONNECT),
        "follow_redirects": False,
        "trust_env": address.secure and not address.loopback,  # a proxy sees no more than ciphertext
        "headers": {"user-agent": f"masquerade/{__version__}"},
    }


def trust(ca: str | Path | None) -> ssl.SSLContext:
    """Which certificates will do: the system's authorities, or only what a PEM file holds."""
    if ca is None:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=str(ca))
    except ssl.SSLError:
        raise ParameterError(f"{ca}: not a certificate in PEM") from None
    except OSError as error:
        raise ParameterError(f"{ca}: cannot be read: {error.strerror}") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a pinned certificate needs no authority above it
    return context


def request_options(address: Address, ask: Ask) -> dict[str, Any]:
    """The request as httpx wants it."""
    headers = {"accept": ask.accept, **ask.headers}
    if ask.token is not None:
        headers["authorization"] = f"Bearer {ask.token}"
    content = None
    if ask.body is not None:
        headers["content-type"] = "application/json"
        content = msgspec.json.encode(ask.body)
    return {
        "method": ask.method,
        "url": address.of(ask.path),
        "params": dict(ask.query) or None,
        "headers": headers,
        "content": content,
    }


def answer_of(response: httpx.Response, body: bytes = b"") -> Answer:
    """The answer in a response."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body)


def failure(error: httpx.HTTPError, address: Address, *, answered: bool) -> PeerError:
    """What went wrong on the way, in words that help; `answered`: after the coordinator had begun to answer."""
    tls = _tls_error(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return PeerRefused(
            COORDINATOR,
            f"{address.base} shows a certificate that is not trusted: {one_line(tls.verify_message)}; "
            "if it is its own, give it as ca once you have compared its fingerprint",
        )
    if tls is not None and "WRONG_VERSION" in (tls.reason or ""):
        return PeerRefused(COORDINATOR, f"{address.base} does not speak TLS; is it an http:// address?")
    if tls is not None:
        return PeerUnreachable(
            COORDINATOR, f"{address.base}: no TLS connection: {tls.reason or 'it hangs up'}"
        )
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return PeerUnreachable(
            COORDINATOR, f"nobody answers at {address.base}; is it running, and is that its address?"
        )
    if isinstance(error, httpx.TimeoutException):
        return PeerUnreachable(COORDINATOR, f"{address.base} has fallen silent")
    if isinstance(error, httpx.ProxyError):
        return PeerUnreachable(COORDINATOR, f"{address.base} cannot be reached through the proxy that is set")
    if answered:
        return PeerUnreachable(COORDINATOR, f"{address.base} breaks off in the middle of an answer")
    hint = "" if address.secure else "; if it speaks TLS, its address begins with https://"
    return PeerUnreachable(COORDINATOR, f"{address.base} hangs up without an answer{hint}")


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """The error of TLS underneath, however deep it is."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None
