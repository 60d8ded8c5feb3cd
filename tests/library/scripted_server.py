"""A server that answers what a test has written down: for coordinators that misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Reply:
    """One answer; with `cut`, the connection ends before all of the promised body was sent."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    cut: bool = False


def problem(status: int, body: bytes = b'{"title": "Bad", "detail": "no"}', **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, body, named, "application/problem+json")


@dataclass
class Scripted:
    """What was asked, as method, path and headers, and what is answered next; the last answer is repeated."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def scripted(*replies: Reply) -> Iterator[Scripted]:
    """A server on this machine."""
    script = Scripted(replies=list(replies))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            heard = {name.lower(): value for name, value in self.headers.items()}
            script.asked.append((self.command, self.path, heard))
            reply = script.replies.pop(0) if len(script.replies) > 1 else script.replies[0]
            self.send_response(reply.status)
            headers = {"content-type": reply.kind, "content-length": str(len(reply.body) + reply.cut * 10)}
            for name, value in {**headers, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = reply.cut

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 # the names are the library's

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
