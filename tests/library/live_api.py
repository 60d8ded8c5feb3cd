"""A coordinator's API on a real socket, without parties: tests move its sessions by hand."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import uvicorn

from masquerade.data import Attribute, Schema, write_table
from masquerade.net import make_trial
from masquerade.service import Accounts, Coordinator, CoordinatorSettings, SessionRecord, Status, User, create_app
from masquerade.service.agree.signing import draw_up
from masquerade.service.agree.terms import Deal, Price, Provision, Terms
from masquerade.service.cards import card_of
from masquerade.service.store import NewRelease
from masquerade.service.wire.control import Published, PublishedDataset
from service.credentials import CHEAP
from service_house import Ports, without_log

REQUEST: dict[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job"],
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 2}],
}
TABLE = pa.table(
    {
        "age": pa.array(["[20, 40)", "[20, 40)", "[40, 60)", "[40, 60)"]).dictionary_encode(),
        "job": ["Any", "Any", 'a "quoted", one', 'a "quoted", one'],
        "weight": [1.5, 2.0, None, 4.25],
    }
)
PASSWORD = "a long enough password"


class LiveApi:
    """The server, its coordinator, and a user with a token."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        make_trial(folder / "trial", ["coordinator", "bank", "shop"])
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        if "https" in settings:
            https = settings["https"]
            lines = [line for line in lines if not line.startswith("https")]
            lines.append(f'https = {{ certificate = "{https[0]}", key = "{https[1]}" }}')
        lines += ['identity = "trial/coordinator"', 'trust = "trial/coordinator/trust"']
        lines += [f'[parties.{name}]\naddress = "127.0.0.1:1"' for name in ("bank", "shop")]
        (folder / "coordinator.toml").write_text("\n".join(lines))
        self.settings = CoordinatorSettings.load(folder / "coordinator.toml")
        self._ports = Ports()  # nobody takes ours while we have stopped
        self.port = self._ports.one()
        self.coordinator: Coordinator
        self._server: uvicorn.Server | None = None
        self.start()
        self.user: User = Accounts(self.coordinator.store, hasher=CHEAP).create("ana", PASSWORD)
        self.token = self.coordinator.accounts.create_token(self.user, "tests")[0]
        publish(self.coordinator, "bank", "age")
        publish(self.coordinator, "shop", "job")

    @property
    def url(self) -> str:
        return f"{self.settings.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, always at the same port."""
        self.coordinator = Coordinator(self.settings)
        app = create_app(self.coordinator)
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        config = uvicorn.Config(
            app,
            log_config=None,
            lifespan="off",
            timeout_graceful_shutdown=2,
            ssl_certfile=self.settings.https.certificate,
            ssl_keyfile=self.settings.https.key,
        )
        self._server = uvicorn.Server(config)
        self._streams = app.state.streams
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        eventually(lambda: bool(self._server and self._server.started))

    def stop(self) -> None:
        """Stop listening; what is stored stays."""
        if self._server is not None:
            self._streams.close()
            self._server.should_exit = True
            self._thread.join(900)
            self._server = None
            self.coordinator.close()

    def end(self) -> None:
        """Stop for good."""
        self.stop()
        self._ports.close()

    # --- a session's course, by hand ---

    def move(self, session_id: str, *states: Status, cause: str | None = None, **details: Any) -> SessionRecord:
        store = self.coordinator.store
        session = store.sessions.get(session_id)
        for state in states:
            if state is Status.AGREED:
                signed = draw_up(_deal(session), {"bank": "b", "shop": "s"}, 4_000_000_000)
                hashes = (signed.deal.terms.hash.hex(), signed.hash.hex())
                session = store.sessions.agree(session, *hashes, msgspec.to_builtins(signed))
            else:
                session = store.sessions.advance(session, state, cause, details)
        return session

    def tell(self, session_id: str, kind: str, data: dict[str, Any]) -> None:
        self.coordinator.store.events.append(session_id, kind, data)

    def to_assembling(self, session_id: str) -> SessionRecord:
        session = self.coordinator.store.sessions.get(session_id)
        states = [Status.NEGOTIATING] if session.status is Status.REQUESTED else []
        return self.move(session_id, *states, Status.AGREED, Status.QUEUED, Status.RUNNING, Status.ASSEMBLING)

    def new_release(self, session_id: str, table: pa.Table = TABLE) -> NewRelease:
        folder = self.settings.releases / session_id
        folder.mkdir(exist_ok=True)
        write_table(table, folder / "release.csv")
        write_table(table, folder / "release.parquet")
        report = "<!doctype html><title>Report</title>"
        (folder / "report.html").write_text(report)
        summary = {"released": len(table), "report_sha256": hashlib.sha256(report.encode()).hexdigest()}
        (folder / "summary.json").write_text(json.dumps(summary))
        sha256 = hashlib.sha256((folder / "release.csv").read_bytes()).hexdigest()
        expires = self.coordinator.clock.now() + timedelta(days=1)
        paths = (f"{session_id}/release.csv", f"{session_id}/report.html")
        return NewRelease(*paths, sha256, len(table), expires, {"bank": "b", "shop": "s"})

    def publish(self, session_id: str) -> SessionRecord:
        session = self.to_assembling(session_id)
        return self.coordinator.store.releases.publish(session, self.new_release(session_id))

    def hold(self, session_id: str, **more: Any) -> SessionRecord:
        session = self.to_assembling(session_id)
        self.tell(session_id, "quality", {"error": 0.4, "most_error": 0.1})
        missed = more or {"error": 0.4, "most_error": 0.1}
        return self.coordinator.store.releases.hold(session, self.new_release(session_id), missed)


def _deal(session: SessionRecord) -> Deal:
    provisions = tuple(Provision(party, "people", f"{session.id} {party}", "") for party in session.providers)
    prices = {party: Price(10, 1) for party in session.providers}
    return Deal(
        Terms(provisions, (), (), {"name": "tds", "score": "discernibility"}),
        session.client,
        session.purpose,
        (),
        prices,
        None,
        0,
    )


def publish(coordinator: Coordinator, party: str, column: str) -> None:
    """What a party's node would push: one public dataset with one column."""
    card = card_of(
        party,
        "people",
        Schema([Attribute(column, taxonomy="flat")]),
        identifier="ssn",
        key=bytes(32),
        records=1234,
        snapshot=hashlib.sha256(party.encode()).hexdigest(),
    )
    coordinator.directory.take_in(Published(party, (PublishedDataset(card, public=True),)), party)


@contextmanager
def live_api(folder: Path, **settings: Any) -> Iterator[LiveApi]:
    """A server that is stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with without_log():
        api = LiveApi(folder, **settings)
        try:
            yield api
        finally:
            api.end()


def eventually(condition: Callable[[], bool], seconds: float = 900.0) -> None:
    """Wait for a condition; the time is a bound for a loaded machine, not an expectation."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
