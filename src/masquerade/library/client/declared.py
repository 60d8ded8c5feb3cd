"""Calls that are declared once, as scripts, and become methods of both clients.

    class Calls:
        @call
        def me(self) -> Script[Account]: ...

makes `Client.me() -> Account`, and `AsyncClient.me()`, a coroutine of the same. `@stream` makes iterators of events.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from masquerade.library.client.exchange import Script
from masquerade.service.resources import Event

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)


class Synchronous(ABC):
    """A client that runs scripts at once."""

    @abstractmethod
    def _run(self, script: Script[Result]) -> Result: ...

    @abstractmethod
    def _watch(self, script: Script[None]) -> Iterator[Event]: ...


class Asynchronous(ABC):
    """A client whose runs are awaited."""

    @abstractmethod
    async def _run(self, script: Script[Result]) -> Result: ...

    @abstractmethod
    def _watch(self, script: Script[None]) -> AsyncIterator[Event]: ...


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


def call(script: Callable[Concatenate[Any, Parameters], Script[Result]]) -> Call[Parameters, Result]:
    """Declare a call with one result."""
    made: Call[Parameters, Result] = _method(script, "_run")
    return made


def stream(script: Callable[Concatenate[Any, Parameters], Script[None]]) -> Stream[Parameters]:
    """Declare a call whose events are iterated over."""
    made: Stream[Parameters] = _method(script, "_watch")
    return made


def _method(script: Callable[..., Script[Any]], runner: str) -> Any:
    """A method that makes a script and lets the client run it."""

    @wraps(script)
    def method(client: object, *arguments: Any, **named: Any) -> Any:
        return getattr(client, runner)(script(client, *arguments, **named))

    told = inspect.signature(script)
    result = str(told.return_annotation).removeprefix("Script[").removesuffix("]")
    method.__dict__["__signature__"] = told.replace(
        return_annotation=result if runner == "_run" else "Iterator[Event]"
    )
    return method
