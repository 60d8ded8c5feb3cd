"""Limits on what a client may send: the size of a body, and requests per minute.

Requests are counted in a token bucket for each user, or for each address until a token is presented. A bucket refills
steadily, so that a pause is worth as many requests as it was long.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.net import network_of
from masquerade.service.accounts import client_address
from masquerade.service.api.problems import TooLarge, problem

MOST_BYTES = 2**20
_MOST_BUCKETS = 100_000
_DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Allowance:
    """What a client has left: `remaining` requests now, all of them again in `reset` seconds."""

    limit: int
    remaining: int
    reset: int

    def headers(self) -> dict[str, str]:
        """Return the rate-limit headers of the answer."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset),
        }


class OverLimit(HTTPException):
    """The bucket is empty."""

    def __init__(self, allowance: Allowance, wait: int) -> None:
        detail = f"too many requests: {allowance.limit} a minute are allowed; try again in {wait} s"
        super().__init__(429, detail, {"Retry-After": str(wait), **allowance.headers()})


class RateLimit:
    """All buckets, in memory: a restart refills them."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = per_minute
        self._rate = per_minute / 60
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and as of when
        self._lock = threading.Lock()

    def take(self, key: str) -> Allowance:
        """Count one request; raise TooMany when none is left."""
        with self._lock:
            now = self._clock()
            left, then = self._buckets.pop(key, (float(self._limit), now))
            left = min(self._limit, left + (now - then) * self._rate)
            enough = left >= 1
            left -= enough
            self._buckets[key] = (left, now)
            while len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)  # the longest idle bucket is full anyway
        allowance = Allowance(self._limit, int(left), math.ceil((self._limit - left) / self._rate))
        if not enough:
            raise OverLimit(allowance, max(1, math.ceil((1 - left) / self._rate)))
        return allowance


def address_key(host: str | None) -> str:
    """Return the bucket for an address."""
    return f"address {network_of(host)}".rstrip()


class HttpMiddleware(ABC):
    """What stands between a client's requests and an app; anything else is passed on as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await (self.handle if scope["type"] == "http" else self.app)(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""


class BodyLimit(HttpMiddleware):
    """Refuse bodies that are too large, by their declared length and by the bytes that arrive."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting the bytes of its body."""
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not value.isdigit() or int(value[:20]) > MOST_BYTES for value in lengths):
            await _drain(receive)
            refusal = TooLarge(MOST_BYTES)
            await problem(413, [refusal.detail], refusal.headers)(scope, receive, send)
            return
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > MOST_BYTES:
                await _drain(receive)
                raise TooLarge(MOST_BYTES)
            return message

        await self.app(scope, counted, send)


async def _drain(receive: Receive) -> None:
    """Discard some of the incoming body: a client that is cut off while sending often misses the answer."""
    gone = 0
    with anyio.move_on_after(_DRAIN_SECONDS):
        while gone < 8 * MOST_BYTES:
            message = await receive()
            gone += len(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body", False):
                return


# --- headers ------------------------------------------------------------------------------------------------
# Security headers of every answer, for browsers and proxies: no caching, sniffing, external loading or
# framing.

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


class Headers(HttpMiddleware):
    """Add these headers and the rest of the rate limit to all answers. Headers that an answer sets itself are kept."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; add the headers to its answer."""
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
