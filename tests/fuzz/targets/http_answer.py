"""Any bytes as the coordinator's answer, its problem document or its stream of events: read, or a PeerError."""

from __future__ import annotations

import json
from typing import Any

from fuzz.oracle import allowing
from fuzz.targets.http_request import answered
from masquerade.client.events import Following
from masquerade.client.transport import COORDINATOR, Answer, read, refusal, told_date, told_pause
from masquerade.errors import MasqueradeError, PeerError
from masquerade.service import (
    IssuedToken,
    Page,
    PartyOffer,
    Provider,
    PublishedRelease,
    RequestPreview,
    Session,
    SignedIn,
)
from masquerade.service.resources import LedgerPage, UserDetails
from service.api_server import PASSWORDS, WISH

KINDS: tuple[Any, ...] = (
    *(IssuedToken, LedgerPage, PublishedRelease, RequestPreview, Session, SignedIn, UserDetails),
    *(Page[Provider], Page[Session], list[PartyOffer], dict[str, Any]),
)


def fuzz(data: bytes) -> None:
    for kind in KINDS:
        with allowing(PeerError, peer=COORDINATOR):
            read(Answer(200, {}, data), kind)
    text = data[:64].decode("latin-1")
    for status in (302, 400, 401, 404, 409, 422, 429, 503):
        error = refusal(Answer(status, {"content-type": "application/problem+json", "retry-after": text}, data))
        assert isinstance(error, MasqueradeError)
        assert all(line.isprintable() for line in error.lines)
    assert told_pause(Answer(429, {"retry-after": text})) >= 0
    told_date(Answer(200, {"date": text}))
    following = Following("0f" * 16)
    following.ask()
    with allowing(PeerError, peer=COORDINATOR):
        for at in range(0, len(data), 16):
            list(following.feed(data[at : at + 16]))


def seeds() -> dict[str, bytes]:
    event = {"number": 1, "session": "0f" * 16, "at": "2026-01-01T00:00:00Z", "kind": "status", "final": False}
    stream = f": hello\r\n\r\nid: 1\nevent: status\ndata: {json.dumps(event)}\n\nretry: 5\ndata: {{}}\n\n"
    return {
        "session": answered("POST", "/sessions", dict(WISH)),
        "sessions": answered("GET", "/sessions"),
        "providers": answered("GET", "/providers"),
        "signed-in": answered("POST", "/sign-in", {"user": "ana", "password": PASSWORDS["ana"]}),
        "problem": answered("POST", "/sessions", {"privacy": 3, "k": 1}),
        "events": stream.encode(),
    }
