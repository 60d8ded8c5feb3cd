"""`Client` and `AsyncClient`: ask a coordinator for an integrated table, watch it being made, take it home.

    import masquerade as mq
    with mq.Client("https://coordinator.example:8080") as client:      # the token from MASQUERADE_TOKEN
        session = client.request("client.toml")
        for event in client.watch(session.id):
            print(event.kind, event.data)
        frame = client.table(session.id)                               # a pyarrow.Table

`AsyncClient` (async_client.py) has the same methods, to be awaited. Failures are the errors of `masquerade.errors`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from masquerade.errors import PeerError
from masquerade.library.async_client import AsyncClient
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

__all__ = ["AsyncClient", "Client"]

Result = TypeVar("Result")


class Client(Connected):
    """A user's connection to a coordinator.

    `url` is the coordinator's; `token` an API token, or else the one in MASQUERADE_TOKEN, or `user` and `password`
    sign in when first needed. `ca` pins the authority, or the very certificate, that the coordinator must show; without
    it the system's trust decides. A token never travels over plain http to another machine.
    """

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

        self._connection = httpx.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Sign out, where a password signed in, and let go of the connections."""
        try:
            self._run(self._calls.leave())
        finally:
            self._closed = True
            self._connection.close()

    def me(self) -> Account:
        """Who asks, and with which role."""
        return self._run(self._calls.me())

    def providers(self) -> tuple[Provider, ...]:
        """The parties that this user may ask, with the schemas of their datasets."""
        return self._run(self._calls.providers())

    def preview(self, request: Wish) -> Preview:
        """What a request would come to; nothing is asked of anybody yet."""
        return self._run(self._calls.preview(request))

    def request(self, request: Wish) -> Session:
        """Ask for a table: a dictionary, a TOML file (its [request]) or a Request. The session begins at once."""
        return self._run(self._calls.request(request))

    def session(self, session: str) -> Session:
        """How a session stands."""
        return self._run(self._calls.session(session))

    def sessions(
        self, *, status: str | None = None, limit: int = 50, everyone: bool = False
    ) -> list[Session]:
        """The newest sessions that concern this user; an admin may ask for everyone's."""
        return self._run(self._calls.sessions(status, limit, everyone))

    def watch(self, session: str, *, after: int = 0, patience: float = PATIENCE) -> Iterator[Event]:
        """The events of a session as they happen, from its first (or after number `after`) to its last.

        A broken connection is taken up again where it broke; PeerUnreachable after `patience` seconds of silence.
        """
        following = Following(session, after, patience)
        while not following.is_over():
            try:
                is_final = self.session(session).final  # and our token holds, however long this takes
                with self._stream(following.ask()) as chunks:
                    for chunk in chunks:
                        yield from following.feed(chunk)
                        if following.is_over():
                            return
                pause = following.ended(is_final)
            except PeerError as error:
                pause = following.broke(error)
            time.sleep(pause)

    def wait(self, session: str, on_event: OnEvent | None = None, *, patience: float = PATIENCE) -> Session:
        """The session once it has ended, or waits for its client's word (`awaiting_client`).

        SessionFailed, a PeerError, when it failed because of a party; it has the session.
        """
        with closing(self.watch(session, patience=patience)) as events:  # type: ignore[type-var] # a generator
            for event in events:
                if on_event is not None:
                    on_event(event)
                if event.status == AWAITING_CLIENT:
                    now = self.session(session)  # the event may be of a time before the client's last word
                    if now.status == AWAITING_CLIENT:
                        return now
        return unless_failed(self.session(session))

    def offers(self, session: str) -> tuple[Offer, ...]:
        """What each party answered in each round of the negotiation."""
        return self._run(self._calls.offers(session))

    def contract(self, session: str) -> dict[str, Any] | None:
        """The contract that all parties signed; None while there is none."""
        return self._run(self._calls.contract(session))

    def cancel(self, session: str) -> Session:
        """End a session; Conflict when it has ended already."""
        return self._run(self._calls.cancel(session))

    def accept(self, session: str) -> Session:
        """Take the release although it missed the wished quality."""
        return self._run(self._calls.decide(session, "accept"))

    def relax(self, session: str, request: Wish) -> Session:
        """Ask again, for less; what the parties refuse leaves the release that missed the wished quality waiting."""
        return self._run(self._calls.decide(session, "relax", request))

    def withdraw(self, session: str) -> Session:
        """Do without the release."""
        return self._run(self._calls.decide(session, "withdraw"))

    def release(self, session: str) -> Release:
        """What is known of a published table: rows, digests, summary."""
        return self._run(self._calls.release(session))

    def table(self, session: str) -> pa.Table:
        """The published table; pandas, polars and DuckDB take it as it is."""
        return self._run(self._calls.table(session))

    def download(self, session: str, path: str | Path) -> Release:
        """Write the published table to a file, .csv or .parquet: all of it, or no file."""
        return self._run(self._calls.download(session, path))

    def report(self, session: str, path: str | Path) -> Path:
        """Write the release's report to a file."""
        return self._run(self._calls.report(session, path))

    def _run(self, script: Script[Result]) -> Result:
        reply: Any = None
        with closing(script):
            while True:
                try:
                    step = script.send(reply)
                except StopIteration as done:
                    value: Result = done.value
                    return value
                if isinstance(step, Ask):
                    reply = self._exchange(step)
                else:
                    time.sleep(step)

    def _exchange(self, ask: Ask) -> Answer | PeerError:
        import httpx

        from masquerade.library.client_http import answer_of, failure

        answered = False
        try:
            with self._connection.stream(**self._prepared(ask)) as response:
                answered = True
                if ask.sink is None or not response.is_success:
                    return answer_of(response, response.read())
                for chunk in response.iter_bytes():
                    ask.sink(chunk)
                return answer_of(response)
        except httpx.HTTPError as error:
            return failure(error, self._calls.address, answered=answered)

    @contextmanager
    def _stream(self, ask: Ask) -> Iterator[Iterator[bytes]]:
        import httpx

        from masquerade.library.client_http import answer_of, failure

        answered = False
        try:
            with self._connection.stream(**self._prepared(self._calls.signed(ask))) as response:
                answered = True
                if not response.is_success:
                    error = refusal(answer_of(response, response.read()))
                    assert error is not None
                    raise error
                yield response.iter_bytes()
        except httpx.HTTPError as error:
            raise failure(error, self._calls.address, answered=answered) from None
