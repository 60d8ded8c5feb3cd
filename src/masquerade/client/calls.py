"""A client's calls, each declared once: the request to the coordinator and the result of its answer."""

from __future__ import annotations

import hashlib
import io
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import msgspec

from masquerade.client.events import PATIENCE, Following
from masquerade.client.transport import COORDINATOR, Ask, Caller, read, told_date
from masquerade.errors import NotFound, ParameterError, PeerBrokeProtocol, PeerError, Problem, shown
from masquerade.service import (
    Account,
    Decision,
    Event,
    IssuedToken,
    Page,
    PartyOffer,
    Provider,
    PublishedRelease,
    RequestPreview,
    Session,
    Status,
    Token,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from masquerade.service import Request


# --- declared calls -----------------------------------------------------------------------------------------
# Calls that are declared once, as coroutines, and become methods of both clients.
#
#     class Calls:
#         @call
#         async def me(self) -> Account: ...
#
# makes `AsyncClient.me()`, and `Client.me() -> Account`. `@stream` makes iterators of events.

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
    def __get__(self, client: Asynchronous, kind: type) -> Callable[Parameters, Coroutine[Any, Any, Returned]]: ...


class EventsCall(Protocol[Parameters]):
    """A method whose events are iterated over."""

    @overload
    def __get__(self, client: Synchronous, kind: type) -> Callable[Parameters, Iterator[Event]]: ...
    @overload
    def __get__(self, client: Asynchronous, kind: type) -> Callable[Parameters, AsyncIterator[Event]]: ...


def call(method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]]) -> Call[Parameters, Result]:
    """Declare a call with one result."""
    declared: Call[Parameters, Result] = _declared(method, "_run")
    return declared


def stream(method: Callable[Concatenate[Any, Parameters], AsyncGenerator[Event, None]]) -> EventsCall[Parameters]:
    """Declare a call whose events are iterated over."""
    declared: EventsCall[Parameters] = _declared(method, "_iterate")
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


# --- requests -----------------------------------------------------------------------------------------------
# A client's request in any of its forms, converted to what is sent to the coordinator.

Wish: TypeAlias = "Mapping[str, Any] | str | Path | Request"
"""A request: its keys and values, a TOML file that has them (in [request], or alone), or a Request."""


def whole_request(wish: Wish) -> dict[str, Any]:
    """Return a complete request as sent; raise ParameterError with every problem before anything is sent."""
    from masquerade.service import Request, read_request

    if isinstance(wish, Request):
        return wish.content()
    if not isinstance(wish, str | Path):
        return read_request(wish).content()
    content = read_configuration(Path(wish))
    if "request" not in content:
        return read_request(content, str(wish)).content()
    try:
        return read_request(content["request"], str(wish)).content()
    except ParameterError as error:
        raise ParameterError(*(each.at(key=("request", *each.key)) for each in error.problems)) from None


def keys_of(wish: Wish) -> dict[str, Any]:
    """Return some keys of a request as sent, unchecked."""
    from masquerade.service import Request

    if isinstance(wish, Request):
        return wish.content()
    if isinstance(wish, str | Path):
        content = read_configuration(Path(wish))
        wish = content.get("request", content)
    if not isinstance(wish, Mapping):
        raise ParameterError("request: must be a table of keys and values")
    try:
        sent: dict[str, Any] = msgspec.to_builtins({key: _sendable(value) for key, value in wish.items()})
    except (TypeError, RecursionError):
        raise ParameterError("request: holds a value that JSON cannot say") from None
    return sent


def placed(problems: Iterable[Problem], wish: Wish | None) -> tuple[Problem, ...]:
    """Locate the coordinator's objections to a request in its file: `client.toml: request.class: …`."""
    if not isinstance(wish, str | Path):
        return tuple(problems)
    section = ("request",) if "request" in read_configuration(Path(wish)) else ()
    return tuple(
        each.at(source=str(wish), key=(*section, *each.key)) if is_of_request(each) else each.within(str(wish))
        for each in problems
    )


def is_of_request(problem: Problem) -> bool:
    """Return whether a problem concerns a key of the request."""
    return bool(problem.key) and problem.source in ("", "request")


def read_configuration(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    from masquerade.forms import read_toml

    return read_toml(path, "file", ParameterError)


def _sendable(value: Any) -> Any:
    """Convert a time with a zone, which JSON cannot express, to seconds since 1970."""
    is_moment = isinstance(value, datetime) and value.tzinfo is not None
    return int(value.timestamp()) if is_moment else value


# --- calls --------------------------------------------------------------------------------------------------

MOST_PAGE = 200
OnEvent = Callable[[Event], object]
Item = TypeVar("Item")

MODEL_SUFFIX = ".json"
_SESSION = re.compile("[0-9a-f]{32}")
_TOKEN = re.compile("[0-9a-f]{16}")


class Calls:
    """Every call, as a coroutine over a transport that the client chooses."""

    _caller: Caller
    _identity: Path | None  # of the key that signs requests

    @call
    async def me(self) -> Me:
        """Return the user's account and role."""
        answer = await self._caller.ask(Ask("GET", "/me"))
        return Me(**dict(read(answer, Account)), now=told_date(answer))

    @call
    async def providers(self) -> tuple[Provider, ...]:
        """Return the parties that this user may ask, with the schemas of their datasets."""
        return tuple(await self._listed("/providers", Page[Provider]))

    @call
    async def preview(self, request: Wish) -> RequestPreview:
        """Return what a request would lead to, and what the parties would answer to it now, without making it."""
        body = keys_of(request)
        with suppress(ParameterError):  # errors in the request are part of the answer
            body = await self._signed(body)
        ask = Ask("POST", "/previews", body=body)
        found = read(await self._caller.ask(ask), RequestPreview)
        return found.model_copy(update={"errors": placed(found.errors, request)})

    @call
    async def request(self, request: Wish, *, estimate: bool = False) -> Session:
        """Request a table: a dictionary, a TOML file (its [request]) or a Request. The session starts at once.

        With `estimate` it waits for `accept` or `withdraw` before anything is published, with losses and cost in
        `missed`; otherwise it does so where a column would lose nearly all, or the wished quality is missed.
        """
        content = whole_request(request) | ({"estimate": True} if estimate else {})
        ask = Ask("POST", "/sessions", body=await self._signed(content))
        try:
            return read(await self._caller.ask(ask), Session)
        except ParameterError as error:
            raise ParameterError(*placed(error.problems, request)) from None

    @call
    async def session(self, session: str) -> Session:
        """Return a session's current state."""
        return await self._session(session)

    @call
    async def sessions(self, *, status: str | None = None, limit: int = 50, everyone: bool = False) -> list[Session]:
        """Return the newest sessions that concern this user; an admin may ask for everyone's."""
        if not isinstance(limit, int) or limit < 1:
            raise ParameterError(f"limit: must be a whole number of at least 1; got {limit!r}")
        query: dict[str, str | int] = {"status": status} if status is not None else {}
        query |= {"everyone": "true"} if everyone else {}
        return await self._listed("/sessions", Page[Session], query, limit)

    @stream
    def watch(self, session: str, *, after: int = 0, patience: float = PATIENCE) -> AsyncGenerator[Event, None]:
        """Yield the events of a session as they happen, from its first (or after number `after`) to its last.

        A broken connection is resumed where it broke; PeerUnreachable after `patience` seconds of silence.
        """
        return self._events(session, after, patience)

    @call
    async def wait(self, session: str, on_event: OnEvent | None = None, *, patience: float = PATIENCE) -> Session:
        """Wait until the session ends or needs a decision by its client (`awaiting_client`), and return it.

        Raise SessionFailed, a PeerError that carries the session, if it failed because of a party.
        """
        async with aclosing(self._events(session, 0, patience)) as events:
            async for event in events:
                if on_event is not None:
                    on_event(event)
                if event.status is Status.AWAITING_CLIENT:
                    now = await self._session(session)  # the event may predate the client's last decision
                    if now.status is Status.AWAITING_CLIENT:
                        return now
        return unless_failed(await self._session(session))

    @call
    async def offers(self, session: str) -> tuple[PartyOffer, ...]:
        """Return each party's answer in each round of the negotiation."""
        return tuple(await self._listed(_of(session, "/offers"), Page[PartyOffer]))

    @call
    async def contract(self, session: str) -> dict[str, Any] | None:
        """Return the contract that all parties signed; None before that."""
        try:
            answer = await self._caller.ask(Ask("GET", _of(session, "/contract")))
        except NotFound:
            await self._session(session)  # NotFound if the session itself does not exist
            return None
        return read(answer, dict[str, Any])

    @call
    async def cancel(self, session: str) -> Session:
        """End a session; Conflict if it has already ended."""
        return read(await self._caller.ask(Ask("POST", _of(session, "/cancel"))), Session)

    @call
    async def accept(self, session: str) -> Session:
        """Accept the release although it missed the requested quality."""
        return await self._decide(session, {"decision": Decision.ACCEPT})

    @call
    async def relax(self, session: str, request: Wish) -> Session:
        """Ask again, for less; if the parties refuse, the release that missed the requested quality keeps waiting."""
        changes = keys_of(request)
        if self._identity is not None:
            before = {key: each for key, each in (await self._session(session)).request.items() if key != "signed"}
            changes |= {"signed": (await self._signed({**before, **changes}))["signed"]}
        try:
            return await self._decide(session, {"decision": Decision.RELAX, "request": changes})
        except ParameterError as error:
            raise ParameterError(*placed(error.problems, request)) from None

    @call
    async def withdraw(self, session: str) -> Session:
        """Decline the release."""
        return await self._decide(session, {"decision": Decision.WITHDRAW})

    @call
    async def release(self, session: str) -> PublishedRelease:
        """Return the metadata of a published table: rows, digests, summary."""
        return await self._release(session)

    @call
    async def table(self, session: str) -> pa.Table:
        """Return the published table; pandas, polars and DuckDB can use it directly."""
        table, _, _ = await self._parquet(session)
        return table

    @call
    async def download(self, session: str, path: str | Path, *, escape_formulas: bool = False) -> PublishedRelease:
        """Write the table to a .csv or .parquet file, a model or an answer to .json; on failure no file is left.

        With `escape_formulas`, cells that a spreadsheet would run get an apostrophe in front; the digest is that of the
        table as published.
        """
        from masquerade.data import PARQUET_SUFFIXES, check_target
        from masquerade.files import replacing

        target = Path(path)
        if target.suffix.lower() != MODEL_SUFFIX:
            check_target(target)
        with replacing(target) as file:
            if target.suffix.lower() == MODEL_SUFFIX:
                release = await self._release(session)
                _compare(await self._fetched(_table_of(session, "json"), file), release.sha256, "file")
                return release
            if target.suffix.lower() in PARQUET_SUFFIXES:
                _, content, release = await self._parquet(session)
                file.write(content)
                return release
            if escape_formulas:
                from masquerade.data import encode_table, escape_formulas as escaped

                table, _, release = await self._parquet(session)
                encode_table(escaped(table), file, target.suffix)
                return release
            release = await self._release(session)
            digest = await self._fetched(_table_of(session, "csv"), file)
            _compare(digest, release.sha256)
            return release

    @call
    async def report(self, session: str, path: str | Path) -> Path:
        """Write the release's report, unchanged, to a file; on failure no file is left."""
        from masquerade.files import replacing

        target = Path(path)
        with replacing(target) as file:
            release = await self._release(session)
            ask = Ask("GET", _of(session, "/release/report"), accept="text/html")
            digest = await self._fetched(ask, file)
            _compare(digest, release.summary.get("report_sha256", digest), "report")
        return target

    @call
    async def tokens(self) -> tuple[Token, ...]:
        """Return the user's valid tokens, sign-ins among them."""
        return tuple(await self._listed("/tokens", Page[Token]))

    @call
    async def make_token(self, name: str, *, scopes: Sequence[str] | None = None, days: int = 90) -> IssuedToken:
        """Make a token for a program; without `scopes` it may read, request and download."""
        body: dict[str, Any] = {"name": name, "days": days}
        body |= {"scopes": list(scopes)} if scopes is not None else {}
        return read(await self._caller.ask(Ask("POST", "/tokens", body=body)), IssuedToken)

    @call
    async def revoke_token(self, id: str) -> None:
        """Make a token worthless, or end a sign-in."""
        if not _TOKEN.fullmatch(id):
            raise ParameterError(f"{shown(id)} is no token's identifier: that has 16 characters from 0-9 and a-f")
        await self._caller.ask(Ask("DELETE", f"/tokens/{id}"))

    # --- parts of calls ---

    async def _signed(self, content: dict[str, Any]) -> dict[str, Any]:
        """Sign a request with the user's own key, if there is one."""
        if self._identity is None:
            return content
        from masquerade.net import Identity
        from masquerade.service import read_request

        me = read(await self._caller.ask(Ask("GET", "/me")), Account)
        asked = read_request(content).asked_by(me.name)
        return asked.signed_by(Identity.load(self._identity), int(time.time())).content()

    async def _session(self, session: str) -> Session:
        return read(await self._caller.ask(Ask("GET", _of(session))), Session)

    async def _release(self, session: str) -> PublishedRelease:
        return read(await self._caller.ask(Ask("GET", _of(session, "/release"))), PublishedRelease)

    async def _decide(self, session: str, decision: dict[str, Any]) -> Session:
        ask = Ask("POST", _of(session, "/decision"), body=decision)
        return read(await self._caller.ask(ask), Session)

    async def _listed(
        self, path: str, kind: type[Page[Item]], query: dict[str, str | int] | None = None, most: int | None = None
    ) -> list[Item]:
        """Return the first `most` items of a list (None: all), fetched page by page."""
        found: list[Item] = []
        query = dict(query or {})
        while True:
            if most is not None:
                query["limit"] = min(most - len(found), MOST_PAGE)
            page = read(await self._caller.ask(Ask("GET", path, dict(query))), kind)
            found += page.items
            if page.next is None or not page.items or (most is not None and len(found) >= most):
                return found[:most]
            query["after"] = page.next

    async def _events(self, session: str, after: int, patience: float) -> AsyncGenerator[Event, None]:
        following = Following(session, after, patience)
        while not following.is_over():
            try:
                # This also shows that our token holds, however long it takes.
                is_final = (await self._session(session)).final
                async with aclosing(await self._chunks(following.ask())) as chunks:
                    async for chunk in chunks:
                        for event in following.feed(chunk):
                            yield event
                        if following.is_over():
                            return
                pause = following.ended(is_final)
            except PeerError as error:
                pause = following.broke(error)
            await self._caller.transport.sleep(pause)

    async def _chunks(self, ask: Ask) -> AsyncGenerator[bytes, None]:
        """Return the body of a successful answer as a stream."""
        answer = await self._caller.ask(replace(ask, streamed=True))
        assert answer.chunks is not None
        return answer.chunks

    async def _fetched(self, ask: Ask, file: BinaryIO) -> str:
        """Write the requested content to a file and return its SHA-256."""
        digest = hashlib.sha256()
        async with aclosing(await self._chunks(ask)) as chunks:
            async for chunk in chunks:
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()

    async def _parquet(self, session: str) -> tuple[pa.Table, bytes, PublishedRelease]:
        """Return the published table, its Parquet file and its metadata."""
        import pyarrow as pa
        import pyarrow.parquet

        from masquerade.data import csv_lines

        release = await self._release(session)
        content = io.BytesIO()
        await self._fetched(_table_of(session, "parquet"), content)
        digest = hashlib.sha256()
        try:
            # `read_table` releases it later, in another thread; a process that exits before that would be aborted.
            table = pyarrow.parquet.ParquetFile(content).read()
            for lines in csv_lines(table):
                digest.update(lines)
        except (pa.ArrowException, OSError, ValueError, ParameterError):
            raise PeerBrokeProtocol(COORDINATOR, "sent a table that is not Parquet") from None
        _compare(digest.hexdigest(), release.sha256)
        return table, content.getvalue(), release


def checked_session(session: object) -> str:
    """Check the form of a session's identifier before it is sent."""
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        told = shown(session) if isinstance(session, str) else repr(session)
        raise ParameterError(
            f"{told} is no session's identifier: that has 32 characters from 0-9 and a-f, as "
            "`masquerade sessions` shows it"
        )
    return session


def _of(session: str, rest: str = "") -> str:
    return f"/sessions/{checked_session(session)}{rest}"


def _table_of(session: str, kind: str) -> Ask:
    return Ask("GET", _of(session, "/release/table"), {"format": kind}, accept="*/*")


def _compare(digest: str, published: object, what: str = "table") -> None:
    if digest != published:
        raise PeerBrokeProtocol(
            COORDINATOR,
            f"sent another {what} than the one it published: its SHA-256 is {digest}, that of the release "
            f"{published}; nothing was kept, try again",
        )
