"""Security headers of every answer, for browsers and proxies: no caching, sniffing, external loading or framing."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.service.account_log import client_address
from masquerade.service.api.limits import Allowance

NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# A report is one file with its own style and drawings, and no script. `sandbox` keeps it so, whatever is in it.
REPORT = f"{NOTHING}; style-src 'unsafe-inline'; img-src data:; sandbox"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": NOTHING,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SECURE = "max-age=31536000"


class Headers:
    """Add these headers and the rest of the rate limit to all answers. Headers that an answer sets itself are kept."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; add the headers to its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        client_address.set(scope["client"][0] if scope.get("client") else None)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope.get("scheme") == "https":
                    headers.setdefault("Strict-Transport-Security", SECURE)
                allowance = state.get("allowance")
                if isinstance(allowance, Allowance):
                    for name, value in allowance.headers().items():
                        headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, sent)
