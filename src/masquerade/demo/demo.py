"""`demo`: a coordinator and three party nodes as processes on this machine; a table, a tree and a net asked of them.

Everything is as in a real installation: certificates and trust stores, a SQLite database, a Parquet and a CSV file,
policies with prices, accounts, the HTTP interface. Only the people are fictitious.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from masquerade.client import AsyncClient
from masquerade.demo.demo_scene import ADMIN, ANALYST, HOLDINGS, MODELS, checked_people
from masquerade.demo.folder import COORDINATOR, DemoFolder, LocalServices, demo_folder, write_scene
from masquerade.errors import AnswerIsNo, ParameterError, PeerUnreachable
from masquerade.net.session import run_async
from masquerade.progress import OnStage, Stage, silent
from masquerade.service.resources import Event, PublishedRelease, Session
from masquerade.service.session_states import Status

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
    _check_extras()
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


def _check_extras() -> None:
    """Raise an error if a library that one of the processes needs is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ParameterError(f'the demo needs {", ".join(missing)}: pip install "masquerade[all]"')


def _open_accounts(folder: DemoFolder) -> str:
    """Create the accounts; return a token of the analyst."""
    from masquerade.service.accounts import Accounts
    from masquerade.service.resources import Role
    from masquerade.service.store import Store

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
        if (
            session.status is Status.AWAITING_CLIENT
        ):  # with very few people the requested quality is out of reach
            await client.accept(session.id)
            session = await client.wait(session.id)
        _insist(session)
        on_stage(Stage("downloading the release and its report"))
        release = await client.download(session.id, folder.table)
        await client.report(session.id, folder.report)
        folder.keep_transcripts()
        on_stage(Stage(f"asking for a {' and a '.join(MODELS)}"))
        asked = {
            name: await client.request(folder.path / "analyst" / f"{name}.toml") for name in MODELS
        }  # at once
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
