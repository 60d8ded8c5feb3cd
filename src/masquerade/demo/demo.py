"""`demo`: a coordinator and three party nodes as processes on this machine; a table, a tree and a net asked of them.

Everything is as in a real installation: certificates and trust stores, a SQLite database, a Parquet and a CSV file,
policies with prices, accounts, the HTTP interface. Only the people are fictitious.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from masquerade.client import AsyncClient
from masquerade.data import common_people, generate_people, people_taxonomies, split_people, write_table
from masquerade.demo.scene import (
    ADMIN,
    ANALYST,
    HOLDINGS,
    MODELS,
    checked_people,
    coordinator_configuration,
    free_addresses,
    is_taken,
    model_request,
    request,
    toml_table,
    trusted_job,
)
from masquerade.errors import AnswerIsNo, MasqueradeError, ParameterError, PeerUnreachable, one_line
from masquerade.files import PRIVATE, write_whole
from masquerade.jobs import Child, Supervisor
from masquerade.net import AUTHORITY_FILE, TRUST_FOLDER, TrustStore, run_async, trial_identities
from masquerade.progress import OnStage, Stage, silent
from masquerade.service import Event, PublishedRelease, Session, Status

# --- folder -------------------------------------------------------------------------------------------------
# The files that the demo writes, and which of them it may replace when run again.
#
#     FOLDER/demo.json                        marks the folder as the demo's
#     FOLDER/passwords.toml                   of the accounts, readable by the owner only
#     FOLDER/bank, insurer, clinic            a party: identity, trust, table, taxonomies, party.toml, state
#     FOLDER/coordinator                      identity, trust, coordinator.toml, state
#     FOLDER/analyst                          client.toml, tree.toml, net.toml, token; then release.csv and report.html,
#                                             and each model with its report
#     FOLDER/transcripts                      NAME.audit.jsonl and NAME.pem: each process's record of the session
#     FOLDER/trusted                          the joined table that nobody has, with a job: for comparison
#     FOLDER/logs                             the log of each process
#
# A file of these names that the demo did not write is never touched; other files may lie beside them.

COORDINATOR = "coordinator"
_MARK = "demo.json"
_FOLDERS = (*HOLDINGS, COORDINATOR, "analyst", "transcripts", "trusted", "logs")
# Every file that the demo and its processes write; a folder that ends with "/" belongs to them entirely.
_OURS = (
    *("identity.pem", "key.pem", "trust/", "state/", "taxonomies/", "party.toml", "coordinator.toml"),
    *(holding.file for holding in HOLDINGS.values()),
    *("client.toml", "token", "release.csv", "report.html", "people.csv", "job.toml"),
    *(f"{name}.{kind}" for name in MODELS for kind in ("toml", "json", "html")),
    *(f"{name}.{kind}" for name in (*HOLDINGS, COORDINATOR) for kind in ("log", "audit.jsonl", "pem")),
)


@dataclass(frozen=True)
class DemoFolder:
    """The paths in a demo's folder, and the passwords of its accounts."""

    path: Path
    passwords: Mapping[str, str] = field(repr=False)

    @property
    def passwords_file(self) -> Path:
        """The file with the passwords."""
        return self.path / "passwords.toml"

    @property
    def table(self) -> Path:
        """The release."""
        return self.path / "analyst" / "release.csv"

    @property
    def report(self) -> Path:
        """The report on the release."""
        return self.path / "analyst" / "report.html"

    def model(self, name: str) -> Path:
        """Return the file of a model; its report is beside it."""
        return self.path / "analyst" / f"{name}.json"

    @property
    def transcripts(self) -> Path:
        """The folder with each process's record of the session: every message by kind, size and digest."""
        return self.path / "transcripts"

    @property
    def logs(self) -> Path:
        """The folder with the processes' logs."""
        return self.path / "logs"

    def commands(self) -> dict[str, tuple[str | Path, ...]]:
        """Return the command that starts each process."""
        parties: dict[str, tuple[str | Path, ...]] = {
            name: ("party", "serve", self.path / name / "party.toml") for name in HOLDINGS
        }
        own = self.path / COORDINATOR / "coordinator.toml"
        return {COORDINATOR: ("coordinator", "serve", own), **parties}

    def configure(self, addresses: Mapping[str, str]) -> None:
        """Write the configuration of every process, with everyone's address."""
        parties = {name: addresses[name] for name in HOLDINGS}
        for name, holding in HOLDINGS.items():
            text = holding.configuration(name, addresses[name], addresses[COORDINATOR])
            (self.path / name / "party.toml").write_text(text, encoding="utf-8")
        text = coordinator_configuration(addresses[COORDINATOR], parties)
        (self.path / COORDINATOR / "coordinator.toml").write_text(text, encoding="utf-8")

    def keep_transcripts(self) -> None:
        """Copy the audit logs as they are now, each with the certificate that verifies its seals."""
        for name in (*HOLDINGS, COORDINATOR):
            own = self.path / name
            # Keep the mode: only its owner may read an audit log.
            shutil.copy(own / "state" / "audit.jsonl", self.transcripts / f"{name}.audit.jsonl")
            shutil.copy(own / "identity.pem", self.transcripts / f"{name}.pem")

    def invite(self, url: str, token: str, people: int) -> None:
        """Write what the analyst needs to request a table and the models."""
        write_whole(self.path / "analyst" / "token", token + "\n", PRIVATE)
        where = f'coordinator = "{url}"\ntoken_file = "token"\n\n'
        asked = {"client": request(people)} | {name: model_request(name, people) for name in MODELS}
        for name, wish in asked.items():
            text = where + toml_table("request", wish)
            (self.path / "analyst" / f"{name}.toml").write_text(text, encoding="utf-8")


@contextmanager
def demo_folder(path: Path) -> Iterator[DemoFolder]:
    """Yield the folder, cleared of an earlier demo's files and locked for this process."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        _claim(path)
        descriptor = os.open(path / _MARK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ParameterError(f"--folder {path}: cannot be made: {error.strerror}") from None
    with os.fdopen(descriptor, "r+") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ParameterError(f"--folder {path}: another demo is running in it; take another") from None
        mark.write(json.dumps({"masquerade": "demo"}) + "\n")
        mark.flush()
        try:
            _clear(path)
            passwords = {name: secrets.token_urlsafe(12) for name in (ANALYST, ADMIN)}
            folder = DemoFolder(path, passwords)
            for name in _FOLDERS:
                (path / name).mkdir(exist_ok=True)
            lines = [f'{name} = "{password}"\n' for name, password in passwords.items()]
            write_whole(folder.passwords_file, "".join(lines), PRIVATE)
        except OSError as error:
            raise ParameterError(f"--folder {path}: {error.filename}: {error.strerror}") from None
        yield folder


def write_scene(folder: DemoFolder, people: int, seed: int) -> None:
    """Write new identities, and generated people divided among the parties."""
    names = (COORDINATOR, *HOLDINGS)
    authority, identities = trial_identities(names)
    (folder.path / AUTHORITY_FILE).write_bytes(authority)
    for name, identity in identities.items():
        identity.save(folder.path / name)
        pins = {other: who.certificate for other, who in identities.items() if other != name}
        TrustStore(pins).save(folder.path / name / TRUST_FOLDER)
    everybody = generate_people(people, seed)
    tables = split_people(everybody, seed=seed)
    for name, holding in HOLDINGS.items():
        holding.write(folder.path / name, tables[name])
    trusted = folder.path / "trusted"
    write_table(common_people(everybody, tables), trusted / "people.csv")
    (trusted / "taxonomies").mkdir()
    for name, text in people_taxonomies().items():
        (trusted / "taxonomies" / name).write_text(text, encoding="utf-8")
    (trusted / "job.toml").write_text(trusted_job(), encoding="utf-8")


def _claim(path: Path) -> None:
    """Refuse a folder that has somebody else's files of the demo's names."""
    if (path / _MARK).exists():
        return
    for name in (*_FOLDERS, AUTHORITY_FILE, "passwords.toml"):
        if (path / name).exists():
            raise ParameterError(
                f"--folder {path}: {name} is there already, and the demo did not write it; take another folder"
            )


def _clear(path: Path) -> None:
    """Remove the files of an earlier demo, and nothing else."""
    for name in (AUTHORITY_FILE, "passwords.toml"):
        (path / name).unlink(missing_ok=True)
    for folder in _FOLDERS:
        for name in _OURS:
            if name.endswith("/"):
                if (path / folder / name).is_dir():
                    shutil.rmtree(path / folder / name)
            else:
                (path / folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # it does not exist, or another file is in it
            (path / folder).rmdir()


# --- local services -----------------------------------------------------------------------------------------
# Run a coordinator and party nodes as processes on this machine.

_READY_WITHIN = 120.0  # seconds, on a busy machine
_ATTEMPTS = 5
# What a coordinator and a node have in common, and what a node needs.
_LOADS = ("masquerade.cli.party", "masquerade.service.node.serving", "sklearn.tree")

Commands = Mapping[str, Sequence[str | Path]]


class LocalServices(Supervisor):
    """Running `masquerade … serve` commands by name. The coordinator is stopped first, or it would miss the others."""

    def __init__(self, logs: Path, *, grace: float = 10.0) -> None:
        super().__init__(logs, loads=_LOADS, grace=grace, ended_first=("coordinator",))
        self._drains: set[asyncio.Task[None]] = set()

    async def start(self, name: str, *words: str | Path) -> dict[str, Any]:
        """Run `masquerade WORDS… --json` until it reports that it is ready; return that report."""
        child = await self.spawn(name, "masquerade", *words, "--json")
        try:
            line = await asyncio.wait_for(child.hear(), _READY_WITHIN)
        except TimeoutError:
            raise PeerUnreachable(name, f"is not ready after {_READY_WITHIN:.0f} seconds") from None
        if not line:
            raise self.death(child, await child.wait())
        drain = asyncio.create_task(child.drain())
        self._drains.add(drain)
        drain.add_done_callback(self._drains.discard)
        ready: dict[str, Any] = json.loads(line)
        return ready

    async def start_all(self, commands: Commands) -> dict[str, dict[str, Any]]:
        """Start several at once; return each one's report that it is ready."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {name: group.create_task(self.start(name, *words)) for name, words in commands.items()}
        except BaseExceptionGroup as failures:  # the others were stopped because of the first
            raise failures.exceptions[0] from None
        return {name: task.result() for name, task in tasks.items()}

    async def start_somewhere(
        self, commands: Commands, configure: Callable[[Mapping[str, str]], None]
    ) -> dict[str, dict[str, Any]]:
        """Start all at free addresses, which `configure` writes down first; return each one's report that it is ready.

        All addresses must be known beforehand, and another process may take one in the meantime: then others are tried.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            addresses = dict(zip(commands, free_addresses(len(commands)), strict=True))
            configure(addresses)
            try:
                return await self.start_all(commands)
            except MasqueradeError:
                await self.end()
                if attempt == _ATTEMPTS or not any(map(is_taken, addresses.values())):
                    raise
        raise AssertionError("the last attempt has raised")

    def death(self, child: Child, code: int) -> PeerUnreachable:
        """Return how a service ended, with the last line of its log if it ended by itself."""
        how = "; ".join(super().death(child, code).reasons)
        return PeerUnreachable(child.name, f"{how}{_last_line(child.log) if code > 0 else ''}; its log is {child.log}")


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text("utf-8", errors="replace").split("\n") if line.strip()]
        if lines:
            return f": {one_line(lines[-1])}"
    return ""


_NEEDED = ("adbc_driver_sqlite", "argon2", "fastapi", "httpx", "nicegui", "sklearn", "sqlalchemy", "uvicorn")
_LOOK_AGAIN = 0.1  # seconds
_PUBLISHED_WITHIN = 60.0  # seconds

OnEvent = Callable[[Event], None]


@dataclass(frozen=True)
class Demo:
    """A demo that has produced its release and its models."""

    folder: DemoFolder
    session: Session
    release: PublishedRelease
    models: Mapping[str, PublishedRelease]  # by the name of the file
    url: str  # of the coordinator

    @property
    def console(self) -> str:
        """The URL of the console."""
        return f"{self.url}/console"

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary: that of a mashup, with the console's address."""
        return {
            **self.release.summary,
            "session": self.session.id,
            "table": str(self.folder.table),
            "report": str(self.folder.report),
            "models": {
                name: {
                    "session": model.session,
                    "algorithm": model.summary["algorithm"],
                    "records": model.summary["records"],
                    "metrics": model.summary["metrics"],
                    "model": str(self.folder.model(name)),
                    "report": str(self.folder.model(name).with_suffix(".html")),
                }
                for name, model in self.models.items()
            },
            "transcripts": str(self.folder.transcripts),
            "console": self.console,
            "passwords": str(self.folder.passwords_file),
        }


def run_demo(
    path: Path,
    people: int = 5000,
    seed: int = 7,
    *,
    on_stage: OnStage = silent,
    on_event: OnEvent | None = None,
    on_release: Callable[[Demo], None] | None = None,
    stay: bool = False,
) -> Demo:
    """Run the demo in a folder; call `on_release` once the release exists. With `stay`, run until interrupted.

    All processes have ended when this returns or raises.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]  # libraries that one of the processes needs
    if missing:
        raise ParameterError(f'the demo needs {", ".join(missing)}: pip install "masquerade[all]"')
    checked_people(people)  # before anything is written
    with demo_folder(path) as folder:
        on_stage(Stage(f"generating {people:,} people, certificates and configurations"))
        write_scene(folder, people, seed)
        token = _open_accounts(folder)
        made: list[Demo] = []

        async def whole() -> None:
            async with LocalServices(folder.logs) as services:
                on_stage(Stage("starting the coordinator and three party nodes"))
                ready = await services.start_somewhere(folder.commands(), folder.configure)
                url = str(ready[COORDINATOR]["address"])
                folder.invite(url, token, people)
                made.append(await services.watched(_ask(folder, url, token, on_stage, on_event)))
                if on_release is not None:
                    on_release(made[0])
                if stay:
                    await services.watched(asyncio.Event().wait())

        try:
            run_async(whole())
        except KeyboardInterrupt:
            if not (stay and made):  # otherwise an interrupt is how a demo is meant to end
                raise
        return made[0]


def _open_accounts(folder: DemoFolder) -> str:
    """Create the accounts; return a token of the analyst."""
    from masquerade.service import Accounts, Role, Store

    state = folder.path / COORDINATOR / "state"
    state.mkdir(mode=0o700)
    with Store.open("sqlite:///coordinator.db", base=state) as store:
        accounts = Accounts(store)
        accounts.create(ADMIN, folder.passwords[ADMIN], Role.ADMIN)
        analyst = accounts.create(ANALYST, folder.passwords[ANALYST], Role.ANALYST)
        return accounts.create_token(analyst, "demo", timedelta(days=1))[0]


async def _ask(folder: DemoFolder, url: str, token: str, on_stage: OnStage, on_event: OnEvent | None) -> Demo:
    async with AsyncClient(url, token) as client:
        on_stage(Stage("waiting for the parties to publish their schemas"))
        await _all_published(client)
        on_stage(Stage("asking for a table"))
        session = await client.request(folder.path / "analyst" / "client.toml")
        session = await client.wait(session.id, on_event)
        # With very few people the requested quality is out of reach
        if session.status is Status.AWAITING_CLIENT:
            await client.accept(session.id)
            session = await client.wait(session.id)
        _insist(session)
        on_stage(Stage("downloading the release and its report"))
        release = await client.download(session.id, folder.table)
        await client.report(session.id, folder.report)
        folder.keep_transcripts()
        on_stage(Stage(f"asking for a {' and a '.join(MODELS)}"))
        # All at once.
        asked = {name: await client.request(folder.path / "analyst" / f"{name}.toml") for name in MODELS}
        models = {}
        for name, each in asked.items():
            _insist(await client.wait(each.id))
            models[name] = await client.download(each.id, folder.model(name))
            await client.report(each.id, folder.model(name).with_suffix(".html"))
    return Demo(folder, session, release, models, url)


def _insist(session: Session) -> None:
    if not session.published:
        raise AnswerIsNo(*session.problems)


async def _all_published(client: AsyncClient) -> None:
    """Wait until every party has published a dataset whose table it has read."""
    until = time.monotonic() + _PUBLISHED_WITHIN
    while True:
        there = {
            each.party
            for each in await client.providers()
            if each.reachable and any(dataset.snapshot for dataset in each.datasets)
        }
        missing = [name for name in HOLDINGS if name not in there]
        if not missing:
            return
        if time.monotonic() > until:
            raise PeerUnreachable(missing[0], f"has published nothing after {_PUBLISHED_WITHIN:.0f} seconds")
        await asyncio.sleep(_LOOK_AGAIN)
