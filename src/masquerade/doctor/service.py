"""The doctor's checks of a party's node and of a coordinator. One error does not hide another."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from masquerade import __version__
from masquerade.audit import head_path, verify
from masquerade.data import PostgresUrl, database_path
from masquerade.doctor.checks import (
    CheckResult,
    clock_check,
    error,
    fine,
    https_checks,
    identity_checks,
    mode_checks,
    problems,
    trust_checks,
    trusting,
    unreachable,
    warning,
    words_of,
)
from masquerade.errors import BadInput, MasqueradeError, PeerError, one_line
from masquerade.files import read_file
from masquerade.net import (
    PROTOCOL_VERSION,
    Identity,
    PartyAddress,
    ProbeResult,
    TrustStore,
    explain,
    party_of,
    probe,
    run_async,
)
from masquerade.progress import OnStage, Stage
from masquerade.report import counted
from masquerade.service import Health, Ledger, Parties, PeerHttp, StateFolder

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from masquerade.service import DatasetSettings


# --- doctor peers -------------------------------------------------------------------------------------------
# The doctor's checks of peers: whether they answer over mutual TLS, their clocks, and their protocol version.
#
# A party knows only its coordinator's address. It compares the other parties' certificates with those that the
# coordinator knows; only a session shows whether they can be reached from here and whether they trust us.

TIMEOUT = 5.0  # seconds for one answer

# Findings on which the probe says more than HTTP; any other means that TLS is not the problem.
_TELLING = (
    ProbeResult.NO_TLS,
    ProbeResult.STRANGER,
    ProbeResult.OUT_OF_DATE,
    ProbeResult.REFUSES_US,
    ProbeResult.NOBODY,
)


async def _peer(name: str, address: str, identity: Identity, trust: TrustStore) -> list[CheckResult]:
    try:
        async with PeerHttp(name, address, identity, trust, timeout=TIMEOUT) as peer:
            before = time.time()
            health: Health = await peer.call("GET", "/v1/health", answer=Health)
            return [*_heard(name, address, health, before, time.time())]
    except PeerError as caught:
        node = PartyAddress(name, address)
        diagnosis = await probe(node, identity, trust)
        told = explain(node, diagnosis, identity, trust) if diagnosis.finding in _TELLING else caught
        return [unreachable(f"peer {name}", words_of(told))]
    except MasqueradeError as caught:  # it answers, but refuses
        return [unreachable(f"peer {name}", f"at {address}: {words_of(caught)}", "its log says why")]


async def other_parties(
    coordinator: str, address: str, identity: Identity, trust: TrustStore, folder: Path
) -> list[CheckResult]:
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


def _compared(name: str, known: str, coordinator: str, trust: TrustStore, folder: Path) -> CheckResult:
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


def _heard(name: str, address: str, health: Health, before: float, after: float) -> list[CheckResult]:
    checks = []
    if health.name != name:
        told = f"at {address}: calls itself {health.name}"
        return [unreachable(f"peer {name}", told, "correct its address or its name")]
    checks.append(fine(f"peer {name}", f"answers at {address}, and accepts our certificate"))
    checks.append(clock_check(name, health.now, before, after))
    if health.protocol != PROTOCOL_VERSION:
        older = "we" if health.protocol > PROTOCOL_VERSION else name
        told = f"{name} speaks protocol {health.protocol}, we speak {PROTOCOL_VERSION}"
        advice = "update Masquerade here" if older == "we" else f"ask the steward of {name} to update Masquerade"
        checks.append(error(f"version {name}", told, advice))
    elif health.version != __version__:
        told = f"{name} has Masquerade {health.version}, we have {__version__}, with the same protocol"
        checks.append(warning(f"version {name}", told, "update the older one when you can"))
    else:
        checks.append(fine(f"version {name}", f"Masquerade {health.version}, protocol {health.protocol}"))
    return checks


# --- doctor node --------------------------------------------------------------------------------------------


def party_checks(path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[CheckResult]:
    """Check everything that `party serve` needs."""
    from masquerade.service import NodeSettings

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


def coordinator_checks(path: Path, content: dict[str, Any], on_stage: OnStage) -> Iterator[CheckResult]:
    """Check everything that `coordinator serve` needs."""
    from masquerade.service import CoordinatorSettings

    state = path.parent / _text(content, "state", "state")
    try:
        settings = CoordinatorSettings.of(content, path)
        held = counted(len(settings.parties), "party", "parties")
        yield fine("configuration", f"{path}: coordinator {settings.name}, {held}")
    except MasqueradeError as caught:
        yield from problems("configuration", caught, BadInput.exit_code)
    parties = content.get("parties")
    parties = parties if isinstance(parties, dict) else {}
    peers = {str(name): _text(section, "address", "") for name, section in parties.items() if isinstance(section, dict)}
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


def _who(
    base: Path, content: Mapping[str, Any], peers: Mapping[str, str]
) -> tuple[Identity | None, TrustStore | None, list[CheckResult]]:
    name = content.get("name")
    folder = base / _text(content, "identity", "identity")
    identity, checks = identity_checks(folder, name if isinstance(name, str) else None)
    trust, more = trust_checks(base / _text(content, "trust", "identity/trust"), peers)
    return identity, trust, checks + more


def _peers(peers: Mapping[str, str], identity: Identity | None, trust: TrustStore | None) -> Iterator[CheckResult]:
    if identity is None or trust is None:
        return  # what is missing was reported, and peers cannot be asked without it
    addresses = {}
    for name, address in peers.items():
        try:
            addresses[name] = PartyAddress(name, address).address
        except MasqueradeError:
            continue  # an error in the file, already reported

    async def each() -> list[list[CheckResult]]:
        known = {name: address for name, address in addresses.items() if name in trust.names}
        return await asyncio.gather(*(_peer(name, address, identity, trust) for name, address in known.items()))

    for checks in run_async(each()):
        yield from checks


def _dataset(party: str, settings: DatasetSettings) -> Iterator[CheckResult]:
    """Read the table as a session would; its snapshot is taken with a throw-away key."""
    from masquerade.service import Dataset

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


# --- stored data --------------------------------------------------------------------------------------------
# The doctor's checks of stored data: state folder, disk, audit log, ledger, database. They change nothing.

LITTLE, TOO_LITTLE = 1 << 30, 100 << 20  # bytes


def state_checks(folder: Path, identity: Identity | None, identity_folder: Path) -> Iterator[CheckResult]:
    """Check that the state folder exists, is ours, private and has space, and that its audit log is intact."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not folder.exists():
        yield warning("state", f"{folder}: is not there yet", "it is made at the first start")
    elif not folder.is_dir():
        yield error("state", f"{folder}: a file, where a folder is expected", "correct state in the configuration")
        return
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield error("state", f"{folder}: may not be read and written", "run doctor as the user that runs the service")
    elif stat.S_IMODE(folder.stat().st_mode) & 0o007:
        yield warning("state", f"{folder}: everybody on this machine may look into it", f"chmod 700 {folder}")
    else:
        yield fine("state", f"{folder}: only its owner may look into it")
    yield _room(there)
    certificates = [] if identity is None else [identity.certificate, *earlier(identity, identity_folder)]
    yield from _audit(folder / "audit.jsonl", certificates)


def earlier(identity: Identity, folder: Path) -> Iterator[bytes]:
    """Yield this identity's earlier certificates that are kept as PEM files in its folder."""
    for path in sorted(folder.glob("*.pem")):
        with suppress(MasqueradeError):  # a key, or another party's certificate
            certificate = read_file(path)
            if certificate != identity.certificate and party_of(certificate, str(path)) == identity.name:
                yield certificate


def _room(folder: Path) -> CheckResult:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as caught:
        return error("disk", f"{folder}: {caught.strerror}")
    detail = f"{free / (1 << 30):.1f} GiB free for {folder}"
    if free < TOO_LITTLE:
        return error("disk", detail, "make room: sessions end when the audit log cannot be written")
    return warning("disk", detail, "make room soon") if free < LITTLE else fine("disk", detail)


def _audit(path: Path, certificates: Sequence[bytes]) -> Iterator[CheckResult]:
    if not path.exists() and not head_path(path).exists():
        yield fine("audit", "the log has not begun")
        return
    try:
        found = verify(path)
        if not found.whole:
            advice = "keep the file as it is, find out who changed it, and restore it from a backup"
            if found.is_missing:
                advice += "; `masquerade audit forget` goes on without"
            yield error("audit", f"{path}: line {found.first_bad}: {found.problem}", advice)
            return
        detail = f"whole: {counted(found.records, 'record')}, {counted(found.sessions, 'session')}"
        if not certificates or not found.seals:
            yield fine("audit", f"{detail}; its seals are not checked")
            return
        sealed = verify(path, certificates=certificates)
    except MasqueradeError as caught:
        yield from problems("audit", caught)
        return
    if sealed.whole:
        yield fine("audit", f"{detail}, sealed up to record {sealed.sealed_up_to}")
    else:
        yield warning(
            "audit",
            f"{detail}; with our certificate, line {sealed.first_bad}: {sealed.problem}",
            "if it was renewed, put the earlier one beside it, under another name that ends in .pem",
        )


def ledger_checks(folder: Path, datasets: Iterable[str]) -> Iterator[CheckResult]:
    """Check that a party's ledger is intact, that the secrets of past releases are present, and all secrets private.

    Report how many datasets it has published.
    """
    state = StateFolder(folder)
    try:
        ledger = Ledger.load(state.ledger)
    except MasqueradeError as caught:
        advice = "keep it as it is, and find out who changed it; until it is restored nothing is offered or signed"
        yield from (error("ledger", problem, advice) for problem in caught.lines)
    else:
        count = len(ledger.records)
        yield fine("ledger", f"whole: {count} release{'' if count == 1 else 's'}")
        lost = (state.lost_secret(name, ledger.releases(name)) for name in datasets)
        yield from (error("secret", problem) for problem in lost if problem is not None)
        if (missing := state.lost_audit(count)) is not None:
            yield error("audit", missing)
    try:
        published = len(state.snapshots.current)
        yield fine("snapshots", f"{counted(published, 'dataset')} published so far")
    except MasqueradeError as caught:
        yield from problems("snapshots", caught)
    for path in sorted([*(folder / "secrets").glob("*.key"), *(folder / "site-keys").glob("*.json")]):
        yield from (check for check in mode_checks("secret", path) if check.status != "ok")


def configuration_checks(folder: Path, digest: str) -> Iterator[CheckResult]:
    """Check that a running node has adopted the configuration as it stands in the file."""
    used = StateFolder(folder).configuration
    if used is not None and used != digest:
        yield warning(
            "configuration",
            "the node runs by an older configuration than the file has (or was killed before it changed)",
            "give it a few seconds; its log says what it does not take over, and why",
        )


def database_checks(url: str, base: Path) -> Iterator[CheckResult]:
    """Check that the database answers and has this version's schema."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError

    address: PostgresUrl | None = None
    try:
        if url.startswith(("postgresql://", "postgres://")):
            address = PostgresUrl.parse(url)
            name = address.shown()
            engine = create_engine("postgresql+psycopg://", creator=_postgres(address))
        elif not url.startswith("sqlite:"):  # the rest of the URL is not repeated
            told = f"{url.partition('://')[0]}://…: not a database for the service"
            yield error("database", told, "allowed are sqlite:///file.db and postgresql://user:password@host/database")
            return
        else:
            path = database_path(url, base)
            name = str(path)
            if not path.exists():
                yield warning("database", f"{name}: is not there yet", "it is made at the first start")
                return
            readable = f"file:{quote(str(path.absolute()))}?mode=ro"
            engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(readable, uri=True, timeout=10))
    except MasqueradeError as caught:
        yield from problems("database", caught)
        return
    try:
        with engine.connect() as connection:
            yield _revision(connection, name)
    except DBAPIError as caught:
        reason = str(caught.orig).strip().partition("\n")[0]
        reason = reason if address is None else address.scrub(reason)
        yield error("database", f"{name}: {one_line(reason)}", "start it, or correct database in the configuration")
    finally:
        engine.dispose()


def _postgres(address: PostgresUrl) -> Any:
    import psycopg

    return lambda: psycopg.connect(address.for_driver())


def _revision(connection: Connection, name: str) -> CheckResult:
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from masquerade.service import VERSION_TABLE, alembic_config

    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    found = set(context.get_current_heads())
    scripts = ScriptDirectory.from_config(alembic_config(connection))
    newest = scripts.get_current_head()
    known = {script.revision for script in scripts.walk_revisions()}
    if found == {newest}:
        return fine("database", f"{name}: answers, revision {newest}")
    if not found:
        return warning("database", f"{name}: answers, and is empty", "its tables are made at the first start")
    if found <= known:
        told = f"{name}: of an older version (revision {', '.join(sorted(found))}, newest is {newest})"
        return warning("database", told, "back it up; it is brought up to date at the next start")
    told = f"{name}: of a newer version (revision {', '.join(sorted(found - known))}, we know {newest})"
    return error("database", told, "update Masquerade, or use another database")
