"""Any bytes as the coordinator's answer, its problem document or its stream of events: read, or a PeerError."""

from __future__ import annotations

from typing import Any

from fuzz.oracle import allowing
from masquerade.errors import MasqueradeError, PeerError
from masquerade.library.client.event_stream import Following
from masquerade.library.client.exchange import COORDINATOR, Answer, read, refusal, told_date, told_pause
from masquerade.service.resources import (
    IssuedToken,
    LedgerPage,
    Page,
    PartyOffer,
    Provider,
    PublishedRelease,
    RequestPreview,
    Session,
    SignedIn,
    UserDetails,
)

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
        error = refusal(
            Answer(status, {"content-type": "application/problem+json", "retry-after": text}, data)
        )
        assert isinstance(error, MasqueradeError)
        assert all(line.isprintable() for line in error.lines)
    assert told_pause(Answer(429, {"retry-after": text})) >= 0
    told_date(Answer(200, {"date": text}))
    following = Following("0f" * 16)
    following.ask()
    with allowing(PeerError, peer=COORDINATOR):
        for at in range(0, len(data), 16):
            list(following.feed(data[at : at + 16]))
