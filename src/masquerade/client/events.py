"""A session's events as they happen: parsing the stream, and following it across restarts of the coordinator.

`StreamReader` takes bytes in pieces of any size and yields whole messages (text/event-stream of the HTML standard).
`Following` keeps the position: the last event seen, whether the session is over, and how long to keep trying.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from masquerade.client.transport import COORDINATOR, Ask, TooMany, not_understood
from masquerade.errors import PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.service import Event

PATIENCE = 60.0  # seconds of silence after which to give up
MOST_BYTES = 8 << 20  # per message

_LINE_END = re.compile(rb"\r\n|\n|\r")
_SHORTEST, _LONGEST = 0.2, 2.0  # seconds between attempts


@dataclass(frozen=True)
class StreamMessage:
    """One message of a stream."""

    id: str
    kind: str
    data: str


class StreamReader:
    """A parser of bytes into messages; only the format's own line ends count, not those that a text may contain."""

    def __init__(self) -> None:
        self._rest, self._size = b"", 0
        self._id = self._kind = ""
        self._data: list[str] = []
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[StreamMessage]:
        """Yield the messages that are now complete."""
        text = self._rest + chunk
        # A trailing carriage return may be half of a line end.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        if len(self._rest) + self._size > MOST_BYTES:
            raise PeerBrokeProtocol(COORDINATOR, f"sends an event of more than {MOST_BYTES:,} bytes")
        for line in lines:
            message = self._take(line)
            if message is not None:
                yield message

    def _take(self, line: bytes) -> StreamMessage | None:
        if not self._begun:
            self._begun, line = True, line.removeprefix(b"\xef\xbb\xbf")
        if not line:  # the message is whole
            data, kind = self._data, self._kind
            self._data, self._kind, self._size = [], "", 0
            return StreamMessage(self._id, kind or "message", "\n".join(data)) if data else None
        self._size += len(line)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None


class Following:
    """The position in a session's events, and when to try again."""

    def __init__(
        self, session: str, after: int = 0, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.session, self.last = session, after
        self._over = False
        self._patience, self._clock = patience, clock
        self._heard: float | None = None  # nothing yet: a coordinator that never answered is not restarting
        self._pause = _SHORTEST
        self._brought = 0
        self._reader = StreamReader()

    def is_over(self) -> bool:
        """Return whether no event will follow."""
        return self._over

    def ask(self) -> Ask:
        """Return the request that opens the stream after the last event seen."""
        self._reader, self._brought = StreamReader(), 0
        self._heard = self._clock() if self._heard is None else self._heard
        return Ask(
            "GET",
            f"/sessions/{quote(self.session, safe='')}/events",
            query={"after": self.last},
            accept="text/event-stream",
            headers={"last-event-id": str(self.last), "cache-control": "no-store"},
        )

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that are now complete, each once and in order; the final event ends the following."""
        self._heard, self._pause = self._clock(), _SHORTEST
        for message in self._reader.feed(chunk):
            event = _event(message)
            if event is None or event.number <= self.last:
                continue
            self.last, self._brought = event.number, self._brought + 1
            self._over = event.final
            yield event
            if self._over:
                return

    def ended(self, is_final: bool) -> float:
        """Return the seconds to wait after the stream ended without a final event.

        If the session was over already and its events are no longer stored, there is nothing to wait for.
        """
        self._heard = self._clock()
        self._over = is_final and not self._brought
        return 0.0 if self._over else self._next_pause()

    def broke(self, error: PeerError) -> float:
        """Return the seconds to wait after the stream broke or did not open; raise the error once time is up."""
        over = self._heard is None or self._clock() - self._heard > self._patience
        if over or not isinstance(error, PeerUnreachable):
            raise error
        return max(self._next_pause(), error.seconds if isinstance(error, TooMany) else 0.0)

    def _next_pause(self) -> float:
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST)
        return pause


def _event(message: StreamMessage) -> Event | None:
    """Return the event in a message, or None if the message only serves the connection."""
    try:
        told: Any = TypeAdapter(Any).validate_json(message.data)
        is_event = isinstance(told, dict) and "number" in told
        return Event.model_validate_json(message.data, strict=True) if is_event else None
    except ValidationError as error:
        raise not_understood("sends an event that", error) from None
