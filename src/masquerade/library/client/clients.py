"""The two clients: each runs the scripts of calls.py in its own way, over httpx."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from masquerade.errors import ParameterError, PeerError
from masquerade.library.client.address import Address
from masquerade.library.client.calls import Calls
from masquerade.library.client.declared import Asynchronous, Synchronous
from masquerade.library.client.exchange import Answer, Ask, Reply, Script, Step
from masquerade.library.client.signed_in import Caller
from masquerade.service.resources import Event

if TYPE_CHECKING:
    import httpx

_TOKEN = "MASQUERADE_TOKEN"  # noqa: S105 # where a token is looked for

Result = TypeVar("Result")


class _Connected(Calls):
    """What both kinds of clients hold: who asks, of whom, and how it travels."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
    ) -> None:
        try:
            from masquerade.library.client import transport
        except ModuleNotFoundError as error:
            raise ParameterError(f'the client needs {error.name}: pip install "masquerade[client]"') from None
        if token is None and user is None:
            token = os.environ.get(_TOKEN, "").strip() or None
        self._caller = Caller(token, user, password)
        self._address = Address.read(url)
        self._closed = False
        self._connect(**transport.options(self._address, ca))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.base!r})"

    def _connect(self, **options: Any) -> None:
        raise NotImplementedError


class Client(_Connected, Synchronous):
    """A user's connection to a coordinator.

    `url` is the coordinator's; `token` an API token, or else the one in MASQUERADE_TOKEN, or `user` and `password`
    sign in when first needed. `ca` pins the authority, or the very certificate, that the coordinator must show; without
    it the system's trust decides. A token never travels over plain http to another machine.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Sign out, where a password signed in, and let go of the connections."""
        try:
            self._run(self._caller.sign_out())
        finally:
            self._closed = True
            self._http.close()

    def _connect(self, **options: Any) -> None:
        import httpx

        self._http = httpx.Client(**options)

    def _run(self, script: Script[Result]) -> Result:
        with closing(_Run(self, script)) as run:
            while run.next_event() is not None:
                pass  # they are for whoever watches
            return run.result

    def _watch(self, script: Script[None]) -> Iterator[Event]:
        with closing(_Run(self, script)) as run:
            while (event := run.next_event()) is not None:
                yield event


class AsyncClient(_Connected, Asynchronous):
    """A user's connection to a coordinator, for asyncio: `Client`'s methods, awaited; `watch` is an async iterator.

    async with mq.AsyncClient("https://coordinator.example:8080") as client:
        session = await client.request("client.toml")
        async for event in client.watch(session.id):
            print(event.kind, event.data)
        frame = await client.table(session.id)
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Sign out, where a password signed in, and let go of the connections."""
        try:
            await self._run(self._caller.sign_out())
        finally:
            self._closed = True
            await self._http.aclose()

    def _connect(self, **options: Any) -> None:
        import httpx

        self._http = httpx.AsyncClient(**options)

    async def _run(self, script: Script[Result]) -> Result:
        async with aclosing(_AsyncRun(self, script)) as run:
            while await run.next_event() is not None:
                pass  # they are for whoever watches
            return run.result

    async def _watch(self, script: Script[None]) -> AsyncIterator[Event]:
        async with aclosing(_AsyncRun(self, script)) as run:
            while (event := await run.next_event()) is not None:
                yield event


class _Stepping(Generic[Result]):
    """A script on its way, and the answer that is open."""

    result: Result

    def __init__(self, client: _Connected, script: Script[Result]) -> None:
        self._client, self._script = client, script
        self._reply: Reply = None
        self._response: httpx.Response | None = None
        self._chunks: Any = None

    def _step(self) -> Step | None:
        """The next step; None at the end, when there is a result."""
        reply, self._reply = self._reply, None
        try:
            return self._script.send(reply)
        except StopIteration as done:
            self.result = done.value
            return None

    def _prepared(self, ask: Ask) -> dict[str, Any]:
        from masquerade.library.client.transport import request_options

        if self._client._closed:
            raise ParameterError("this client is closed; make another one to ask more")
        return request_options(self._client._address, ask)

    def _answer(self, body: bytes = b"") -> Answer:
        from masquerade.library.client.transport import answer_of

        assert self._response is not None
        return answer_of(self._response, body)

    def _failure(self, error: httpx.HTTPError) -> PeerError:
        from masquerade.library.client.transport import failure

        return failure(error, self._client._address, answered=self._response is not None)


class _Run(_Stepping[Result]):
    _client: Client

    def next_event(self) -> Event | None:
        """Go on to the next event; None when all is done."""
        while (step := self._step()) is not None:
            if isinstance(step, Event):
                return step
            if isinstance(step, int | float):
                time.sleep(step)
            else:
                self._reply = self._exchange(step if isinstance(step, Ask) else None)
        return None

    def _exchange(self, ask: Ask | None) -> Answer | bytes | PeerError:
        """Send a request; without one, read on in the answer that is open."""
        import httpx

        try:
            if ask is None:
                return next(self._chunks, b"")
            self._let_go()
            http = self._client._http
            self._response = http.send(http.build_request(**self._prepared(ask)), stream=True)
            if ask.streamed and self._response.is_success:
                self._chunks = self._response.iter_bytes()
                return self._answer()
            return self._answer(self._response.read())
        except httpx.HTTPError as error:
            return self._failure(error)

    def _let_go(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def close(self) -> None:
        """End the script and the answer that is open."""
        self._script.close()
        self._let_go()


class _AsyncRun(_Stepping[Result]):
    _client: AsyncClient

    async def next_event(self) -> Event | None:
        """Go on to the next event; None when all is done."""
        while (step := self._step()) is not None:
            if isinstance(step, Event):
                return step
            if isinstance(step, int | float):
                await asyncio.sleep(step)
            else:
                self._reply = await self._exchange(step if isinstance(step, Ask) else None)
        return None

    async def _exchange(self, ask: Ask | None) -> Answer | bytes | PeerError:
        """Send a request; without one, read on in the answer that is open."""
        import httpx

        try:
            if ask is None:
                return await anext(self._chunks, b"")
            await self._let_go()
            http = self._client._http
            self._response = await http.send(http.build_request(**self._prepared(ask)), stream=True)
            if ask.streamed and self._response.is_success:
                self._chunks = self._response.aiter_bytes()
                return self._answer()
            return self._answer(await self._response.aread())
        except httpx.HTTPError as error:
            return self._failure(error)

    async def _let_go(self) -> None:
        if self._response is not None:
            await self._response.aclose()
            self._response = None

    async def aclose(self) -> None:
        """End the script and the answer that is open."""
        self._script.close()
        await self._let_go()
