"""A node's configuration: one TOML file.

    name = "bank"                              [coordinator]
    address = "127.0.0.1:7001"                 name = "coordinator"
    identity = "identity"                      address = "127.0.0.1:7000"
    trust = "identity/trust"                   [datasets.customers]
    state = "state"                            source = "customers.csv" …

Paths are relative to the file. A dataset has the keys of a job's table, `[attributes.NAME]` as a job has them, and a
`policy`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, PrivateAttr

from masquerade.data import FILE_SCHEMES, Schema, Taxonomy, database_path, database_scheme
from masquerade.errors import DataError, Key, ParameterError, written
from masquerade.forms import Form, Problems, fill, key, read_form
from masquerade.jobs import EngineSection, Job, TableSection, schema_of
from masquerade.net import Identity, PartyAddress, TrustStore, check_name, out_of_date
from masquerade.protocol import ASSEMBLER, OutcomeRole
from masquerade.service.agree.policy import Policy, read_policy
from masquerade.service.agree.request import Duration, Text, Texts
from masquerade.service.agree.signing import ClientCertificates
from masquerade.service.canonical import not_plain
from masquerade.service.settings import ADDRESS, Address, ServiceSettings, TimingsSection, seconds

# --- dataset keys -------------------------------------------------------------------------------------------
# `[datasets.NAME]` in a node's configuration: every key, what it must be, and its default.


class DatasetKeys(TableSection, defer_build=False):
    """A job's table with its identifier, its roles, its attributes and its policy."""

    identifier: Text = key("", alias="id", description='the name of the identifier\'s column, such as "ssn"')
    sensitive: Texts = key((), description='a list of names, such as ["disease"]')
    class_name: Text | None = key(None, alias="class", description='a name, such as "income"')
    duration: Text | None = key(None, description='a name, such as "months": of models of survival')
    event: Text | None = key(None, description='a name, such as "died": of models of survival')
    attributes: dict[str, Any] = key({}, description="tables, written [datasets.NAME.attributes.COLUMN]")
    policy: dict[str, Any] = key({}, description="a table, written [datasets.NAME.policy]")

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and which column has two parts."""
        if self.source:
            try:
                if database_scheme(self.source) in FILE_SCHEMES:
                    database_path(self.source, Path())
            except DataError as error:
                yield ("source",), str(error)
        else:
            yield ("source",), "missing; name a file or a database URL"
        identifier = self.identifier
        if not identifier:
            yield ("id",), "missing; name the column of the identifiers"
        roles = {
            "sensitive": self.sensitive,
            "class": self.classes,
            **{str(role): (name,) for name, role in self.outcomes.items()},
            "attributes": tuple(self.attributes),
        }
        for role, names in roles.items():
            if identifier in names:
                yield ("id",), f'"{identifier}" identifies people, and is never released; {role} names it too'
        for name in dict.fromkeys(self.sensitive):
            if self.sensitive.count(name) > 1:
                yield ("sensitive",), f'"{name}" is listed twice'
            if name in self.attributes:
                yield (("sensitive",), f'"{name}" is released as it is, and has an attributes table too; drop one')
        if self.class_name is not None and self.class_name in (*self.sensitive, *self.attributes):
            yield ("class",), f'"{self.class_name}" is sensitive or an attribute too; drop one'
        if self.duration is not None and self.duration == self.event:
            yield ("event",), f'"{self.event}" is the duration too; drop one'
        for name, role in self.outcomes.items():
            if name in (*self.sensitive, *self.classes, *self.attributes):
                text = "a request may name it for that as it is; drop one"
                yield (role,), f'"{name}" is sensitive, the class or an attribute too; {text}'

    @property
    def classes(self) -> tuple[str, ...]:
        """The class, if there is one."""
        return (self.class_name,) if self.class_name is not None else ()

    @property
    def outcomes(self) -> dict[str, OutcomeRole]:
        """The columns that models of survival are learned from, and nothing else is made of."""
        named: dict[OutcomeRole, str | None] = {"duration": self.duration, "event": self.event}
        return {name: role for role, name in named.items() if name is not None}


# --- settings -----------------------------------------------------------------------------------------------

_TABLES = 'a table, such as [datasets.customers] with source = "customers.csv"'
_ANYWHERE = ("0.0.0.0", "::", "[::]")  # noqa: S104 # to be recognised
_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)  # it becomes a file's name

Read = TypeVar("Read", bound=Form)


@dataclass(frozen=True)
class DatasetSettings:
    """One dataset: where its table is, what its columns mean, and what is agreed to."""

    name: str
    keys: DatasetKeys
    schema: Schema
    policy: Policy
    path: Path  # of the configuration
    files: tuple[Path, ...]  # of its taxonomies

    @property
    def section(self) -> TableSection:
        """Where its table is, and how it is read."""
        return TableSection(**{name: getattr(self.keys, name) for name in TableSection.model_fields})

    @property
    def base(self) -> Path:
        """What its paths are relative to."""
        return self.path.parent

    @property
    def place(self) -> str:
        """Where it is written, for errors."""
        return f"{self.path}: {written(('datasets', self.name))}"

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, the identifier first."""
        keys = self.keys
        return tuple(
            dict.fromkeys((keys.identifier, *self.schema.names, *keys.sensitive, *keys.classes, *keys.outcomes))
        )

    @property
    def is_database(self) -> bool:
        """Whether it comes from a database, whose changes cannot be seen from outside."""
        return database_scheme(self.keys.source) is not None


class CoordinatorSection(Form):
    """`[coordinator]`: whom the node takes requests from, and where it publishes."""

    name: Text = key("coordinator", description='a name, such as "coordinator"')
    address: Address = key("", description=ADDRESS)

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing."""
        if not self.address:
            yield ("address",), "missing; name its party server as host:port"


class NotifySection(Form):
    """`[notify]`: commands that tell a person something; their standard input is the message."""

    approval: Texts = key((), description='a command as a list of words, such as ["mail", "-s", "…", "ana@…"]')


class NodeTimings(TimingsSection):
    """`[timings]`, in seconds."""

    start: Duration = seconds(120.0)  # until a session that was prepared, and is not started, is dropped
    watch: Duration = seconds(5.0)  # between two looks at the files


class NodeSettings(ServiceSettings):
    """A node's configuration."""

    name: Text = key("", description='a name, such as "bank"')
    address: Address = key("", description=ADDRESS)
    public_address: Address | None = key(None, description=ADDRESS)
    session_address: Address | None = key(None, description=ADDRESS)
    session_ports: Annotated[tuple[int, ...], Field(strict=False, min_length=2, max_length=2)] | None = key(
        None, description="a list of two ports, the first and the last, such as [7200, 7299]"
    )
    clients: ClientCertificates = key("clients", description='a folder, such as "clients"')
    coordinator: PartyAddress = key(None, description="a table, written [coordinator]")
    timings: NodeTimings = key(NodeTimings(), description="a table, written [timings]")
    engine: EngineSection | None = key(None, description="a table, written [engine]")
    notify: NotifySection = key(NotifySection(), description="a table, written [notify]")
    datasets: dict[str, DatasetSettings] = key({}, description=f"tables, each {_TABLES}")

    _digest: str = PrivateAttr(default="")

    @classmethod
    def of(cls, content: Mapping[str, Any], path: Path) -> Self:
        """The settings in the content of a file at `path`."""
        settings = super().of(content, path)
        settings._digest = hashlib.sha256(repr(content).encode(errors="surrogatepass")).hexdigest()
        return settings

    @classmethod
    def may_have_lines(cls, where: Key) -> bool:
        """A query may have lines, and a separator may be a tab."""
        return where[0] == "datasets" and len(where) == 3 and where[2] in ("query", "separator")

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Read the folders and the tables below the file's own keys."""
        trust_folder = content.get("trust", cls.model_fields["trust"].default)
        clients_folder = content.get("clients", cls.model_fields["clients"].default)
        super().convert(content, problems)
        cls.load_folder(content, "clients", problems, ClientCertificates.load)
        coordinator = _read(CoordinatorSection, _table(content.get("coordinator")), problems, ("coordinator",))
        if coordinator is not None:
            _check_coordinator(coordinator.name, content, trust_folder, problems)
            if isinstance(content.get("coordinator", {}), dict):
                content["coordinator"] = PartyAddress(coordinator.name, coordinator.address)
        if isinstance(datasets := content.get("datasets"), dict):
            content["datasets"] = _datasets(datasets, problems)
            clients = content.get("clients")
            for name, each in content["datasets"].items():
                if each.policy.signed_requests and isinstance(clients, ClientCertificates) and not clients:
                    here: Key = ("datasets", name, "policy", "signed_requests")
                    problems.add(here, f"needs certificates of clients; {clients_folder} has none")
        return content

    @classmethod
    def load_identity(cls, folder: Path) -> Identity:
        """The node's key and certificate, which must be in date."""
        identity = super().load_identity(folder)
        identity.check_dates()
        return identity

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and what does not go together."""
        if not self.name:
            yield ("name",), "missing; name the party as its certificate does"
        if isinstance(self.identity, Identity):
            if self.name and self.name != self.identity.name:
                yield (
                    ("name",),
                    f'"{self.name}", but the certificate that identity names is of "{self.identity.name}"',
                )
            if self.identity.name == ASSEMBLER:
                yield (("name",), f'"{ASSEMBLER}" is the name of the one who joins the columns; take another')
        if not self.address:
            yield ("address",), f"missing; it must be {ADDRESS}"
        if not self.datasets:
            yield ("datasets",), f"missing; give {_TABLES}"
        where = self.listening_host
        if where in _ANYWHERE and self.session_host is None and self.public_address is None:
            yield ("session_host",), f'missing; peers cannot reach "{where}": name the host that they know'
        first, last = self.session_ports or (1, 1)
        if not 1 <= first <= last <= 65535:
            yield ("session_ports",), "must be two ports from 1 to 65535, the first not above the last"

    @property
    def digest(self) -> str:
        """A digest of the file's content, by which it is known again."""
        return self._digest

    @property
    def listening_host(self) -> str:
        """Where its sessions listen."""
        return (self.session_address or self.address).rpartition(":")[0]

    @property
    def listening_ports(self) -> tuple[int, int]:
        """The first and the last port for its sessions; 0: any free one."""
        if self.session_ports is not None:
            return self.session_ports[0], self.session_ports[1]
        port = int(self.session_address.rpartition(":")[2]) if self.session_address is not None else 0
        return port, port

    @property
    def announced_host(self) -> str:
        """Where peers reach its sessions."""
        public = self.public_address.rpartition(":")[0] if self.public_address is not None else ""
        return self.session_host or public or self.listening_host


def _read(form: type[Read], content: dict[str, Any], problems: Problems, where: Key) -> Read | None:
    """A table below a key, or None where something is wrong with it."""
    try:
        return read_form(form, content, "")
    except ParameterError as error:
        problems.collect(error, where)
        return None


def _check_coordinator(name: str, content: Mapping[str, Any], folder: object, problems: Problems) -> None:
    """Whether its name is one, and another's, whose certificate is known and in date."""
    here: Key = ("coordinator", "name")
    trust = content.get("trust")
    if not isinstance(trust, TrustStore):
        return
    try:
        check_name(name)
    except ParameterError as error:
        problems.collect(error, here)
        return
    if name == content.get("name"):
        problems.add(here, f'"{name}" is this party itself; the coordinator is none of the parties')
    elif name not in trust.names:
        known = ", ".join(trust.names) or "nobody"
        problems.add(here, f'"{name}" is not in {folder}, which knows {known}')
    elif (problem := out_of_date(trust.pin(name))) is not None:
        problems.add(here, f"its certificate in {folder} {problem}; get its new one")


def _datasets(tables: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """The datasets that can be read, by name; what is no table is left as it is."""
    seen: dict[str, str] = {}
    found: dict[str, Any] = {}
    for name, table in tables.items():
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            problems.add(("datasets", name), f'published under the same name as "{other}"; take another')
        if not isinstance(table, dict):
            found[name] = table
            continue
        own = Problems(problems.source, ("datasets", name))
        dataset = _dataset(name, table, own)
        if own.found:
            problems.broken_by(own)
        elif dataset is not None:
            found[name] = dataset
    return found


def _dataset(name: str, content: dict[str, Any], problems: Problems) -> DatasetSettings | None:
    path = Path(problems.source)
    if not _DATASET.fullmatch(name):
        problems.add(
            (), "cannot name a dataset: letters, digits, _ and - are allowed, at most 63, first a letter or digit"
        )
    keys = _read(DatasetKeys, content, problems, ())
    job = fill(Job, {"attributes": _table(content.get("attributes"))}, problems)
    schema = schema_of(job, job.attributes, path.parent, problems)
    if not (job.attributes or content.get("sensitive") or content.get("class")):
        text = "missing; a dataset has attributes, sensitive columns or a class that can be released"
        problems.add(("attributes",), text)
    for named in schema.names:  # values of a taxonomy are published, and shown to people who decide
        taxonomy = schema[named].taxonomy
        values: Sequence[Any] = taxonomy.nodes if isinstance(taxonomy, Taxonomy) else ()
        problem = next(filter(None, (not_plain(each.name) for each in values)), None)
        if problem is not None:
            problems.add(("attributes", named, "taxonomy"), f"a value in it {problem}")
    policy = None
    with problems.collecting(("policy",)):
        policy = read_policy(_table(content.get("policy")), "")
    if keys is None or policy is None:
        return None
    files = [each.taxonomy for each in job.attributes.values() if each.taxonomy not in (None, "flat")]
    return DatasetSettings(
        name=name,
        keys=keys,
        schema=schema,
        policy=policy,
        path=path,
        files=tuple(path.parent / str(file) for file in files),
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
