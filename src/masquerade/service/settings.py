"""What the configurations of a node and of the coordinator have in common: a TOML file, whose paths are relative to it.

A key's field is what the key means: a folder of keys is the identity in it, days are a duration. Reading changes
nothing on the disk, and every problem is reported at once, with its file and key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, PlainValidator, PrivateAttr

from masquerade.errors import Key, ParameterError
from masquerade.forms import Form, Problems, key, read_form, read_toml
from masquerade.net import Identity, PartyAddress, Timings, TrustStore, is_host
from masquerade.service.agree.request import Duration
from masquerade.service.canonical import places_not_plain
from masquerade.service.wire.serving import ConnectionLimits

ADDRESS = 'an address host:port, such as "127.0.0.1:7001"'
HOST = 'the name or number of a host, without a port, such as "bank.example"'
_CONNECTIONS = "a whole number from 1 to 100000"
_LIMITS, _TIMINGS = ConnectionLimits(), Timings()

Read = TypeVar("Read")


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    try:
        return PartyAddress("", value).address
    except ParameterError:
        raise ValueError from None


def _host(value: object) -> str:
    if not isinstance(value, str) or not is_host(value):
        raise ValueError
    return value


Address = Annotated[str, PlainValidator(_address)]
Host = Annotated[str, PlainValidator(_host)]
Connections = Annotated[int, Field(ge=1, le=100_000)]


def seconds(default: float) -> Any:
    """Declare a key of `[timings]`."""
    return key(default, description="a number of seconds above 0")


class TimingsSection(Form):
    """`[timings]`, in seconds: the keys of both configurations."""

    connect: Duration = seconds(_TIMINGS.connect)  # until all parties of a session are there
    silence: Duration = seconds(_TIMINGS.silence)  # without a sign of life
    patience: Duration = seconds(_TIMINGS.patience)  # for one message
    request: Duration = seconds(_LIMITS.request_within)  # for a request's head, or its body

    @property
    def of_session(self) -> Timings:
        """How long to wait for the peers of a session."""
        return Timings(self.connect, self.silence, self.patience)


class ServiceSettings(Form):
    """The keys of both configurations."""

    session_host: Host | None = key(None, description=HOST)
    identity: Identity = key("identity", description='a folder, such as "identity"')
    trust: TrustStore = key("identity/trust", description='a folder, such as "identity/trust"')
    state: Path = key("state", description='a folder, such as "state"')
    connections: Connections = key(_LIMITS.connections, description=_CONNECTIONS)
    connections_per_address: Connections = key(_LIMITS.per_address, description=_CONNECTIONS)
    timings: TimingsSection = key(TimingsSection(), description="a table, written [timings]")

    _path: Path = PrivateAttr(default=Path())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a configuration; ParameterError with every problem at once."""
        return cls.of(read_toml(path, "configuration", ParameterError), path)

    @classmethod
    def of(cls, content: Mapping[str, Any], path: Path) -> Self:
        """The settings in the content of a file at `path`."""
        problems = Problems(str(path))
        for where, problem in places_not_plain(content):  # others will read it
            if not cls.may_have_lines(where):
                problems.add(where, problem)
        problems.settle(ParameterError)  # a file that no path can name, for one
        settings = read_form(cls, content, str(path))
        settings._path = path
        return settings

    @classmethod
    def may_have_lines(cls, where: Key) -> bool:
        """Whether the text at a key may have line breaks and tabs."""
        return False

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Read the folders that the keys name."""
        cls.load_folder(content, "state", problems, lambda folder: folder)
        cls.load_folder(content, "identity", problems, cls.load_identity)
        cls.load_folder(content, "trust", problems, TrustStore.load)
        return content

    @classmethod
    def load_folder(cls, content: dict[str, Any], name: str, problems: Problems, read: Callable[[Path], Read]) -> None:
        """Replace the name of a folder, or the default one, by what is in it. Where that fails the name remains."""
        written = content.pop(name, cls.model_fields[name].default)
        if not isinstance(written, str) or not written:
            content[name] = written  # is found to be no folder
            return
        with problems.collecting((name,)):
            content[name] = read(Path(problems.source).parent / written)

    @classmethod
    def load_identity(cls, folder: Path) -> Identity:
        """The process's own key and certificate."""
        return Identity.load(folder)

    @property
    def path(self) -> Path:
        """The file that was read."""
        return self._path

    @property
    def limits(self) -> ConnectionLimits:
        """How many may connect, and how long a request may take to arrive."""
        return ConnectionLimits(self.connections, self.connections_per_address, self.timings.request)
