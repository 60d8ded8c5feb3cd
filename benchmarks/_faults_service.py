"""One request through a coordinator and two nodes, each a process, with a fault on the way; and once more without.

Nodes and coordinator reach each other's control servers through a proxy, which may cut, delay or corrupt a connection.
"""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from _faults_scenes import PEOPLE
from _faulty_network import Fault, FaultyNetwork
from masquerade.client import Client, SessionFailed
from masquerade.data import generate_people, people_taxonomies
from masquerade.demo.scene import PartyDataset, coordinator_configuration, free_addresses
from masquerade.errors import MasqueradeError, PeerError
from masquerade.net import make_trial
from masquerade.service import Accounts, Role, Session, Store

COORDINATOR = "coordinator"
K = 4
_POLICY = 'access = "public"\npurposes = ["*"]\nleast_k = 2\nalignments = { per_week = 1_000_000 }\n'
_QUICK = "[timings]\nconnect = 20\nsilence = 20\n"
_COLUMNS = {"bank": ("job", "job.yaml"), "clinic": ("town", "town.csv")}
_WISH = {
    "purpose": "research",
    "attributes": ["job", "town", "disease"],
    "privacy": [{"model": "k-anonymity", "qid": ["job", "town"], "k": K}],
    "algorithm": {"name": "tds", "score": "discernibility"},
    "attempts": 3,
}
_SESSION_SECONDS = 6.0  # about what a session takes: faults come within
_PATIENCE = 180.0
_FAULTS = ("kill", "kill", "cut", "delay", "corrupt", "disk")


@dataclass
class House:
    """The processes, and what they were started with."""

    folder: Path
    network: FaultyNetwork
    token: str = field(default="", repr=False)
    url: str = ""
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def furnish(self) -> None:
        """Write certificates, tables, configurations, and an analyst's account."""
        names = (COORDINATOR, *_COLUMNS)
        make_trial(self.folder, list(names))
        people = generate_people(PEOPLE, 7)
        address = dict(zip((*names, "people"), free_addresses(4), strict=True))
        proxy = {name: self.network.through(address[name]) for name in names}
        for name, (column, taxonomy) in _COLUMNS.items():
            sensitive = ["disease"] if name == "clinic" else []
            holding = PartyDataset(
                *("records", f"{name}.csv", "ssn", {column: f'taxonomy = "taxonomies/{taxonomy}"'}, _POLICY),
                sensitive=sensitive,
                taxonomies={taxonomy: people_taxonomies()[taxonomy]},
            )
            holding.write(self.folder / name, people.select(["ssn", column, *sensitive]))
            text = holding.configuration(name, address[name], proxy[COORDINATOR])
            (self.folder / name / "party.toml").write_text(f"{text}\n{_QUICK}watch = 1\n")
        text = coordinator_configuration(
            address[COORDINATOR],
            {name: proxy[name] for name in _COLUMNS},
            f"console = false\nrequests_per_minute = 100000\n{_QUICK}retry = 0.5\nrefresh = 1\ncomeback = 30\n",
        ).replace('address = "127.0.0.1:0"', f'address = "{address["people"]}"', 1)
        (self.folder / COORDINATOR / "coordinator.toml").write_text(text)
        self.url = f"http://{address['people']}"
        state = self.folder / COORDINATOR / "state"
        state.mkdir(mode=0o700)
        with Store.open("sqlite:///coordinator.db", base=state) as store:
            accounts = Accounts(store)
            ana = accounts.create("ana", "a long password", Role.ANALYST)
            self.token = accounts.create_token(ana, "faults", timedelta(days=1))[0]

    def start(self, *names: str) -> None:
        """Start processes at once, and wait until each is ready."""
        for name in names:
            words = ("coordinator", "serve") if name == COORDINATOR else ("party", "serve")
            conf = self.folder / name / ("coordinator.toml" if name == COORDINATOR else "party.toml")
            with self.log(name).open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "masquerade", *words, str(conf), "--json"],
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        for name in names:
            stdout = self.processes[name].stdout
            assert stdout is not None
            if not stdout.readline():
                raise PeerError(name, f"does not start: {self.log(name).read_text()[-500:]}")

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def published(self) -> Session:
        """Ask for the table, again if nobody is there, and wait for the session's end."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with Client(self.url, self.token) as client:
                    ended = client.wait(client.request(_WISH).id, patience=_PATIENCE)
                    return client.accept(ended.id) if ended.status == "awaiting_client" else ended
            except SessionFailed as failed:
                return failed.session
            except MasqueradeError:  # the coordinator or a node is away for the moment
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def end(self) -> Iterator[str]:
        """End all processes, the coordinator first; yield what is wrong with how they end."""
        for name in (COORDINATOR, *_COLUMNS):
            process = self.processes.get(name)
            if process is None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if process.stdout is not None:
                process.stdout.close()
            if code != 0:
                yield f"{name} ended with exit code {code}"
            said = self.log(name).read_text()
            yield from (f"the log of {name} has: {word}" for word in ("Traceback", "unforeseen") if word in said)


def service_violations(dice: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Let a fault happen to a session; what it was, and everything that is wrong afterwards."""
    folder.mkdir()
    what, moment = dice.choice(_FAULTS), dice.uniform(0, _SESSION_SECONDS)
    victim, pause = dice.choice((COORDINATOR, *_COLUMNS)), dice.uniform(0.1, 2.0)
    after, size = int(2 ** dice.uniform(0, 14)), int(2 ** dice.uniform(0, 16))
    action = what if what in ("cut", "delay", "corrupt") else "cut"
    connection = dice.randrange(8) if action == what else -1  # never
    house = House(folder, FaultyNetwork(Fault(action, connection, after, pause if what == "delay" else 0.0)))  # type: ignore[arg-type] # one of the three
    found: list[str] = []

    def happen() -> None:
        time.sleep(moment)
        process = house.processes[victim]
        if what == "kill":
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
            time.sleep(pause)
            house.start(victim)
        elif what == "disk":
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))
            time.sleep(pause)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    try:
        house.furnish()
        house.start(COORDINATOR, *_COLUMNS)
        fault = threading.Thread(target=happen)
        fault.start()
        first = house.published()
        fault.join()
        if not first.published and not (first.cause or first.reasons):
            found.append(f"the session is {first.status} without a cause")
        second = house.published()
        for session in (first, second):
            if session.published:
                found += _about_release(house, session)
        if not second.published:
            found.append(f"without a fault it is then {second.status}: {second.cause} {second.reasons}")
    except MasqueradeError as error:
        found.append(f"{type(error).__name__}: {error}")
    finally:
        found += house.end()
    return f"service: {what}", found


def _about_release(house: House, session: Session) -> Iterator[str]:
    with Client(house.url, house.token) as client:
        table = client.table(session.id)
    groups: dict[tuple[object, ...], int] = {}
    for row in table.select(["job", "town"]).to_pylist():
        groups[tuple(row.values())] = groups.get(tuple(row.values()), 0) + 1
    if table.num_rows != PEOPLE or min(groups.values()) < K:
        yield f"a release of {table.num_rows} records, the smallest group {min(groups.values())}"
