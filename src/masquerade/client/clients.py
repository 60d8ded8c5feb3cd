"""The two clients. Both use the coroutines of calls.py: one leaves them to be awaited, the other runs them at once."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from masquerade.client.calls import Asynchronous, Calls, Synchronous
from masquerade.client.transport import Address, AsyncHttpTransport, Caller, HttpTransport
from masquerade.errors import Bug, ParameterError
from masquerade.service import Event

_TOKEN = "MASQUERADE_TOKEN"  # noqa: S105 # the environment variable that holds a token

Result = TypeVar("Result")


class _Connected(Calls):
    """A user's connection to a coordinator, over a transport of transport.py."""

    _kind: type[HttpTransport] | type[AsyncHttpTransport]

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
        identity: str | Path | None = None,
    ) -> None:
        if token is None and user is None:
            token = os.environ.get(_TOKEN, "").strip() or None
        self._address = Address.read(url)
        try:
            self._transport: Any = self._kind(self._address, ca)
        except ModuleNotFoundError as error:
            raise ParameterError(f'the client needs {error.name}: pip install "masquerade[client]"') from None
        self._caller = Caller(self._transport, token, user, password)
        self._identity = Path(identity) if identity is not None else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.base!r})"


class Client(_Connected, Synchronous):
    """A user's connection to a coordinator.

    `url` is the coordinator's; `token` an API token, or else the one in MASQUERADE_TOKEN, or `user` and `password`
    sign in when first needed. `ca` pins the authority, or the very certificate, that the coordinator must show; without
    it the system's trust decides. `identity` is the folder of a key and certificate of the user's own, which sign
    requests for the parties. A token never travels over plain http to another machine.
    """

    _kind = HttpTransport

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Sign out, if a password was used to sign in, and close the connections."""
        try:
            self._run(self._caller.sign_out())
        finally:
            self._transport.close()

    def _run(self, calling: Coroutine[Any, Any, Result]) -> Result:
        return _at_once(calling)

    def _iterate(self, events: AsyncGenerator[Event, None]) -> Iterator[Event]:
        try:
            while True:
                try:
                    yield _at_once(anext(events))
                except StopAsyncIteration:
                    return
        finally:
            _at_once(events.aclose())


class AsyncClient(_Connected, Asynchronous):
    """A user's connection to a coordinator, for asyncio: `Client`'s methods, awaited; `watch` is an async iterator.

    async with mq.AsyncClient("https://coordinator.example:8080") as client:
        session = await client.request("client.toml")
        async for event in client.watch(session.id):
            print(event.kind, event.data)
        frame = await client.table(session.id)
    """

    _kind = AsyncHttpTransport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Sign out, if a password was used to sign in, and close the connections."""
        try:
            await self._caller.sign_out()
        finally:
            await self._transport.close()

    def _run(self, calling: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]:
        return calling

    def _iterate(self, events: AsyncGenerator[Event, None]) -> AsyncIterator[Event]:
        return events


def _at_once(calling: Awaitable[Result]) -> Result:
    """Run a coroutine to its end. It never suspends, because a synchronous transport blocks until it has the answer."""
    waiting = calling.__await__()
    try:
        next(waiting)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise Bug("a synchronous client waits for something else than its transport")
