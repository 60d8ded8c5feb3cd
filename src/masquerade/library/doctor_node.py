"""The doctor's checks of a party's node and of a coordinator. One error does not hide another."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.errors import BadInput, MasqueradeError
from masquerade.library.doctor_certificates import https_checks, identity_checks, trust_checks
from masquerade.library.doctor_check import Check, error, fine, problems
from masquerade.library.doctor_peers import other_parties, peer_checks
from masquerade.library.doctor_state import configuration_checks, database_checks, ledger_checks, state_checks
from masquerade.net.channel import Node
from masquerade.net.identity import Identity
from masquerade.net.progress import OnStage, Stage
from masquerade.net.running import run_async
from masquerade.net.trust import TrustStore
from masquerade.report.wording import counted

if TYPE_CHECKING:
    from masquerade.service.node.settings import DatasetSettings


def party_checks(path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[Check]:
    """Check everything that `party serve` needs."""
    from masquerade.service.node.settings import Settings as NodeSettings

    try:
        settings = NodeSettings.load(path)
        held = counted(len(settings.datasets), "dataset")
        yield fine("configuration", f"{path}: party {settings.name}, {held}")
    except MasqueradeError as caught:
        settings = None
        yield from problems("configuration", caught, BadInput.exit_code)
    section = content.get("coordinator")
    section = section if isinstance(section, dict) else {}
    coordinator = _text(section, "name", "coordinator")
    peers = {coordinator: _text(section, "address", "")}
    identity, trust, checks = _who(path.parent, content, peers)
    yield from checks
    state = path.parent / _text(content, "state", "state")
    on_stage(Stage("reading the audit log"))
    yield from state_checks(state, identity, path.parent / _text(content, "identity", "identity"))
    datasets = content.get("datasets")
    yield from ledger_checks(state, map(str, datasets) if isinstance(datasets, dict) else ())
    if settings is not None:
        yield from configuration_checks(state, settings.digest)
        for name, dataset in settings.datasets.items():
            on_stage(Stage(f"reading {name}"))
            yield from _dataset(settings.name, dataset)
    on_stage(Stage(f"asking {coordinator}"))
    found = list(_peers(peers, identity, trust))
    yield from found
    answers = any(check.name == f"peer {coordinator}" and check.status == "ok" for check in found)
    if identity is not None and trust is not None and answers:
        folder = path.parent / _text(content, "trust", "identity/trust")
        yield from run_async(other_parties(coordinator, peers[coordinator], identity, trust, folder))


def coordinator_checks(path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[Check]:
    """Check everything that `coordinator serve` needs."""
    state = path.parent / _text(content, "state", "state")
    yield from _coordinator_file(path, content)
    parties = content.get("parties")
    parties = parties if isinstance(parties, dict) else {}
    peers = {
        str(name): _text(section, "address", "")
        for name, section in parties.items()
        if isinstance(section, dict)
    }
    identity, trust, checks = _who(path.parent, content, peers)
    yield from checks
    on_stage(Stage("reading the audit log"))
    yield from state_checks(state, identity, path.parent / _text(content, "identity", "identity"))
    on_stage(Stage("asking the database"))
    yield from database_checks(_text(content, "database", "sqlite:///coordinator.db"), state)
    https = content.get("https")
    if isinstance(https, dict):
        files = [path.parent / _text(https, key, "") for key in ("certificate", "key")]
        yield from https_checks(*files)
    else:
        yield fine("https", "plain HTTP, for this machine alone")
    if peers:
        on_stage(Stage(f"asking {', '.join(peers)}"))
    yield from _peers(peers, identity, trust)


def _coordinator_file(path: Path, content: dict[str, Any]) -> Iterator[Check]:
    from masquerade.service.coordinator.settings import Settings

    try:
        settings = Settings.of(content, path)
        parties = counted(len(settings.parties), "party", "parties")
        yield fine("configuration", f"{path}: coordinator {settings.name}, {parties}")
    except MasqueradeError as caught:
        yield from problems("configuration", caught, BadInput.exit_code)


def _who(
    base: Path, content: Mapping[str, Any], peers: Mapping[str, str]
) -> tuple[Identity | None, TrustStore | None, list[Check]]:
    name = content.get("name")
    folder = base / _text(content, "identity", "identity")
    identity, checks = identity_checks(folder, name if isinstance(name, str) else None)
    trust, more = trust_checks(base / _text(content, "trust", "identity/trust"), peers)
    return identity, trust, checks + more


def _peers(peers: Mapping[str, str], identity: Identity | None, trust: TrustStore | None) -> Iterator[Check]:
    if identity is None or trust is None:
        return  # what is missing was reported, and peers cannot be asked without it
    addresses = {}
    for name, address in peers.items():
        try:
            addresses[name] = Node(name, address).address
        except MasqueradeError:
            continue  # an error in the file, already reported
    yield from run_async(peer_checks(addresses, identity, trust))


def _dataset(party: str, settings: DatasetSettings) -> Iterator[Check]:
    """Read the table as a session would; its snapshot is taken with a throw-away key."""
    from masquerade.service.node.datasets import Dataset

    name = f"dataset {settings.name}"
    try:
        reading = Dataset(party, settings, secrets.token_bytes(32)).check()
    except MasqueradeError as caught:
        yield from problems(name, caught)
        return
    columns = len(settings.columns)
    if not len(reading.table):
        yield error(name, "no record", "correct its source or its query")
        return
    size = f"{counted(len(reading.table), 'record')}, {counted(columns, 'column')}"
    yield fine(name, f"{size}, identifiers unique, taxonomies cover it")


def _text(content: Mapping[str, Any], key: str, default: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) and value else default
