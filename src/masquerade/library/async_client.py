"""`AsyncClient`: what `Client` does, for asyncio.

async with mq.AsyncClient("https://coordinator.example:8080") as client:
    session = await client.request("client.toml")
    async for event in client.watch(session.id):
        print(event.kind, event.data)
    frame = await client.table(session.id)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from masquerade.errors import PeerError
from masquerade.library.client_calls import Wish
from masquerade.library.client_connection import Connected, OnEvent
from masquerade.library.client_core import Answer, Ask, Script, refusal
from masquerade.library.client_events import PATIENCE, Following
from masquerade.library.client_results import (
    AWAITING_CLIENT,
    Account,
    Event,
    Offer,
    Preview,
    Provider,
    Release,
    Session,
    unless_failed,
)

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")


class AsyncClient(Connected):
    """A user's connection to a coordinator, for asyncio: `Client`'s methods, awaited; `watch` is an async iterator."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
    ) -> None:
        super().__init__(url, token, user=user, password=password, ca=ca)
        import httpx

        self._connection = httpx.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Sign out, where a password signed in, and let go of the connections."""
        try:
            await self._run(self._calls.leave())
        finally:
            self._closed = True
            await self._connection.aclose()

    async def me(self) -> Account:
        """Who asks, and with which role."""
        return await self._run(self._calls.me())

    async def providers(self) -> tuple[Provider, ...]:
        """The parties that this user may ask, with the schemas of their datasets."""
        return await self._run(self._calls.providers())

    async def preview(self, request: Wish) -> Preview:
        """What a request would come to; nothing is asked of anybody yet."""
        return await self._run(self._calls.preview(request))

    async def request(self, request: Wish) -> Session:
        """Ask for a table: a dictionary, a TOML file (its [request]) or a Request. The session begins at once."""
        return await self._run(self._calls.request(request))

    async def session(self, session: str) -> Session:
        """How a session stands."""
        return await self._run(self._calls.session(session))

    async def sessions(
        self, *, status: str | None = None, limit: int = 50, everyone: bool = False
    ) -> list[Session]:
        """The newest sessions that concern this user; an admin may ask for everyone's."""
        return await self._run(self._calls.sessions(status, limit, everyone))

    async def watch(
        self, session: str, *, after: int = 0, patience: float = PATIENCE
    ) -> AsyncIterator[Event]:
        """The events of a session as they happen, from its first (or after number `after`) to its last.

        A broken connection is taken up again where it broke; PeerUnreachable after `patience` seconds of silence.
        """
        following = Following(session, after, patience)
        while not following.is_over():
            try:
                is_final = (await self.session(session)).final  # and our token holds, however long this takes
                async with self._stream(following.ask()) as chunks:
                    async for chunk in chunks:
                        for event in following.feed(chunk):
                            yield event
                        if following.is_over():
                            return
                pause = following.ended(is_final)
            except PeerError as error:
                pause = following.broke(error)
            await asyncio.sleep(pause)

    async def wait(
        self, session: str, on_event: OnEvent | None = None, *, patience: float = PATIENCE
    ) -> Session:
        """The session once it has ended, or waits for its client's word (`awaiting_client`).

        SessionFailed, a PeerError, when it failed because of a party; it has the session.
        """
        events: Any = self.watch(session, patience=patience)
        try:
            async for event in events:
                if on_event is not None:
                    on_event(event)
                if event.status == AWAITING_CLIENT:
                    now = await self.session(
                        session
                    )  # the event may be of a time before the client's last word
                    if now.status == AWAITING_CLIENT:
                        return now
        finally:
            await events.aclose()
        return unless_failed(await self.session(session))

    async def offers(self, session: str) -> tuple[Offer, ...]:
        """What each party answered in each round of the negotiation."""
        return await self._run(self._calls.offers(session))

    async def contract(self, session: str) -> dict[str, Any] | None:
        """The contract that all parties signed; None while there is none."""
        return await self._run(self._calls.contract(session))

    async def cancel(self, session: str) -> Session:
        """End a session; Conflict when it has ended already."""
        return await self._run(self._calls.cancel(session))

    async def accept(self, session: str) -> Session:
        """Take the release although it missed the wished quality."""
        return await self._run(self._calls.decide(session, "accept"))

    async def relax(self, session: str, request: Wish) -> Session:
        """Ask again, for less; what the parties refuse leaves the release that missed the wished quality waiting."""
        return await self._run(self._calls.decide(session, "relax", request))

    async def withdraw(self, session: str) -> Session:
        """Do without the release."""
        return await self._run(self._calls.decide(session, "withdraw"))

    async def release(self, session: str) -> Release:
        """What is known of a published table: rows, digests, summary."""
        return await self._run(self._calls.release(session))

    async def table(self, session: str) -> pa.Table:
        """The published table; pandas, polars and DuckDB take it as it is."""
        return await self._run(self._calls.table(session))

    async def download(self, session: str, path: str | Path) -> Release:
        """Write the published table to a file, .csv or .parquet: all of it, or no file."""
        return await self._run(self._calls.download(session, path))

    async def report(self, session: str, path: str | Path) -> Path:
        """Write the release's report to a file."""
        return await self._run(self._calls.report(session, path))

    async def _run(self, script: Script[Result]) -> Result:
        reply: Any = None
        with closing(script):
            while True:
                try:
                    step = script.send(reply)
                except StopIteration as done:
                    value: Result = done.value
                    return value
                if isinstance(step, Ask):
                    reply = await self._exchange(step)
                else:
                    await asyncio.sleep(step)

    async def _exchange(self, ask: Ask) -> Answer | PeerError:
        import httpx

        from masquerade.library.client_http import answer_of, failure

        answered = False
        try:
            async with self._connection.stream(**self._prepared(ask)) as response:
                answered = True
                if ask.sink is None or not response.is_success:
                    return answer_of(response, await response.aread())
                async for chunk in response.aiter_bytes():
                    ask.sink(chunk)
                return answer_of(response)
        except httpx.HTTPError as error:
            return failure(error, self._calls.address, answered=answered)

    @asynccontextmanager
    async def _stream(self, ask: Ask) -> AsyncIterator[AsyncIterator[bytes]]:
        import httpx

        from masquerade.library.client_http import answer_of, failure

        answered = False
        try:
            async with self._connection.stream(**self._prepared(self._calls.signed(ask))) as response:
                answered = True
                if not response.is_success:
                    error = refusal(answer_of(response, await response.aread()))
                    assert error is not None
                    raise error
                yield response.aiter_bytes()
        except httpx.HTTPError as error:
            raise failure(error, self._calls.address, answered=answered) from None
