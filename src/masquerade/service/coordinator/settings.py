"""The coordinator's configuration: one TOML file, whose paths are relative to it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from masquerade.errors import BadInput, Key, MasqueradeError, ParameterError, Problem
from masquerade.forms.form import Form, key, read_form
from masquerade.forms.toml import read_toml
from masquerade.net.channel import Node, Timings
from masquerade.net.identity import Identity, check_name
from masquerade.net.trust import TrustStore
from masquerade.protocol.method import ASSEMBLER
from masquerade.service.clock import SYSTEM_CLOCK, Now
from masquerade.service.connections import ConnectionLimits
from masquerade.service.form_values import A_NUMBER_OF_CONNECTIONS, Connections, Duration, Host
from masquerade.service.kinds.kind import THE_REQUEST
from masquerade.service.plain_text import insist_on_plain
from masquerade.service.store import Store
from masquerade.service.store.database import check_url

_ADDRESS = "an address host:port"
_LIMITS = ConnectionLimits()

Read = TypeVar("Read")


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    try:
        return Node("coordinator", value).address
    except ParameterError:
        raise ValueError from None


Address = Annotated[str, PlainValidator(_address)]
PathText = Annotated[str, Field(min_length=1)]


class Https(BaseModel):
    """`https`: the certificate that browsers and clients see."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    certificate: PathText = key("", description="a file in PEM")
    key: PathText = key("", description="a file in PEM")


def _seconds(default: float) -> Any:
    return key(default, description="a number of seconds above 0")


class TimingsSection(BaseModel):
    """`[timings]`, in seconds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    connect: Duration = _seconds(30.0)  # until all parties of a session are there
    silence: Duration = _seconds(60.0)  # without a sign of life
    patience: Duration = _seconds(3600.0)  # for one message
    answer: Duration = _seconds(30.0)  # for an answer to a control call
    prepare: Duration = _seconds(600.0)  # for a party to read its table
    retry: Duration = _seconds(2.0)  # before a party that failed is asked again
    comeback: Duration = _seconds(
        120.0
    )  # for a party that failed to answer, before the next attempt all the same
    refresh: Duration = _seconds(30.0)  # between two looks at the parties
    request: Duration = _seconds(
        _LIMITS.request_within
    )  # for a client to send the head of a request, or its body


class PartySection(Form):
    """`[parties.NAME]`."""

    address: Address | None = key(None, description=_ADDRESS)

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing."""
        if self.address is None:
            yield ("address",), "missing; say where the party's node listens, as host:port"


class _File(Form):
    """The file's own keys."""

    name: str = key("coordinator", description="a name")
    address: Address = key("127.0.0.1:8080", description=_ADDRESS)
    party_address: Address = key("127.0.0.1:7000", description=_ADDRESS)
    session_address: Address = key("127.0.0.1:0", description=_ADDRESS)
    session_host: Host | None = key(None, description="the name or number of a host, without a port")
    identity: PathText = key("identity", description="a folder")
    trust: PathText = key("identity/trust", description="a folder")
    state: PathText = key("state", description="a folder")
    database: PathText = key("sqlite:///coordinator.db", description="a database URL")
    https: Https | None = key(None, description='a table { certificate = "web.pem", key = "web.key" }')
    keep_releases: Annotated[int, Field(ge=1, le=3650)] = key(
        30, description="a whole number of days from 1 to 3650"
    )
    most_wait: Annotated[int, Field(ge=1, le=365)] = key(
        7, description="a whole number of days from 1 to 365"
    )
    contract_minutes: Annotated[int, Field(ge=1, le=1440)] = key(
        60, description="a whole number of minutes from 1 to 1440"
    )
    sessions_at_once: Annotated[int, Field(ge=1, le=1000)] = key(
        8, description="a whole number from 1 to 1000"
    )
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = key(
        120, description="a whole number of at least 1"
    )
    connections: Connections = key(_LIMITS.connections, description=A_NUMBER_OF_CONNECTIONS)
    connections_per_address: Connections = key(_LIMITS.per_address, description=A_NUMBER_OF_CONNECTIONS)
    console: bool = key(True, description="true or false")
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = key(
        "EUR", description="three capital letters (ISO 4217): prices are hundredths of it"
    )
    timings: TimingsSection = key(TimingsSection(), description="a table, written [timings]")
    parties: dict[str, Any] = key(
        {}, description='tables, each written [parties.NAME] with address = "host:port"'
    )

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and what does not go together."""
        if not self.parties:
            yield ("parties",), "missing; write [parties.NAME] with an address for each party"
        if self.https is None and not is_loopback(self.address):
            yield (
                ("https",),
                f"missing; {self.address} can be reached by other machines, and plain HTTP is for loopback addresses"
                ' only: add https = { certificate = "web.pem", key = "web.key" }',
            )
        try:
            check_url(self.database)
        except BadInput as error:
            yield ("database",), str(error)
        if self.https is not None and not (self.https.certificate and self.https.key):
            yield ("https",), "needs both certificate and key"
        taken: dict[str, str] = {}
        for name in ("address", "party_address", "session_address"):
            address: str = getattr(self, name)
            if address.endswith(":0"):  # a free port each
                continue
            if address in taken:
                yield (name,), f"{address} is the {taken[address]} already; give each a port of its own"
            taken.setdefault(address, name)


@dataclass(frozen=True)
class Settings:
    """What the coordinator is told, with paths that are whole. Reading it changes nothing on the disk."""

    path: Path
    name: str
    address: str
    party_address: str
    session_address: str
    session_host: str
    identity: Identity
    trust: TrustStore
    state: Path
    database: str
    certificate: Path | None
    key: Path | None
    keep_releases: timedelta
    most_wait: timedelta
    contract_lifetime: timedelta
    sessions_at_once: int
    requests_per_minute: int
    limits: ConnectionLimits
    console: bool
    currency: str  # of all prices, which are in its hundredths
    timings: Timings
    answer_within: float
    prepare_within: float
    retry_after: float
    comeback_within: float
    refresh_every: float
    parties: Mapping[str, str]  # name -> address of its control server

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the configuration; ParameterError with every problem at once."""
        return cls.of(read_toml(path, "configuration", ParameterError), path)

    @classmethod
    def of(cls, content: Mapping[str, Any], path: Path) -> Self:
        """The settings in the content of a file at `path`."""
        insist_on_plain(content, str(path))
        file = read_form(_File, content, str(path))
        base = path.parent
        certificate = base / file.https.certificate if file.https is not None else None
        key_file = base / file.https.key if file.https is not None else None
        errors: list[MasqueradeError] = []
        identity = _tried(lambda: _identity(base / file.identity, file.name), errors, path)
        trust = _tried(lambda: TrustStore.load(base / file.trust), errors, path, ("trust",))
        # Without a trust store nobody can be looked up in it: then only the addresses are read.
        parties = _tried(lambda: _parties(file.parties, trust), errors, path, ("parties",))
        for needed in (certificate, key_file):
            if needed is not None and not _is_file(needed):
                errors.append(ParameterError(f"{path}: https: there is no file {needed}"))
        if gathered := ParameterError.gather(errors):
            raise gathered
        assert identity is not None
        assert trust is not None
        assert parties is not None
        times = file.timings
        return cls(
            path=path,
            name=file.name,
            address=file.address,
            party_address=file.party_address,
            session_address=file.session_address,
            session_host=file.session_host or file.session_address.rpartition(":")[0],
            identity=identity,
            trust=trust,
            state=base / file.state,
            database=file.database,
            certificate=certificate,
            key=key_file,
            keep_releases=timedelta(days=file.keep_releases),
            most_wait=timedelta(days=file.most_wait),
            contract_lifetime=timedelta(minutes=file.contract_minutes),
            sessions_at_once=file.sessions_at_once,
            requests_per_minute=file.requests_per_minute,
            limits=ConnectionLimits(file.connections, file.connections_per_address, times.request),
            console=file.console,
            currency=file.currency,
            timings=Timings(times.connect, times.silence, times.patience),
            answer_within=times.answer,
            prepare_within=times.prepare,
            retry_after=times.retry,
            comeback_within=times.comeback,
            refresh_every=times.refresh,
            parties=parties,
        )

    def make_state(self) -> None:
        """The state folder, where there is none yet; only its owner may look into it."""
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.releases.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ParameterError(
                f"{self.path}: state: {self.state} cannot be made: {error.strerror}"
            ) from None

    @property
    def releases(self) -> Path:
        """Where releases are kept."""
        return self.state / "releases"

    @property
    def audit(self) -> Path:
        """The coordinator's own audit log."""
        return self.state / "audit.jsonl"

    @property
    def scheme(self) -> str:
        """`https`, or `http` on this machine alone."""
        return "https" if self.certificate is not None else "http"


def open_store(settings: Settings, clock: Now = SYSTEM_CLOCK.now) -> Store:
    """The coordinator's store; what is wrong with it names the file and its key."""
    try:
        return Store.open(settings.database, base=settings.state, clock=clock)
    except ParameterError as error:
        raise error.within(str(settings.path), ("database",)) from None


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address `host:port`."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tried(read: Callable[[], Read], errors: list[MasqueradeError], path: Path, key: Key = ()) -> Read | None:
    """Read something that a file names below a key; collect what is wrong with it, and return None then."""
    try:
        return read()
    except ParameterError as error:
        errors.append(error.within(str(path), key))
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long a name, for one
        return False


def _identity(folder: Path, name: str) -> Identity:
    try:
        check_name(name)
    except ParameterError as error:
        raise error.within("", ("name",)) from None
    try:
        identity = Identity.load(folder)
    except ParameterError as error:
        raise error.within("", ("identity",)) from None
    if identity.name != name:
        problem = f'"{name}", but the certificate in {folder} is for "{identity.name}"'
        raise ParameterError(Problem(problem, key=("name",)))
    return identity


def _parties(sections: Mapping[str, Any], trust: TrustStore | None) -> dict[str, str]:
    found: dict[str, str] = {}
    errors: list[MasqueradeError] = []
    for name, section in sections.items():
        try:
            check_name(name)
            if name in (ASSEMBLER, THE_REQUEST):
                raise ParameterError(f'"{name}" cannot name a party; take another')
            if trust is not None and name not in trust.names:
                raise ParameterError(
                    "its certificate is not in the trust store; add it once you compared the fingerprint"
                )
            if not isinstance(section, Mapping):
                raise ParameterError('must be a table with address = "host:port"')
            found[name] = read_form(PartySection, section, "").address or ""
        except ParameterError as error:
            errors.append(error.within("", (name,)))
    if gathered := ParameterError.gather(errors):
        raise gathered
    return found
