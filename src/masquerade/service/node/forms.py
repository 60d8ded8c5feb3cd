"""The tables of a node's configuration: every key, what it must be, and its default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from masquerade.data.database_url import FILE_SCHEMES, database_path
from masquerade.data.encode import MISSING_VALUES
from masquerade.data.source import database_scheme
from masquerade.errors import DataError, Key, ParameterError, one_line
from masquerade.forms.form import Form, key
from masquerade.job.model import Sign, TableSection
from masquerade.net.channel import Node
from masquerade.service.connections import ConnectionLimits
from masquerade.service.form_values import A_NUMBER_OF_CONNECTIONS, Connections, Duration, Host
from masquerade.service.request import Text, Texts

_TABLES = 'a table, such as [datasets.customers] with source = "customers.csv"'
_ADDRESS = 'an address host:port, such as "127.0.0.1:7001"'
_ANYWHERE = ("0.0.0.0", "::", "[::]")  # noqa: S104 # to be recognised
_SECONDS = "a number of seconds above 0"
_LIMITS = ConnectionLimits()


Long = Annotated[str, Field(min_length=1, max_length=20_000)]


class TopForm(Form):
    """The file itself."""

    name: Text | None = key(None, description='a name, such as "bank"')
    address: Text | None = key(None, description=_ADDRESS)
    public_address: Text | None = key(None, description=_ADDRESS)
    session_address: Text | None = key(None, description=_ADDRESS)
    session_ports: Annotated[tuple[int, ...], Field(strict=False, min_length=2, max_length=2)] | None = key(
        None, description="a list of two ports, the first and the last, such as [7200, 7299]"
    )
    session_host: Host | None = key(None, description='a host without a port, such as "bank.example"')
    identity: Text = key("identity", description='a folder, such as "identity"')
    trust: Text = key("identity/trust", description='a folder, such as "identity/trust"')
    clients: Text = key("clients", description='a folder, such as "clients"')
    state: Text = key("state", description='a folder, such as "state"')
    connections: Connections = key(_LIMITS.connections, description=A_NUMBER_OF_CONNECTIONS)
    connections_per_address: Connections = key(_LIMITS.per_address, description=A_NUMBER_OF_CONNECTIONS)
    coordinator: dict[str, Any] = key({}, description="a table, written [coordinator]")
    timings: dict[str, Any] = key({}, description="a table, written [timings]")
    datasets: dict[str, dict[str, Any]] = key({}, description=f"tables, each {_TABLES}")

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and what does not go together."""
        if self.name is None:
            yield ("name",), "missing; name the party as its certificate does"
        if self.address is None:
            yield ("address",), f"missing; it must be {_ADDRESS}"
        for name in ("address", "public_address", "session_address"):
            yield from _about_address((name,), getattr(self, name))
        if not self.datasets:
            yield ("datasets",), f"missing; give {_TABLES}"
        where = (self.session_address or self.address or "").rpartition(":")[0]
        if where in _ANYWHERE and self.session_host is None and self.public_address is None:
            yield ("session_host",), f'missing; peers cannot reach "{where}": name the host that they know'
        first, last = self.session_ports or (1, 1)
        if not 1 <= first <= last <= 65535:
            yield ("session_ports",), "must be two ports from 1 to 65535, the first not above the last"


class CoordinatorForm(Form):
    """`[coordinator]`: whom the node takes requests from, and where it publishes."""

    name: Text = key("coordinator", description='a name, such as "coordinator"')
    address: Text | None = key(None, description=_ADDRESS)

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing."""
        if self.address is None:
            yield ("address",), "missing; name its party server as host:port"
        yield from _about_address(("address",), self.address)


class TimingsForm(Form):
    """`[timings]`: how long to wait, in seconds."""

    connect: Duration = key(30.0, description=_SECONDS)
    silence: Duration = key(60.0, description=_SECONDS)
    patience: Duration = key(3600.0, description=_SECONDS)
    start: Duration = key(120.0, description=_SECONDS)
    watch: Duration = key(5.0, description=_SECONDS)
    request: Duration = key(_LIMITS.request_within, description=_SECONDS)


def _described(name: str) -> str:
    return TableSection.model_fields[name].description or ""


class DatasetForm(Form):
    """`[datasets.NAME]`: a job's table with its identifier, its roles, its attributes and its policy."""

    source: Long | None = key(None, description=_described("source"))
    query: Long | None = key(None, description=_described("query"))
    missing: Literal["drop", "error"] = key("drop", description=_described("missing"))
    missing_values: list[str] = key(list(MISSING_VALUES), description=_described("missing_values"))
    separator: Sign | None = key(None, description=_described("separator"))
    encoding: Text = key("utf-8", description=_described("encoding"))
    id: Text | None = key(None, description='the name of the identifier\'s column, such as "ssn"')
    sensitive: Texts = key((), description='a list of names, such as ["disease"]')
    class_name: Text | None = key(None, alias="class", description='a name, such as "income"')
    attributes: dict[str, Any] = key({}, description="tables, written [datasets.NAME.attributes.COLUMN]")
    policy: dict[str, Any] = key({}, description="a table, written [datasets.NAME.policy]")

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and which column has two parts."""
        if self.source is None:
            yield ("source",), "missing; name a file or a database URL"
        else:
            yield from _about_source(self.source)
        if self.id is None:
            yield ("id",), "missing; name the column of the identifiers"
        classes = [self.class_name] if self.class_name is not None else []
        roles: dict[str, list[str]] = {
            "sensitive": list(self.sensitive),
            "class": classes,
            "attributes": list(self.attributes),
        }
        for role, names in roles.items():
            if self.id is not None and self.id in names:
                yield ("id",), f'"{self.id}" identifies people, and is never released; {role} names it too'
        for name in dict.fromkeys(self.sensitive):
            if self.sensitive.count(name) > 1:
                yield ("sensitive",), f'"{name}" is listed twice'
            if name in self.attributes:
                yield (
                    ("sensitive",),
                    f'"{name}" is released as it is, and has an attributes table too; drop one',
                )
        if self.class_name is not None and self.class_name in (*self.sensitive, *self.attributes):
            yield ("class",), f'"{self.class_name}" is sensitive or an attribute too; drop one'


def _about_address(key: Key, address: str | None) -> Iterator[tuple[Key, str]]:
    if address is not None:
        try:
            Node("", address)
        except ParameterError:
            yield key, f"must be {_ADDRESS}; got {one_line(repr(address))}"


def _about_source(source: str) -> Iterator[tuple[Key, str]]:
    try:
        if database_scheme(source) in FILE_SCHEMES:
            database_path(source, Path())
    except DataError as error:
        yield ("source",), str(error)
