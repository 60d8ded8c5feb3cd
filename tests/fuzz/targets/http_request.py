"""Any bytes as an HTTP request to the coordinator's API: an answer that is not the coordinator's own failure.

`TOKEN` in the bytes stands for the token of an analyst.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import h11

from fuzz.oracle import accept, scratch
from fuzz.served import ask
from masquerade.service import create_app
from service.api_server import make_coordinator

COORDINATOR = make_coordinator(scratch())
APP = create_app(COORDINATOR)
TOKEN, _ = COORDINATOR.accounts.create_token(COORDINATOR.store.users.get("ana"), "fuzzing")


def fuzz(data: bytes) -> None:
    server = h11.Connection(h11.SERVER)
    server.receive_data(data.replace(b"TOKEN", TOKEN.encode()))
    body = b""
    try:
        request = server.next_event()
        if not isinstance(request, h11.Request):
            return
        while isinstance(part := server.next_event(), h11.Data):
            body += part.data
    except h11.RemoteProtocolError:
        return  # the server answers it
    path, _, query = request.target.partition(b"?")
    method = request.method.decode("ascii")
    status, content = ask(APP, method, unquote(path.decode("ascii")), query, request.headers, body)
    assert 200 <= status < 500, f"{method} {path!r} is answered with status {status}: {content!r}"
    if status < 300:
        accept()
    if status >= 400 and method != "HEAD":
        assert json.loads(content)["problems"]


def answered(method: str, path: str, content: Any = None) -> bytes:
    """What the API answers the analyst."""
    headers = [(b"authorization", b"Bearer " + TOKEN.encode()), (b"content-type", b"application/json")]
    body = b"" if content is None else json.dumps(content).encode()
    return ask(APP, method, f"/api/v1{path}", b"", headers, body)[1]
