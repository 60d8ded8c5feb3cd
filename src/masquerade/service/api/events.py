"""The events of a session: as a list, or as a stream of server-sent events.

A waiting stream holds neither a thread nor a database connection: it sleeps in the event loop, and each poll runs
briefly in one of a few threads. The interval grows while nothing happens.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from masquerade.errors import MasqueradeError
from masquerade.service.api.access import ApiCaller, Asking, Service, SessionId, to_read
from masquerade.service.api.problems import error_responses
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Event, Page

MOST_EVENTS = 500
_LARGEST = 2**31 - 1
_SHORTEST, _LONGEST, _SLOWER = 0.2, 2.0, 1.5  # seconds between two polls, and the factor by which they grow
_HEARTBEAT = 15.0  # seconds; keeps proxies from cutting a quiet stream
_LOOKS_AT_ONCE = 4
_MOST_OF_ONE = 250

router = APIRouter(tags=["sessions"])


class EventStream(StreamingResponse):
    """A stream that ends as soon as its client disconnects, not only at the next event."""

    media_type = "text/event-stream"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the stream ends or the client disconnects."""

        async def until_gone(scope_of_all: anyio.CancelScope) -> None:
            await self.listen_for_disconnect(receive)
            scope_of_all.cancel()

        with suppress(OSError):  # the client disconnected during a send
            async with anyio.create_task_group() as group:
                group.start_soon(until_gone, group.cancel_scope)
                await self.stream_response(send)
                group.cancel_scope.cancel()


class Streams:
    """The open streams. `close` ends them all, so that a server can stop."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()  # by user
        self._looks = anyio.CapacityLimiter(_LOOKS_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all streams; may be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)
        else:
            self._closing.set()

    async def follow(
        self, coordinator: Coordinator, caller: ApiCaller, session_id: str, after: int
    ) -> AsyncIterator[str]:
        """Yield a session's events in stream format, up to its last."""
        user = caller.user.name
        self._loop = asyncio.get_running_loop()
        self.open[user] += 1
        try:
            async for text in self._followed(coordinator, caller, session_id, after):
                yield text
        except MasqueradeError:
            return  # the token or the right to see the session has been revoked
        finally:
            self.open[user] -= 1

    async def _followed(
        self, coordinator: Coordinator, caller: ApiCaller, session_id: str, after: int
    ) -> AsyncIterator[str]:
        user = caller.user
        # A session that ended before `after` sends no final event.
        over = (await self._look(coordinator.session, user, session_id)).status.final
        yield "retry: 2000\n\n"
        wait, quiet = _SHORTEST, 0.0
        while not self._closing.is_set():
            found = await self._look(coordinator.events, user, session_id, after, MOST_EVENTS)
            for event in found:
                after = event.number
                data = json.dumps(event.content())  # ASCII on one line, whatever is in it
                yield f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
                if event.final:
                    return
            if over and not found:
                return
            wait = _SHORTEST if found else min(_LONGEST, wait * _SLOWER)
            quiet = 0.0 if found else quiet + wait
            if quiet >= _HEARTBEAT:
                quiet = 0.0
                user = await self._look(coordinator.accounts.authenticate, caller.token)
                yield ": still here\n\n"
            if len(found) < MOST_EVENTS:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._closing.wait()

    async def _look(self, work: Any, *arguments: Any) -> Any:
        return await anyio.to_thread.run_sync(work, *arguments, limiter=self._looks)


@router.get(
    "/sessions/{id}/events",
    response_model=Page[Event],
    dependencies=[Depends(to_read)],
    responses={
        200: {
            "description": "The events as JSON, or with `Accept: text/event-stream` as a stream that goes on until"
            " the session has ended: `id` is the event's number, `event` its kind, `data` the event as JSON.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **error_responses(401, 403, 404, 422, 429, 500, 503),
    },
)
async def events(
    id: SessionId,
    request: Request,
    caller: Asking,
    coordinator: Service,
    after: Annotated[int, Query(ge=0, le=_LARGEST, description="only those that follow this number")] = 0,
    limit: Annotated[
        int, Query(ge=1, le=MOST_EVENTS, description="the largest number of items of a page; a stream has them all")
    ] = MOST_EVENTS,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=_LARGEST, description="the same, as a listener sends it when it connects again")
    ] = None,
) -> Any:
    """What happened in a session, and with `Accept: text/event-stream` what happens now."""
    start = max(after, last_event_id or 0)
    if "text/event-stream" in request.headers.get("accept", ""):
        streams: Streams = request.app.state.streams
        await anyio.to_thread.run_sync(coordinator.session, caller.user, id)  # NotFound before the stream begins
        if streams.open[caller.user.name] >= _MOST_OF_ONE:
            told = f"at most {_MOST_OF_ONE} streams at once are open to a user"
            raise HTTPException(429, told, {"Retry-After": "10"})
        unbuffered = {"X-Accel-Buffering": "no"}  # for proxies
        return EventStream(streams.follow(coordinator, caller, id, start), headers=unbuffered)
    found = await anyio.to_thread.run_sync(coordinator.events, caller.user, id, start, limit)
    full = len(found) >= limit
    return Page[Event](items=tuple(found), next=found[-1].number if full else None)
