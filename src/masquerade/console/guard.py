"""Check every request to the console before a page sees it: it must come from the console itself.

A page of another site can make a browser send requests here. The cookie is not sent then (SameSite=Strict), and
every request that could change something or open a websocket must name this very host as its origin.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.service import SECURE, client_address

PREFIX = "/console"
CONSOLE = "masquerade.console"  # scope key of the console
HEADERS = "masquerade.console.headers"  # scope key of extra headers for this response only

_READING = ("GET", "HEAD", "OPTIONS")
_PARTS = f"{PREFIX}/_nicegui/"  # scripts and styles; their paths contain the version
_FOREVER = "public, max-age=31536000, immutable"
_USUAL = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "; ".join(
        [
            "default-src 'self'",
            "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # NiceGUI's start script, and Vue's templates
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """ASGI middleware that makes the check and passes the console on to the pages."""

    def __init__(self, app: ASGIApp, console: Any) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests from the console's own pages; answer others with 403."""
        path = scope.get("path", "")
        if scope["type"] not in ("http", "websocket") or not (path == PREFIX or path.startswith(f"{PREFIX}/")):
            await self._app(scope, receive, send)
        elif not from_here(scope):
            await _refuse(scope, send)
        else:
            scope[CONSOLE] = self._console
            client_address.set(scope["client"][0] if scope.get("client") else None)
            await self._app(scope, receive, _with_headers(scope, send) if scope["type"] == "http" else send)


def from_here(scope: Scope) -> bool:
    """Return whether a request may be answered: its origin is this host, or it only reads and names no origin."""
    headers = Headers(scope=scope)
    origin = headers.get("origin")
    if origin is None:
        return scope["type"] == "http" and scope["method"] in _READING
    try:
        there = urlsplit(origin)
    except ValueError:
        return False
    return there.scheme in ("http", "https") and there.netloc.lower() == headers.get("host", "").lower()


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # before accepting, so the client gets a 403
        return
    text = b"This request comes from another site; the console answers its own pages only.\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def _with_headers(scope: Scope, send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_USUAL, **scope.get(HEADERS, {})}.items():
                headers[name] = value  # the API's own headers would keep pages from loading anything
            if scope.get("scheme") == "https":
                headers["Strict-Transport-Security"] = SECURE
            if scope["path"].startswith(_PARTS) and message["status"] == 200:
                headers["Cache-Control"] = _FOREVER
        await send(message)

    return sending
