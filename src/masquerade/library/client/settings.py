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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from masquerade.errors import ParameterError
from masquerade.files import FileError, read_secret
from masquerade.forms.form import Form, key, read_form
from masquerade.library.client.address import Address
from masquerade.library.client.requests import read_configuration, whole_request

DEFAULT = Path("client.toml")
URL, TOKEN = "MASQUERADE_URL", "MASQUERADE_TOKEN"
_PREFIX = "mq_"  # prefix of every token (service/accounts.py)

_TEXTS = ("coordinator", "token_file", "ca", "identity")

Text = Annotated[str, Field(min_length=1)]


class _File(Form):
    """The file's own keys."""

    coordinator: Text | None = key(
        None, description='a coordinator\'s address, such as "https://coordinator.example:8080"'
    )
    token_file: Text | None = key(None, description="the name of a file that holds the token")
    ca: Text | None = key(None, description="the name of a PEM file")
    identity: Text | None = key(None, description='a folder, such as "identity"')
    request: dict[str, Any] | None = key(None, description="a table, written [request]")


@dataclass(frozen=True)
class ClientSettings:
    """The coordinator and how to authenticate to it; the token is never shown."""

    path: Path | None
    url: str
    token: str = field(repr=False)
    token_file: Path | None = None
    ca: Path | None = None
    identity: Path | None = None
    has_request: bool = False


def read_settings(
    path: Path | None, *, with_request: bool = False, with_token: bool = True
) -> ClientSettings:
    """Read the settings from a file, or else from the environment; raise ParameterError with every problem at once."""
    content = read_configuration(path) if path is not None else {}
    source, base = (str(path), path.parent) if path is not None else ("", Path())
    problems: list[str] = []
    try:
        file = read_form(_File, content, source)
    except ParameterError as error:
        problems += error.lines
        # Check the readable keys all the same.
        file = _File(
            **{key: content[key] for key in _TEXTS if isinstance(content.get(key), str) and content[key]}
        )
    url = file.coordinator or os.environ.get(URL, "").strip()
    place = f"{source}: coordinator" if file.coordinator else URL
    if url:
        try:
            Address.read(url)
        except ParameterError as error:
            problems += [f"{place}: {problem}" for problem in error.lines]
    elif not problems:
        problems.append(
            f"{source}: coordinator: missing; give its address, or set {URL}"
            if path is not None
            else f"no coordinator: give --conf FILE, or write {DEFAULT}, or set {URL} and {TOKEN}"
        )
    token_file = base / file.token_file if file.token_file is not None else None
    token = ""
    try:
        token = _token(token_file, file.token_file, source) if with_token else ""
    except ParameterError as error:
        problems += error.lines
    ca = base / file.ca if file.ca is not None else None
    if ca is not None and not ca.is_file():
        problems.append(f"{source}: ca: there is no file {ca}")
    identity = base / file.identity if file.identity is not None else None
    if identity is not None:
        problems += _about_identity(identity, source)
    problems += _about_request(path, content) if with_request else []
    if problems:
        raise ParameterError(*dict.fromkeys(problems))
    return ClientSettings(path, url, token, token_file, ca, identity, "request" in content)


def found_settings(conf: Path | None, *, with_token: bool = True) -> ClientSettings:
    """Read the settings from the named file, or else client.toml if it exists, or else the environment."""
    path = conf if conf is not None else DEFAULT if DEFAULT.is_file() else None
    return read_settings(path, with_token=with_token)


def _token(file: Path | None, written: str | None, source: str) -> str:
    if file is None:
        token = os.environ.get(TOKEN, "").strip()
        if not token:
            where = (
                f"{source}: token_file: missing; name a file that holds the token, or set"
                if source
                else "set"
            )
            raise ParameterError(f"{where} {TOKEN}" if source else f"no token: {where} {TOKEN}")
        return token
    if written is not None and written.startswith(_PREFIX):  # the value is not repeated in the message
        raise ParameterError(f"{source}: token_file: holds a token; write it into a file, and its name here")
    try:
        token = read_secret(file, "this token", by_group=True).decode("ascii").strip()
    except FileError as error:
        raise ParameterError(f"{source}: token_file: {error}") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{source}: token_file: {file} holds no token") from None
    if not token or len(token.split()) != 1:
        raise ParameterError(f"{source}: token_file: {file} must hold one token and nothing else")
    return token


def _about_identity(folder: Path, source: str) -> list[str]:
    from masquerade.net.identity import Identity

    try:
        Identity.load(folder).check_dates()
    except ParameterError as error:
        return [f"{source}: identity: {problem}" for problem in error.lines]
    return []


def _about_request(path: Path | None, content: Mapping[str, Any]) -> tuple[str, ...]:
    if path is None or "request" not in content:
        return (f"{path}: request: missing; write what is asked for as [request]",)
    try:
        whole_request(path)
    except ParameterError as error:
        return error.lines
    return ()
