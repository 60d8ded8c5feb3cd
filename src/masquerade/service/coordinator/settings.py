"""The coordinator's configuration: one TOML file, whose paths are relative to it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from masquerade.errors import BadInput, Key, ParameterError, Problem
from masquerade.forms import Form, Problems, key, read_form
from masquerade.net import Identity, TrustStore, check_name
from masquerade.protocol import ASSEMBLER
from masquerade.service.agree.arrangements import THE_REQUEST
from masquerade.service.agree.request import Duration
from masquerade.service.clock import SYSTEM_CLOCK, Now
from masquerade.service.settings import ADDRESS, Address, ServiceSettings, TimingsSection, seconds
from masquerade.service.store import Store
from masquerade.service.store.database import check_url


class Https(BaseModel):
    """`https`: the certificate that browsers and clients see."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    certificate: Path | None = key(None, description="a file in PEM")
    key: Path | None = key(None, description="a file in PEM")


class CoordinatorTimings(TimingsSection):
    """`[timings]`, in seconds."""

    answer: Duration = seconds(30.0)  # for an answer to a control call
    prepare: Duration = seconds(600.0)  # for a party to read its table
    retry: Duration = seconds(2.0)  # before a party that failed is asked again
    comeback: Duration = seconds(120.0)  # for a party that failed to answer, before the next attempt all the same
    refresh: Duration = seconds(30.0)  # between two looks at the parties


class RegisteredParty(Form):
    """`[parties.NAME]`."""

    address: Address = key("", description=ADDRESS)

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing."""
        if not self.address:
            yield ("address",), "missing; say where the party's node listens, as host:port"


def _whole(unit: str, most: int) -> PlainValidator:
    """A whole number of days or minutes, as a duration."""

    def check(value: object) -> timedelta:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError
        return timedelta(**{unit: value})

    return PlainValidator(check)


class CoordinatorSettings(ServiceSettings):
    """The coordinator's configuration."""

    name: str = key("coordinator", description="a name")
    address: Address = key("127.0.0.1:8080", description=ADDRESS)
    party_address: Address = key("127.0.0.1:7000", description=ADDRESS)
    session_address: Address = key("127.0.0.1:0", description=ADDRESS)
    database: Annotated[str, Field(min_length=1)] = key("sqlite:///coordinator.db", description="a database URL")
    https: Https = key(Https(), description='a table { certificate = "web.pem", key = "web.key" }')
    keep_releases: Annotated[timedelta, _whole("days", 3650)] = key(
        timedelta(days=30), description="a whole number of days from 1 to 3650"
    )
    most_wait: Annotated[timedelta, _whole("days", 365)] = key(
        timedelta(days=7), description="a whole number of days from 1 to 365"
    )
    contract_lifetime: Annotated[timedelta, _whole("minutes", 1440)] = key(
        timedelta(minutes=60), alias="contract_minutes", description="a whole number of minutes from 1 to 1440"
    )
    sessions_at_once: Annotated[int, Field(ge=1, le=1000)] = key(8, description="a whole number from 1 to 1000")
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = key(
        120, description="a whole number of at least 1"
    )
    console: bool = key(True, description="true or false")
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = key(
        "EUR", description="three capital letters (ISO 4217): prices are hundredths of it"
    )
    timings: CoordinatorTimings = key(CoordinatorTimings(), description="a table, written [timings]")
    parties: dict[str, str] = key(  # name -> address of its control server
        {}, description='tables, each written [parties.NAME] with address = "host:port"'
    )

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Read the folders, find the files of `https`, and the addresses of the parties."""
        super().convert(content, problems)
        if isinstance(files := content.get("https"), dict):
            base = Path(problems.source).parent
            for name in ("certificate", "key"):
                if isinstance(written := files.get(name), str) and written:
                    files[name] = base / written
                    if not os.path.isfile(files[name]):  # noqa: PTH113 # the name may be too long for a path's own test
                        problems.add(("https",), f"there is no file {files[name]}")
        if isinstance(sections := content.get("parties"), dict):
            content["parties"] = _parties(sections, content.get("trust"), problems)
        return content

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """What is missing, and what does not go together."""
        yield from self._about_name()
        if not self.parties:
            yield ("parties",), "missing; write [parties.NAME] with an address for each party"
        with_https = "https" in self.model_fields_set
        if not with_https and not is_loopback(self.address):
            yield (
                ("https",),
                f"missing; {self.address} can be reached by other machines, and plain HTTP is for loopback addresses"
                ' only: add https = { certificate = "web.pem", key = "web.key" }',
            )
        try:
            check_url(self.database)
        except BadInput as error:
            yield ("database",), str(error)
        if with_https and not (self.https.certificate and self.https.key):
            yield ("https",), "needs both certificate and key"
        taken: dict[str, str] = {}
        for name in ("address", "party_address", "session_address"):
            address: str = getattr(self, name)
            if address.endswith(":0"):  # a free port each
                continue
            if address in taken:
                yield (name,), f"{address} is the {taken[address]} already; give each a port of its own"
            taken.setdefault(address, name)

    def _about_name(self) -> Iterator[tuple[Key, Problem | str]]:
        try:
            check_name(self.name)
        except ParameterError as error:
            yield from ((("name",), problem) for problem in error.problems)
            return
        if isinstance(self.identity, Identity) and self.identity.name != self.name:
            yield (("name",), f'"{self.name}", but the certificate that identity names is for "{self.identity.name}"')

    def make_state(self) -> None:
        """The state folder, where there is none yet; only its owner may look into it."""
        try:
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.releases.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ParameterError(f"{self.path}: state: {self.state} cannot be made: {error.strerror}") from None

    @property
    def releases(self) -> Path:
        """Where releases are kept."""
        return self.state / "releases"

    @property
    def audit(self) -> Path:
        """The coordinator's own audit log."""
        return self.state / "audit.jsonl"

    @property
    def announced_host(self) -> str:
        """Where parties reach its sessions."""
        return self.session_host or self.session_address.rpartition(":")[0]

    @property
    def scheme(self) -> str:
        """`https`, or `http` on this machine alone."""
        return "https" if self.https.certificate is not None else "http"


def open_store(settings: CoordinatorSettings, clock: Now = SYSTEM_CLOCK.now) -> Store:
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


def _parties(sections: dict[str, Any], trust: object, problems: Problems) -> dict[str, str]:
    """The parties' addresses. Without a trust store nobody is looked up in it."""
    found: dict[str, str] = {}
    for name, section in sections.items():
        try:
            check_name(name)
            if name in (ASSEMBLER, THE_REQUEST):
                raise ParameterError(f'"{name}" cannot name a party; take another')
            if isinstance(trust, TrustStore) and name not in trust.names:
                raise ParameterError(
                    "its certificate is not in the trust store; add it once you compared the fingerprint"
                )
            if not isinstance(section, Mapping):
                raise ParameterError('must be a table with address = "host:port"')
            found[name] = read_form(RegisteredParty, section, "").address
        except ParameterError as error:
            for problem in error.problems:
                problems.broken(("parties", name, *problem.key), problem)
    return found
