"""A client's configuration: the coordinator's address, the user's token, and the request.

    coordinator = "https://coordinator.example:8080"
    token_file = "token"          # readable by its owner only; without it, MASQUERADE_TOKEN
    ca = "web.pem"                # optional: the authority or the very certificate to accept
    identity = "identity"         # optional: the folder of a key and certificate of one's own, to sign requests with
    [request]
    purpose = "research"
    …

Paths are relative to the file. Without a file, MASQUERADE_URL and MASQUERADE_TOKEN are used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from masquerade.client.calls import read_configuration, whole_request
from masquerade.client.transport import Address
from masquerade.errors import ParameterError
from masquerade.files import FileError, read_secret
from masquerade.forms import Form, Problems, fill, key

DEFAULT = Path("client.toml")
URL, TOKEN = "MASQUERADE_URL", "MASQUERADE_TOKEN"
_PREFIX = "mq_"  # prefix of every token (service/accounts.py)


class ClientSettings(Form):
    """The coordinator and how to authenticate to it; the token is never shown."""

    url: Annotated[str, Field(min_length=1)] = key(
        "", alias="coordinator", description='a coordinator\'s address, such as "https://coordinator.example:8080"'
    )
    token_file: Path | None = key(None, description="the name of a file that holds the token")
    ca: Path | None = key(None, description="the name of a PEM file")
    identity: Path | None = key(None, description='a folder, such as "identity"')
    request: dict[str, Any] | None = key(None, description="a table, written [request]")

    _token: str = PrivateAttr(default="")

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Read paths as relative to the file."""
        for name in ("token_file", "ca", "identity"):
            if isinstance(written := content.get(name), str) and written:
                content[name] = Path(problems.source).parent / written
        return content

    @property
    def token(self) -> str:
        """The user's token; empty where none was asked for."""
        return self._token


def read_settings(path: Path | None, *, with_request: bool = False, with_token: bool = True) -> ClientSettings:
    """Read the settings from a file, or else from the environment; raise ParameterError with every problem at once."""
    content = read_configuration(path) if path is not None else {}
    problems = Problems(str(path or ""))
    settings = fill(ClientSettings, content, problems)
    if settings.url:
        with problems.collecting(("coordinator",)):
            Address.read(settings.url)
    elif url := os.environ.get(URL, "").strip():
        settings = settings.model_copy(update={"url": url})
        try:
            Address.read(url)
        except ParameterError as error:
            problems.found += [each.within(URL) for each in error.problems]
    elif path is not None:
        problems.add(("coordinator",), f"missing; give its address, or set {URL}")
    else:
        problems.add((), f"no coordinator: give --conf FILE, or write {DEFAULT}, or set {URL} and {TOKEN}")
    written = content.get("token_file", "")
    if with_token and isinstance(written, str):
        try:
            settings._token = _token(settings.token_file, written, path)
        except ParameterError as error:
            where = ("token_file",) if path is not None else ()
            problems.found += [each.within(problems.source, where) for each in error.problems]
    if settings.ca is not None and not settings.ca.is_file():
        problems.add(("ca",), f"there is no file {settings.ca}")
    if settings.identity is not None:
        from masquerade.net import Identity

        with problems.collecting(("identity",)):
            Identity.load(settings.identity).check_dates()
    if with_request:
        if path is None or settings.request is None:
            problems.add(("request",), "missing; write what is asked for as [request]")
        else:
            try:
                whole_request(path)
            except ParameterError as error:
                problems.found += error.problems
    problems.settle(ParameterError)
    return settings


def found_settings(conf: Path | None, *, with_token: bool = True) -> ClientSettings:
    """Read the settings from the named file, or else client.toml if it exists, or else the environment."""
    path = conf if conf is not None else DEFAULT if DEFAULT.is_file() else None
    return read_settings(path, with_token=with_token)


def _token(file: Path | None, written: str, conf: Path | None) -> str:
    if file is None:
        if token := os.environ.get(TOKEN, "").strip():
            return token
        needed = "missing; name a file that holds the token, or" if conf is not None else "no token:"
        raise ParameterError(f"{needed} set {TOKEN}")
    if written.startswith(_PREFIX):  # the value is not repeated in the message
        raise ParameterError("holds a token; write it into a file, and its name here")
    try:
        token = read_secret(file, "this token", by_group=True).decode("ascii").strip()
    except FileError as error:
        raise ParameterError(str(error)) from None
    except UnicodeDecodeError:
        raise ParameterError(f"{file} holds no token") from None
    if not token or len(token.split()) != 1:
        raise ParameterError(f"{file} must hold one token and nothing else")
    return token
