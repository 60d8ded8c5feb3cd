"""The doctor's checks of stored data: state folder, disk, audit log, ledger, database. They change nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from masquerade.audit.chained_file import head_path
from masquerade.audit.verify import verify
from masquerade.data.file_kinds import database_path
from masquerade.data.read_sql import PostgresUrl
from masquerade.doctor.doctor_certificates import mode_checks
from masquerade.doctor.doctor_check import Check, error, fine, problems, warning
from masquerade.errors import MasqueradeError, one_line
from masquerade.files import read_file
from masquerade.net.identity import Identity, party_of
from masquerade.report.verdict import counted
from masquerade.service.ledger import Ledger
from masquerade.service.node.state import State

if TYPE_CHECKING:
    from sqlalchemy import Connection

LITTLE, TOO_LITTLE = 1 << 30, 100 << 20  # bytes


def state_checks(folder: Path, identity: Identity | None, identity_folder: Path) -> Iterator[Check]:
    """Check that the state folder exists, is ours, private and has space, and that its audit log is intact."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not folder.exists():
        yield warning("state", f"{folder}: is not there yet", "it is made at the first start")
    elif not folder.is_dir():
        yield error(
            "state", f"{folder}: a file, where a folder is expected", "correct state in the configuration"
        )
        return
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield error(
            "state", f"{folder}: may not be read and written", "run doctor as the user that runs the service"
        )
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


def _room(folder: Path) -> Check:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as caught:
        return error("disk", f"{folder}: {caught.strerror}")
    detail = f"{free / (1 << 30):.1f} GiB free for {folder}"
    if free < TOO_LITTLE:
        return error("disk", detail, "make room: sessions end when the audit log cannot be written")
    return warning("disk", detail, "make room soon") if free < LITTLE else fine("disk", detail)


def _audit(path: Path, certificates: Sequence[bytes]) -> Iterator[Check]:
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


def ledger_checks(folder: Path, datasets: Iterable[str]) -> Iterator[Check]:
    """Check that a party's ledger is intact, that the secrets of past releases are present, and all secrets private.

    Report how many datasets it has published.
    """
    state = State(folder)
    try:
        ledger = Ledger.load(state.ledger)
    except MasqueradeError as caught:
        advice = (
            "keep it as it is, and find out who changed it; until it is restored nothing is offered or signed"
        )
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


def configuration_checks(folder: Path, digest: str) -> Iterator[Check]:
    """Check that a running node has adopted the configuration as it stands in the file."""
    used = State(folder).configuration
    if used is not None and used != digest:
        yield warning(
            "configuration",
            "the node runs by an older configuration than the file has (or was killed before it changed)",
            "give it a few seconds; its log says what it does not take over, and why",
        )


def database_checks(url: str, base: Path) -> Iterator[Check]:
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
            yield error(
                "database", told, "allowed are sqlite:///file.db and postgresql://user:password@host/database"
            )
            return
        else:
            path = database_path(url, base)
            name = str(path)
            if not path.exists():
                yield warning("database", f"{name}: is not there yet", "it is made at the first start")
                return
            engine = create_engine("sqlite://", creator=lambda: _read_only(path))
    except MasqueradeError as caught:
        yield from problems("database", caught)
        return
    try:
        with engine.connect() as connection:
            yield _revision(connection, name)
    except DBAPIError as caught:
        reason = str(caught.orig).strip().partition("\n")[0]
        reason = reason if address is None else address.scrub(reason)
        yield error(
            "database", f"{name}: {one_line(reason)}", "start it, or correct database in the configuration"
        )
    finally:
        engine.dispose()


def _postgres(address: PostgresUrl) -> Any:
    import psycopg

    return lambda: psycopg.connect(address.for_driver())


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=10)


def _revision(connection: Connection, name: str) -> Check:
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    from masquerade.service.store.database import VERSION_TABLE, alembic_config

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
