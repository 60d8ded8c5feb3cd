"""Calls that are declared once, as coroutines, and become methods of both clients.

    class Calls:
        @call
        async def me(self) -> Account: ...

makes `AsyncClient.me()`, and `Client.me() -> Account`. `@stream` makes iterators of events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from masquerade.errors import PeerError, Problem
from masquerade.service.resources import Account, Event, Session
from masquerade.service.session_states import Status

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)


class Synchronous(ABC):
    """A client whose calls return their results."""

    @abstractmethod
    def _run(self, calling: Coroutine[Any, Any, Result]) -> Result: ...

    @abstractmethod
    def _iterate(self, events: AsyncGenerator[Event, None]) -> Iterator[Event]: ...


class Asynchronous(ABC):
    """A client whose calls are awaited."""

    @abstractmethod
    def _run(self, calling: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]: ...

    @abstractmethod
    def _iterate(self, events: AsyncGenerator[Event, None]) -> AsyncIterator[Event]: ...


class Call(Protocol[Parameters, Returned]):
    """A method with one result."""

    @overload
    def __get__(self, client: Synchronous, kind: type) -> Callable[Parameters, Returned]: ...
    @overload
    def __get__(
        self, client: Asynchronous, kind: type
    ) -> Callable[Parameters, Coroutine[Any, Any, Returned]]: ...


class Stream(Protocol[Parameters]):
    """A method whose events are iterated over."""

    @overload
    def __get__(self, client: Synchronous, kind: type) -> Callable[Parameters, Iterator[Event]]: ...
    @overload
    def __get__(self, client: Asynchronous, kind: type) -> Callable[Parameters, AsyncIterator[Event]]: ...


def call(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]],
) -> Call[Parameters, Result]:
    """Declare a call with one result."""
    declared: Call[Parameters, Result] = _declared(method, "_run")
    return declared


def stream(method: Callable[Concatenate[Any, Parameters], AsyncGenerator[Event, None]]) -> Stream[Parameters]:
    """Declare a call whose events are iterated over."""
    declared: Stream[Parameters] = _declared(method, "_iterate")
    return declared


def _declared(method: Callable[..., Any], runner: str) -> Any:
    @wraps(method)
    def declared(client: object, *arguments: Any, **named: Any) -> Any:
        return getattr(client, runner)(method(client, *arguments, **named))

    return declared


# --- results ------------------------------------------------------------------------------------------------
# Results that are not API resources: the user's account, and the failure of a session by a party.


class Me(Account):
    """The user's account; `now` is the coordinator's clock time."""

    now: datetime | None


class SessionFailed(PeerError):
    """A session failed because of a party; `peer` names it, `session` is the session's final state."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.failed_by or "", *map(Problem, session.problems))
        self.session = session


def unless_failed(session: Session) -> Session:
    """Return the session; raise SessionFailed if a party was unreachable, misidentified, or broke the protocol."""
    if session.status is Status.FAILED and session.failed_by is not None:
        raise SessionFailed(session)
    return session
