"""A coordinator with users, parties and sessions in its store, and its API on a real server."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn
from fastapi import FastAPI

from fake_clock import FakeClock
from masquerade.net import make_trial
from masquerade.service import (
    Accounts,
    Coordinator,
    CoordinatorSettings,
    Role,
    Scope,
    SessionRecord,
    Status,
    create_app,
)
from masquerade.service.agree.signing import draw_up
from masquerade.service.agree.terms import Deal
from masquerade.service.store import NewRelease
from masquerade.service.wire.control import Published, PublishedDataset
from service.credentials import CHEAP
from service.parties import BANK, CLINIC, NOW, SHOP, carried, policy, request

PARTIES = ("bank", "clinic", "shop")
PASSWORDS = {name: f"the password of {name}" for name in ("ana", "ben", "root")}
WISH: Mapping[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job"],
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 5}],
    "budget": 100_000,
}
TABLE = "age,job\n[20-40),clerk\n[40-60),nurse\n"
REPORT = "<!doctype html><title>a report</title><p>kept apart</p>"
SUMMARY = {"released": 2, "requirements": [{"model": "k-anonymity", "holds": True, "value": 5}]}


@dataclass(frozen=True)
class Room:
    """What a test has: the address of the API, the coordinator behind it, and everybody's token."""

    url: str
    coordinator: Coordinator
    app: FastAPI
    tokens: dict[str, str] = field(repr=False)
    verify: ssl.SSLContext | bool = True

    def client(self, user: str | None = None, **headers: str) -> httpx.Client:
        """A client that shows a user's token, or none."""
        if user is not None:
            headers["Authorization"] = f"Bearer {self.tokens[user]}"
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, verify=self.verify, timeout=900)

    def add_user(self, name: str) -> None:
        """Another analyst, with a token."""
        accounts = self.coordinator.accounts
        self.tokens[name], _ = accounts.create_token(accounts.create(name, f"the password of {name}"), "tests")

    def get(self, path: str, **headers: str) -> httpx.Response:
        """What anybody is answered, outside the API's own paths too."""
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=900)

    def ask(self, user: str = "ana") -> SessionRecord:
        """A new session."""
        return self.coordinator.ask(self.coordinator.store.users.get(user), {**WISH})

    def moved(self, session: SessionRecord, *path: Status, cause: str | None = None) -> SessionRecord:
        """The session after these moves."""
        for status in path:
            session = self.coordinator.store.sessions.advance(session, status, cause if status.final else None)
        return session

    def has_moved(self, session: SessionRecord) -> bool:
        """Whether something has happened to it since."""
        return self.coordinator.store.sessions.get(session.id).version != session.version

    def agreed(self, user: str = "ana") -> SessionRecord:
        """A session whose parties signed."""
        session = self.moved(self.ask(user), Status.NEGOTIATING)
        ended, _ = carried(request(), {"bank": policy(), "clinic": policy()}, (BANK, CLINIC))
        assert isinstance(ended, Deal)
        signed = draw_up(ended, {name: f"key of {name}" for name in PARTIES}, NOW + 600)
        contract = msgspec.to_builtins(signed)
        terms = sha256(b"terms").hexdigest()
        return self.coordinator.store.sessions.agree(session, terms, signed.hash.hex(), contract)

    def assembling(self, user: str = "ana") -> SessionRecord:
        """A session whose table is being joined."""
        return self.moved(self.agreed(user), Status.QUEUED, Status.RUNNING, Status.ASSEMBLING)

    def published(self, user: str = "ana", prices: Mapping[str, int] | None = None) -> SessionRecord:
        """A session with a release."""
        session = self.assembling(user)
        return self.coordinator.store.releases.publish(session, self.files(session), prices or {})

    def held(self, user: str = "ana") -> SessionRecord:
        """A session whose table missed the wished quality."""
        session = self.assembling(user)
        missed = {"error": "0.4", "most_error": "0.3"}
        return self.coordinator.store.releases.hold(session, self.files(session), missed)

    def files(self, session: SessionRecord) -> NewRelease:
        """The files of a release."""
        folder = self.coordinator.settings.releases / session.id
        folder.mkdir()
        (folder / "release.csv").write_text(TABLE)
        pq.write_table(pa.table({"age": ["[20-40)", "[40-60)"], "job": ["clerk", "nurse"]}), folder / "release.parquet")
        (folder / "report.html").write_text(REPORT)
        (folder / "summary.json").write_text(json.dumps(SUMMARY))
        return NewRelease(
            f"{session.id}/release.csv",
            f"{session.id}/report.html",
            sha256(TABLE.encode()).hexdigest(),
            2,
            self.coordinator.clock.now() + timedelta(days=30),
            dict.fromkeys(session.providers, "aa"),
        )


def make_coordinator(folder: Path, clock: FakeClock | None = None, **settings: Any) -> Coordinator:
    """A coordinator with three parties. Everybody may ask bank and clinic; only ben may ask shop."""
    make_trial(folder, ["coordinator", *PARTIES])
    content = {
        "identity": "coordinator",
        "trust": "coordinator/trust",
        "address": "127.0.0.1:0",
        "requests_per_minute": 1_000_000,
        "parties": {name: {"address": "127.0.0.1:1"} for name in PARTIES},
        **settings,
    }
    read = CoordinatorSettings.of(content, folder / "coordinator.toml")
    coordinator = Coordinator(read, clock=clock) if clock is not None else Coordinator(read)
    coordinator.accounts = Accounts(coordinator.store, hasher=CHEAP)
    for name, password in PASSWORDS.items():
        coordinator.accounts.create(name, password, "admin" if name == "root" else "analyst")
    for card in (BANK, CLINIC):
        coordinator.directory.take_in(Published(card.party, (PublishedDataset(card, public=True),)), card.party)
    private = PublishedDataset(SHOP, public=False, users=("ben",))
    coordinator.directory.take_in(Published("shop", (private,)), "shop")
    return coordinator


@contextmanager
def served(coordinator: Coordinator, tls: tuple[Path, Path] | None = None) -> Iterator[Room]:
    """The API of a coordinator on a free port, over HTTP or HTTPS."""
    app = create_app(coordinator)
    tokens = {
        name: coordinator.accounts.create_token(
            user := coordinator.store.users.get(name),
            "tests",
            scopes=[each for each in Scope if each is not Scope.ADMIN or user.role is Role.ADMIN],
        )[0]
        for name in PASSWORDS
    }
    secure = {} if tls is None else {"ssl_certfile": tls[0], "ssl_keyfile": tls[1]}
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", **secure)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    verify: ssl.SSLContext | bool = True if tls is None else ssl.create_default_context(cafile=str(tls[0]))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        host, port = listening.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api")
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            assert server.started
            scheme = "http" if tls is None else "https"
            yield Room(f"{scheme}://{host}:{port}", coordinator, app, tokens, verify)
        finally:
            app.state.streams.close()
            server.should_exit = True
            thread.join()


@contextmanager
def room(folder: Path, clock: FakeClock | None = None, **settings: Any) -> Iterator[Room]:
    """A furnished coordinator, served."""
    with make_coordinator(folder, clock, **settings) as coordinator, served(coordinator) as made:
        yield made


def until(holds: Any, seconds: float = 900) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


def raw(place: Room, request: bytes) -> bytes:
    """What the server answers to bytes that no client library would send."""
    url = httpx.URL(place.url)
    with socket.create_connection((url.host, url.port or 80), timeout=900) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer
