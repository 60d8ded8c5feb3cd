"""The doctor's checks of a party's node and of a coordinator. One error does not hide another."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade import __version__
from masquerade.doctor.doctor_certificates import https_checks, identity_checks, trust_checks, trusting
from masquerade.doctor.doctor_check import Check, error, fine, problems, unreachable, warning, words_of
from masquerade.doctor.state import configuration_checks, database_checks, ledger_checks, state_checks
from masquerade.errors import BadInput, MasqueradeError, PeerError, one_line
from masquerade.net.channel import PROTOCOL_VERSION, Node
from masquerade.net.identity import Identity, TrustStore
from masquerade.net.probe import Finding, explain, probe
from masquerade.net.session import run_async
from masquerade.progress import OnStage, Stage
from masquerade.report.verdict import counted
from masquerade.service.wire.control import Health, Parties
from masquerade.service.wire.peers import PeerHttp

if TYPE_CHECKING:
    from masquerade.service.node.settings import DatasetSettings

# --- doctor peers -------------------------------------------------------------------------------------------
# The doctor's checks of peers: whether they answer over mutual TLS, their clocks, and their protocol
# version.
#
# A party knows only its coordinator's address. It compares the other parties' certificates with those that
# the coordinator knows; only a session shows whether they can be reached from here and whether they trust
# us.

TIMEOUT = 5.0  # seconds for one answer
DIFFERS, TOO_MUCH = 5.0, 60.0  # seconds between two clocks

# Findings on which the probe says more than HTTP; any other means that TLS is not the problem.
_TELLING = (Finding.NO_TLS, Finding.STRANGER, Finding.OUT_OF_DATE, Finding.REFUSES_US, Finding.NOBODY)


async def peer_checks(addresses: Mapping[str, str], identity: Identity, trust: TrustStore) -> list[Check]:
    """Check each peer at its address, all concurrently."""
    known = {name: address for name, address in addresses.items() if name in trust.names}
    found = await asyncio.gather(*(_peer(name, address, identity, trust) for name, address in known.items()))
    return [check for checks in found for check in checks]


async def _peer(name: str, address: str, identity: Identity, trust: TrustStore) -> list[Check]:
    try:
        async with PeerHttp(name, address, identity, trust, timeout=TIMEOUT) as peer:
            before = time.time()
            health: Health = await peer.call("GET", "/v1/health", answer=Health)
            return [*_heard(name, address, health, before, time.time())]
    except PeerError as caught:
        node = Node(name, address)
        diagnosis = await probe(node, identity, trust)
        told = explain(node, diagnosis, identity, trust) if diagnosis.finding in _TELLING else caught
        return [unreachable(f"peer {name}", words_of(told))]
    except MasqueradeError as caught:  # it answers, but refuses
        return [unreachable(f"peer {name}", f"at {address}: {words_of(caught)}", "its log says why")]


async def other_parties(
    coordinator: str, address: str, identity: Identity, trust: TrustStore, folder: Path
) -> list[Check]:
    """Check that our trust store has the peers of our sessions, with the certificates that contracts will name.

    The coordinator is asked for the fingerprints it knows. They are only compared; none is adopted.
    """
    try:
        async with PeerHttp(coordinator, address, identity, trust, timeout=TIMEOUT) as line:
            told: Parties = await line.call("GET", "/v1/parties", answer=Parties)
    except MasqueradeError as caught:  # an older version does not have this call
        return [
            warning(
                "peers",
                f"{coordinator} does not tell whom it knows: {words_of(caught)}",
                "compare your trust store with the other parties' stewards by hand",
            )
        ]
    others = {name: each for name, each in sorted(told.fingerprints.items()) if name != identity.name}
    checks = [_compared(name, known, coordinator, trust, folder) for name, known in others.items()]
    return checks or [warning("peers", f"{coordinator} has no other party", "a session needs two at least")]


def _compared(name: str, known: str, coordinator: str, trust: TrustStore, folder: Path) -> Check:
    name, known = one_line(name), one_line(known)  # sent by another machine
    file = folder / f"{name}.pem"
    if name not in trust.names:
        return warning(
            f"peer {name}",
            f"is not in {folder}: no session together with it",
            f"to compute with it, {trusting('FILE', folder, name)} ({coordinator} knows {known})",
        )
    ours = trust.fingerprint(name)
    if ours != known:
        return error(
            f"peer {name}",
            f"its certificate in {file} has the fingerprint {ours}, and {coordinator} knows {known}: no contract with "
            "it can be signed here",
            f"ask the steward of {name} which of the two is right; replace it by `masquerade identity trust add "
            f"FILE --store {folder} --replace`, or tell the operator of {coordinator}",
        )
    return fine(f"peer {name}", f"has the certificate here that {coordinator} knows, too")


def _heard(name: str, address: str, health: Health, before: float, after: float) -> list[Check]:
    checks = []
    if health.name != name:
        told = f"at {address}: calls itself {health.name}"
        return [unreachable(f"peer {name}", told, "correct its address or its name")]
    checks.append(fine(f"peer {name}", f"answers at {address}, and accepts our certificate"))
    checks.append(clock_check(name, health.now, before, after))
    if health.protocol != PROTOCOL_VERSION:
        older = "we" if health.protocol > PROTOCOL_VERSION else name
        told = f"{name} speaks protocol {health.protocol}, we speak {PROTOCOL_VERSION}"
        advice = (
            "update Masquerade here" if older == "we" else f"ask the steward of {name} to update Masquerade"
        )
        checks.append(error(f"version {name}", told, advice))
    elif health.version != __version__:
        told = f"{name} has Masquerade {health.version}, we have {__version__}, with the same protocol"
        checks.append(warning(f"version {name}", told, "update the older one when you can"))
    else:
        checks.append(fine(f"version {name}", f"Masquerade {health.version}, protocol {health.protocol}"))
    return checks


def clock_check(name: str, now: float, before: float, after: float, grain: float = 0.0) -> Check:
    """Check how far a clock is off, at least: it was read between `before` and `after`, with resolution `grain`."""
    ahead = now - after
    behind = before - now - grain
    difference = max(ahead, behind, 0.0)
    side = "ahead of" if ahead > behind else "behind"
    if difference < DIFFERS:
        return fine(f"clock {name}", "agrees with ours")
    told = f"{difference:.0f} s {side} ours"
    advice = "let both machines take their time from the network (NTP)"
    if difference < TOO_MUCH:
        return warning(f"clock {name}", told, advice)
    return error(f"clock {name}", f"{told}; tokens and certificates are judged by the clock", advice)


# --- doctor node --------------------------------------------------------------------------------------------


def party_checks(path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[Check]:
    """Check everything that `party serve` needs."""
    from masquerade.service.node.settings import NodeSettings

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
    from masquerade.service.coordinator.settings import CoordinatorSettings

    try:
        settings = CoordinatorSettings.of(content, path)
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
