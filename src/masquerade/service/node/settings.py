"""A node's configuration: one TOML file, whose problems are all told at once, each with its file and key.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from masquerade.data.schema import Schema
from masquerade.data.source import database_scheme
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import Key, ParameterError, written
from masquerade.forms.form import Form, fill, read_form
from masquerade.forms.problems import Problems
from masquerade.forms.toml import read_toml
from masquerade.job.attributes import schema_of
from masquerade.job.model import Job, TableSection
from masquerade.net.channel import Node, Timings
from masquerade.net.identity import Identity, check_name, out_of_date
from masquerade.net.trust import TrustStore
from masquerade.protocol.method import ASSEMBLER
from masquerade.service.client_certificates import ClientCertificates
from masquerade.service.connections import ConnectionLimits
from masquerade.service.node.forms import CoordinatorForm, DatasetForm, TimingsForm, TopForm
from masquerade.service.plain_text import not_plain, places_not_plain
from masquerade.service.policy import Policy, read_policy

_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)  # it becomes a file's name

Read = TypeVar("Read", bound=Form)


@dataclass(frozen=True)
class DatasetSettings:
    """One dataset: where its table is, what its columns mean, and what is agreed to."""

    name: str
    section: TableSection
    base: Path
    identifier: str
    schema: Schema
    sensitive: tuple[str, ...]
    class_name: str | None
    policy: Policy
    place: str  # where it is written, for errors
    files: tuple[Path, ...]  # of its taxonomies

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, the identifier first."""
        classes = (self.class_name,) if self.class_name is not None else ()
        return tuple(dict.fromkeys((self.identifier, *self.schema.names, *self.sensitive, *classes)))

    @property
    def is_database(self) -> bool:
        """Whether it comes from a database, whose changes cannot be seen from outside."""
        return database_scheme(self.section.source) is not None


@dataclass(frozen=True)
class Settings:
    """Everything that a node needs to know."""

    path: Path
    name: str
    address: str
    public_address: str
    session_host: str  # where sessions listen
    session_ports: tuple[int, int] | None  # None: any free one
    announced_host: str  # where peers reach its sessions
    identity: Identity
    trust: TrustStore
    clients: ClientCertificates
    state: Path
    coordinator: Node
    timings: Timings
    limits: ConnectionLimits
    start_within: float  # seconds until a session that was prepared, and is not started, is dropped
    watch_every: float
    datasets: Mapping[str, DatasetSettings]
    digest: str  # of the file's content, by which it is known again


def read_settings(path: Path) -> Settings:
    """The settings in a file; ParameterError with every problem at once."""
    reader = _Reader(path)
    settings = reader.read(read_toml(path, "configuration", ParameterError))
    reader.problems.settle(ParameterError)
    assert settings is not None  # otherwise something is wrong
    return settings


class _Reader:
    """Gathers what is wrong with one file."""

    def __init__(self, path: Path) -> None:
        self.path, self.base = path, path.parent
        self.problems = Problems(str(path))

    def read(self, content: dict[str, Any]) -> Settings | None:
        self._plain(content)
        if self.problems.found:  # a file that no path can name, for one
            return None
        top = self._form(TopForm, content, ())
        # What is wrong with the file's own keys does not hide what is wrong with its tables.
        tables = {name: _table(content.get(name)) for name in ("coordinator", "timings", "datasets")}
        coordinator = self._form(CoordinatorForm, tables["coordinator"], ("coordinator",))
        timings = self._form(TimingsForm, tables["timings"], ("timings",))
        datasets = [
            self._dataset(name, each) for name, each in tables["datasets"].items() if isinstance(each, dict)
        ]
        self._alike(tables["datasets"])
        if top is None:
            return None
        identity = self._identity(top)
        trust = self._trust(top, coordinator)
        clients = self._clients(top, [each for each in datasets if each is not None])
        if self.problems.found or coordinator is None or timings is None or identity is None or trust is None:
            return None
        assert top.name is not None
        assert top.address is not None
        assert coordinator.address is not None
        here = top.address.rpartition(":")[0]
        host, _, port = (top.session_address or f"{here}:0").rpartition(":")
        ports = (top.session_ports[0], top.session_ports[1]) if top.session_ports is not None else None
        return Settings(
            path=self.path,
            name=top.name,
            address=top.address,
            public_address=top.public_address or top.address,
            session_host=host,
            session_ports=ports or ((int(port), int(port)) if int(port) else None),
            announced_host=top.session_host or (top.public_address or f"{host}:0").rpartition(":")[0],
            identity=identity,
            trust=trust,
            clients=clients,
            state=self.base / top.state,
            coordinator=Node(coordinator.name, coordinator.address),
            timings=Timings(timings.connect, timings.silence, timings.patience),
            limits=ConnectionLimits(top.connections, top.connections_per_address, timings.request),
            start_within=timings.start,
            watch_every=timings.watch,
            datasets={each.name: each for each in datasets if each is not None},
            digest=hashlib.sha256(repr(content).encode(errors="surrogatepass")).hexdigest(),
        )

    def _form(self, form: type[Read], content: dict[str, Any], prefix: Key) -> Read | None:
        """A table, or None where something is wrong with it."""
        try:
            return read_form(form, content, "")
        except ParameterError as error:
            self.problems.collect(error, prefix)
            return None

    def _plain(self, content: dict[str, Any]) -> None:
        """What others will read is plain text; a query may have lines, and a separator may be a tab."""
        for key, problem in places_not_plain(content):
            if not (key[0] == "datasets" and len(key) == 3 and key[2] in ("query", "separator")):
                self.problems.add(key, problem)

    def _alike(self, datasets: Mapping[str, Any]) -> None:
        seen: dict[str, str] = {}
        for name in datasets:
            other = seen.setdefault(name.casefold(), name)
            if other != name:
                self.problems.add(
                    ("datasets", name), f'published under the same name as "{other}"; take another'
                )

    def _dataset(self, name: str, content: dict[str, Any]) -> DatasetSettings | None:
        here: Key = ("datasets", name)
        before = len(self.problems.found)
        if not _DATASET.fullmatch(name):
            self.problems.add(
                here,
                "cannot name a dataset: letters, digits, _ and - are allowed, at most 63, first a letter or digit",
            )
        form = self._form(DatasetForm, content, here)
        problems = Problems(str(self.path), here)
        job = fill(Job, {"attributes": _table(content.get("attributes"))}, problems)
        schema = schema_of(job, job.attributes, self.base, problems)
        if not (job.attributes or content.get("sensitive") or content.get("class")):
            text = "missing; a dataset has attributes, sensitive columns or a class that can be released"
            problems.add(("attributes",), text)
        self.problems.found += problems.found
        self._plain_values(here, schema)
        policy = None
        with self.problems.collecting((*here, "policy")):
            policy = read_policy(_table(content.get("policy")), "")
        if form is None or policy is None or len(self.problems.found) > before:
            return None
        assert form.source is not None
        assert form.id is not None
        files = [each.taxonomy for each in job.attributes.values() if each.taxonomy not in (None, "flat")]
        return DatasetSettings(
            name=name,
            section=TableSection(
                source=form.source,
                query=form.query,
                missing=form.missing,
                missing_values=form.missing_values,
                separator=form.separator,
                encoding=form.encoding,
            ),
            base=self.base,
            identifier=form.id,
            schema=schema,
            sensitive=form.sensitive,
            class_name=form.class_name,
            policy=policy,
            place=f"{self.path}: {written(here)}",
            files=tuple(self.base / str(file) for file in files),
        )

    def _plain_values(self, here: Key, schema: Schema) -> None:
        """Values of a taxonomy are published, and shown to people who decide."""
        for name in schema.names:
            taxonomy = schema[name].taxonomy
            values = taxonomy.nodes if isinstance(taxonomy, Taxonomy) else ()
            problem = next(filter(None, (not_plain(each.name) for each in values)), None)
            if problem is not None:
                self.problems.add((*here, "attributes", name, "taxonomy"), f"a value in it {problem}")

    def _identity(self, top: TopForm) -> Identity | None:
        try:
            identity = Identity.load(self.base / top.identity)
            identity.check_dates()
        except ParameterError as error:
            self.problems.collect(error, ("identity",))
            return None
        if top.name is not None and top.name != identity.name:
            self.problems.add(
                ("name",), f'"{top.name}", but the certificate in {top.identity} is of "{identity.name}"'
            )
        if identity.name == ASSEMBLER:
            self.problems.add(
                ("name",), f'"{ASSEMBLER}" is the name of the one who joins the columns; take another'
            )
        return identity

    def _clients(self, top: TopForm, datasets: Sequence[DatasetSettings]) -> ClientCertificates:
        clients = ClientCertificates()
        with self.problems.collecting(("clients",)):
            clients = ClientCertificates.load(self.base / top.clients)
            for each in datasets:
                if each.policy.signed_requests and not clients:
                    here: Key = ("datasets", each.name, "policy", "signed_requests")
                    self.problems.add(here, f"needs certificates of clients; {top.clients} has none")
        return clients

    def _trust(self, top: TopForm, coordinator: CoordinatorForm | None) -> TrustStore | None:
        try:
            trust = TrustStore.load(self.base / top.trust)
        except ParameterError as error:
            self.problems.collect(error, ("trust",))
            return None
        if coordinator is None:
            return trust
        here: Key = ("coordinator", "name")
        try:
            check_name(coordinator.name)
        except ParameterError as error:
            self.problems.collect(error, here)
            return trust
        if coordinator.name == top.name:
            self.problems.add(
                here, f'"{top.name}" is this party itself; the coordinator is none of the parties'
            )
        elif coordinator.name not in trust.names:
            known = ", ".join(trust.names) or "nobody"
            self.problems.add(here, f'"{coordinator.name}" is not in {top.trust}, which knows {known}')
        elif (problem := out_of_date(trust.pin(coordinator.name))) is not None:
            self.problems.add(here, f"its certificate in {top.trust} {problem}; get its new one")
        return trust


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
