"""The calls of a client, each a script (client_core.py): what is asked of the coordinator, and what comes of it."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from masquerade.errors import NotFound, ParameterError, PeerBrokeProtocol, shown
from masquerade.library.client_core import COORDINATOR, Ask, Core, Script, date_told, read
from masquerade.library.client_results import Account, Offer, Preview, Provider, Release, Session

if TYPE_CHECKING:
    import pyarrow as pa

    from masquerade.service.request import Request

Wish: TypeAlias = "Mapping[str, Any] | str | Path | Request"
"""A request: its keys and values, a TOML file that has them (in [request], or alone), or a Request."""

MOST_PAGE = 200
_SESSION = re.compile("[0-9a-f]{32}")
_KEY = re.compile(r"(\w+)(?:[\[.][^:]*)?: (unknown key)?")  # what a problem of a request begins with


class _Providers(msgspec.Struct, frozen=True):
    items: tuple[Provider, ...]
    next: str | None = None


class _Sessions(msgspec.Struct, frozen=True):
    items: tuple[Session, ...]
    next: str | None = None


class _Offers(msgspec.Struct, frozen=True):
    items: tuple[Offer, ...]
    next: str | int | None = None


class Calls(Core):
    """Every call, as a script."""

    def me(self) -> Script[Account]:
        """Who asks."""
        answer = yield from self.ask(Ask("GET", "/me"))
        return msgspec.structs.replace(read(answer, Account), now=date_told(answer))

    def providers(self) -> Script[tuple[Provider, ...]]:
        """Everybody whom this user may ask, page after page."""
        found: list[Provider] = []
        query: dict[str, str | int] = {}
        while True:
            page = read((yield from self.ask(Ask("GET", "/providers", query))), _Providers)
            found += page.items
            if page.next is None or not page.items:
                return tuple(found)
            query = {"after": page.next}

    def preview(self, wish: Wish) -> Script[Preview]:
        """What a request would come to."""
        ask = Ask("POST", "/previews", body=keys_of(wish))  # what is wrong with it is part of the answer
        found = read((yield from self.ask(ask)), Preview)
        return msgspec.structs.replace(found, problems=placed(found.problems, wish))

    def request(self, wish: Wish) -> Script[Session]:
        """A new session."""
        ask = Ask("POST", "/sessions", body=content_of(wish))
        try:
            return read((yield from self.ask(ask)), Session)
        except ParameterError as error:
            raise ParameterError(*placed(error.lines, wish)) from None

    def session(self, session: str) -> Script[Session]:
        """How a session stands."""
        return read((yield from self.ask(Ask("GET", _of(session)))), Session)

    def sessions(self, status: str | None, limit: int, everyone: bool) -> Script[list[Session]]:
        """The newest sessions."""
        if not isinstance(limit, int) or limit < 1:
            raise ParameterError(f"limit: must be a whole number of at least 1; got {limit!r}")
        found: list[Session] = []
        query: dict[str, str | int] = {"status": status} if status is not None else {}
        query |= {"everyone": "true"} if everyone else {}
        while True:
            query["limit"] = min(limit - len(found), MOST_PAGE)
            page = read((yield from self.ask(Ask("GET", "/sessions", dict(query)))), _Sessions)
            found += page.items
            if page.next is None or not page.items or len(found) >= limit:
                return found[:limit]
            query["after"] = page.next

    def offers(self, session: str) -> Script[tuple[Offer, ...]]:
        """Who offered what, in order."""
        answer = yield from self.ask(Ask("GET", _of(session, "/offers")))
        return read(answer, _Offers).items

    def contract(self, session: str) -> Script[dict[str, Any] | None]:
        """The signed contract; None while there is none."""
        try:
            answer = yield from self.ask(Ask("GET", _of(session, "/contract")))
        except NotFound:
            yield from self.session(session)  # whether it is the session that there is not
            return None
        return read(answer, dict[str, Any])

    def cancel(self, session: str) -> Script[Session]:
        """End a session."""
        return read((yield from self.ask(Ask("POST", _of(session, "/cancel")))), Session)

    def decide(self, session: str, decision: str, wish: Wish | None = None) -> Script[Session]:
        """The client's word on a release that missed the wished quality."""
        body = {"decision": decision} | ({"request": keys_of(wish)} if wish is not None else {})
        try:
            return read((yield from self.ask(Ask("POST", _of(session, "/decision"), body=body))), Session)
        except ParameterError as error:
            raise ParameterError(*placed(error.lines, wish)) from None

    def release(self, session: str) -> Script[Release]:
        """What is known of a published table."""
        return read((yield from self.ask(Ask("GET", _of(session, "/release")))), Release)

    def table(self, session: str) -> Script[pa.Table]:
        """The published table, whole and as it was released."""
        table, _, _ = yield from self._parquet(session)
        return table

    def download(self, session: str, path: str | Path) -> Script[Release]:
        """The published table in a file: all of it, and as it was released, or no file."""
        from masquerade.data.source import PARQUET_SUFFIXES
        from masquerade.data.write import check_target
        from masquerade.files import replacing

        target = Path(path)
        check_target(target)
        with replacing(target) as file:
            if target.suffix.lower() in PARQUET_SUFFIXES:
                _, received, release = yield from self._parquet(session)
                file.write(received)
                return release
            digest = hashlib.sha256()

            def take(chunk: bytes) -> None:
                digest.update(chunk)
                file.write(chunk)

            release = yield from self.release(session)
            yield from self.ask(_table_of(session, "csv", take))
            _compare(digest.hexdigest(), release.sha256)
            return release

    def report(self, session: str, path: str | Path) -> Script[Path]:
        """The release's report in a file: all of it, and as it was written, or no file."""
        from masquerade.files import replacing

        target = Path(path)
        with replacing(target) as file:
            digest = hashlib.sha256()

            def take(chunk: bytes) -> None:
                digest.update(chunk)
                file.write(chunk)

            release = yield from self.release(session)
            yield from self.ask(Ask("GET", _of(session, "/release/report"), accept="text/html", sink=take))
            _compare(digest.hexdigest(), release.summary.get("report_sha256", digest.hexdigest()), "report")
        return target

    def _parquet(self, session: str) -> Script[tuple[pa.Table, bytes, Release]]:
        """The table and its bytes. The release's digest is that of its CSV: the same cells give the same lines."""
        import pyarrow as pa
        import pyarrow.parquet

        from masquerade.data.write import csv_lines

        release = yield from self.release(session)
        received = io.BytesIO()
        yield from self.ask(_table_of(session, "parquet", received.write))
        digest = hashlib.sha256()
        try:
            # `read_table` lets go of it in another thread, later: a process that ends by then would be aborted.
            table = pyarrow.parquet.ParquetFile(received).read()
            for lines in csv_lines(table):
                digest.update(lines)
        except (pa.ArrowException, OSError, ValueError, ParameterError):
            raise PeerBrokeProtocol(COORDINATOR, "sent a table that is not Parquet") from None
        _compare(digest.hexdigest(), release.sha256)
        return table, received.getvalue(), release


def _table_of(session: str, kind: str, sink: Callable[[bytes], object]) -> Ask:
    return Ask("GET", _of(session, "/release/table"), {"format": kind}, accept="*/*", sink=sink)


def _compare(digest: str, published: object, what: str = "table") -> None:
    if digest != published:
        raise PeerBrokeProtocol(
            COORDINATOR,
            f"sent another {what} than the one it published: its SHA-256 is {digest}, that of the release "
            f"{published}; nothing was kept, try again",
        )


def _of(session: str, rest: str = "") -> str:
    return f"/sessions/{checked_session(session)}{rest}"


def checked_session(session: object) -> str:
    """A session's identifier, before anybody is asked for it."""
    if not isinstance(session, str) or not _SESSION.fullmatch(session):
        told = shown(session) if isinstance(session, str) else repr(session)
        raise ParameterError(
            f"{told} is no session's identifier: that has 32 signs from 0-9 and a-f, as `masquerade sessions` shows it"
        )
    return session


def content_of(wish: Wish) -> dict[str, Any]:
    """A whole request as it is sent; ParameterError with every problem, before anything is."""
    from masquerade.service.request import Request, read_request

    if isinstance(wish, Request):
        return wish.content()
    if isinstance(wish, str | Path):
        content = read_configuration(Path(wish))
        if "request" in content:
            with _inside("request"):
                return read_request(content["request"], str(wish)).content()
        return read_request(content, str(wish)).content()
    return read_request(wish).content()


def keys_of(wish: Wish) -> dict[str, Any]:
    """Some keys of a request as they are sent, whatever they are."""
    from masquerade.service.request import Request

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


def placed(problems: Iterable[str], wish: Wish | None) -> tuple[str, ...]:
    """What the coordinator finds wrong with a request, as the file has it: `client.toml: request.class: …`."""
    from masquerade.service.request import Request

    if not isinstance(wish, str | Path):
        return tuple(problems)
    section = "request." if "request" in read_configuration(Path(wish)) else ""
    keys = {field.alias or name for name, field in Request.model_fields.items()}
    lines = []
    for problem in problems:
        said = problem.removeprefix("request: ")
        key = _KEY.match(said)
        named = key is not None and (key[1] in keys or key[2] == "unknown key")
        lines.append(f"{wish}: {section if named else ''}{said if named else problem}")
    return tuple(lines)


def _sendable(value: Any) -> Any:
    """Seconds since 1970 for a moment with its zone, which JSON cannot say."""
    is_moment = isinstance(value, datetime) and value.tzinfo is not None
    return int(value.timestamp()) if is_moment else value


@contextmanager
def _inside(section: str) -> Iterator[None]:
    """Name the section too: `client.toml: purpose: …` becomes `client.toml: request.purpose: …`."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(*(each.at(key=(section, *each.key)) for each in error.problems)) from None


def read_configuration(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    from masquerade.forms.toml import read_toml

    return read_toml(path, "file", ParameterError)
