"""Applications that are asked in memory, as their servers would ask them."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterable
from typing import Any

RUNNER = asyncio.Runner()
atexit.register(RUNNER.close)  # or its loop complains when Python ends
Headers = Iterable[tuple[bytes, bytes]]


def ask(
    app: Any, method: str, path: str, query: bytes, headers: Headers, body: bytes, **more: Any
) -> tuple[int, bytes]:
    """The status and the body of an answer; an answer that does not end is cut off."""
    return RUNNER.run(_asked(app, method, path, query, headers, body, more))


async def _asked(
    app: Any, method: str, path: str, query: bytes, headers: Headers, body: bytes, more: dict[str, Any]
) -> tuple[int, bytes]:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in headers],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        **more,
    }
    heard = [{"type": "http.request", "body": body, "more_body": False}]
    status, content = 0, b""

    async def receive() -> dict[str, Any]:
        return heard.pop() if heard else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, content
        status, content = message.get("status", status), content + message.get("body", b"")

    async with asyncio.timeout(300):
        await app(scope, receive, send)
    return status, content
