"""A whole house for tests: parties' nodes and a coordinator, in one event loop or as processes of their own.

    with House(tmp_path) as house:
        house.start_nodes()
        with house.coordinator() as coordinator:      # in this process; house.serve() starts one of its own
            ana = house.user("ana")
            session = coordinator.ask(ana, house.request())
            done = house.finished(coordinator, session.id)

Without `processes` messages travel in memory; the rest is real: tables on the disk, the database, the protocols. With
them everything is: TLS, processes, ports, which are free ones and stay so. Waits are on conditions.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

import structlog

from forked import MASQUERADE, Forked
from loop_thread import PATIENCE, Held, LoopThread, in_thread
from masquerade.net import make_trial
from masquerade.service import (
    Accounts,
    Coordinator,
    CoordinatorSettings,
    NodeSettings,
    SessionRecord,
    Status,
    Store,
    User,
    create_app,
    missed_terms,
    running,
    serving,
)
from masquerade.service.resources import MissedQuality
from memory_network import MemoryNetwork
from service.credentials import CHEAP

PASSWORD = "correct horse battery"
OPEN = {
    "access": "public",
    "purposes": ["*"],
    "least_k": 2,
    "share_class": True,
    "show_progress": True,
    "allow_rerelease": True,
    "least_snapshot_interval": 0,
    "alignments": {"per_week": 1000},  # of many tests
}
JOBS = ("baker", "carpenter", "lawyer", "nurse", "teacher", "writer")
TOWNS = ("Aachen", "Bonn", "Celle", "Dachau")

Answer = TypeVar("Answer")


def wait_until(condition: Callable[[], Answer], what: str, patience: float = PATIENCE) -> Answer:
    """The first answer that is true. The longer it takes, the less often is asked, as asking takes time from others."""
    begun = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - begun
        assert waited < patience, f"waited too long: {what}"
        time.sleep(min(0.02 + waited / 10, 0.5))


@contextmanager
def without_log() -> Iterator[None]:
    """A server has its standard output to itself; here it is the tests' own."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


class Ports:
    """Ports for servers that start later. They stay taken until then, and between one server and the next."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def one(self) -> int:
        """A port that nobody is given by chance; who is told it may listen there."""
        held = socket.socket()
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])

    def close(self) -> None:
        for held in self._held:
            held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def write(path: Path, text: str) -> None:
    """All of it at once: who looks at the file meanwhile sees the old one or the new one."""
    half = path.with_name(f".{path.name}")
    half.write_text(text)
    half.replace(path)


@dataclass
class Process:
    """A command that says when it is ready."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def ended(self, patience: float = PATIENCE) -> int:
        """Wait for its end; its exit code."""
        code = self.process.wait(timeout=patience)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def stop(self) -> int:
        """End it as a person does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.ended()


@dataclass
class NodeInMemory:
    """A node in the house's event loop."""

    party: str
    memory: MemoryNetwork
    loop: LoopThread
    held: Held

    def kill(self) -> None:
        """End it without a word to anybody."""
        self.loop.call(self.memory.cut_off, self.party)
        self.stop()
        self.loop.call(self.memory.reached_again, self.party)

    def stop(self) -> int:
        """End it as a person does; 0, the exit code of a process that ends well."""
        self.held.end()
        return 0


def launch(words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Process:
    """Start `masquerade …` and wait for its one line of JSON."""
    with log.open("a") as errors:
        process = Forked(
            [MASQUERADE, *words, "--json"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        raise AssertionError(f"{' '.join(words)} did not start: {log.read_text()[-2000:]}")
    return Process(process, json.loads(line), log)


@dataclass
class House:
    """Two parties (or three) with some people in common, and a coordinator."""

    folder: Path
    parties: tuple[str, ...] = ("bank", "clinic")
    people: int = 200
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by party: what differs from OPEN
    coordinator_keys: str = ""  # more lines of coordinator.toml
    console: bool = False
    prefix: str = ""  # of every identifier, so that it can be looked for
    seed: int = 7
    processes: bool = False
    nodes: dict[str, Any] = field(default_factory=dict)  # Process or NodeInMemory
    servers: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        make_trial(self.folder, ["coordinator", *self.parties])
        self._held = Ports()
        numbers = count(7000)
        self.party_port = self._held.one() if self.processes else next(numbers)
        self.ports = {party: self._held.one() if self.processes else next(numbers) for party in self.parties}
        self.memory = MemoryNetwork()
        for party in self.parties:
            self.write_table(party)
            self.write_node(party)
        self.write_coordinator()

    # --- files ---

    def write_table(self, party: str, people: int | None = None, *, change: str = "") -> None:
        """A party's table; every party lacks some people. `change` makes it another one."""
        rng = random.Random(self.seed)
        lines = []
        for number in range(people or self.people):
            age, job, town = rng.randint(18, 90), rng.choice(JOBS), rng.choice(TOWNS)
            salary, colour = rng.randint(10, 99) * 100, rng.choice(("red", "green", "blue"))
            disease = rng.choice(("flu", "cold", "measles"))
            income = "high" if (age > 50) != (rng.random() < 0.15) else "low"
            name = f"{self.prefix}{number}"
            cells = {"bank": (name, job, salary), "clinic": (name, age, town, disease, income), "shop": (name, colour)}
            if number % 10 != self.parties.index(party):
                lines.append(",".join(map(str, cells[party])))
        if change:
            lines = lines[:-1]
        heads = {"bank": "ssn,job,salary", "clinic": "ssn,age,town,disease,income", "shop": "ssn,colour"}
        write(self.folder / f"{party}.csv", "\n".join([heads[party], *lines]) + "\n")

    def columns(self, party: str) -> str:
        """What a party's columns mean, as its configuration says it."""
        return {
            "bank": 'attributes.job = { taxonomy = "flat" }\nattributes.salary = { type = "continuous" }',
            "clinic": 'sensitive = ["disease"]\nclass = "income"\nattributes.age = { type = "continuous" }\n'
            'attributes.town = { taxonomy = "flat" }',
            "shop": 'attributes.colour = { taxonomy = "flat" }',
        }[party]

    def write_node(self, party: str, **policy: Any) -> Path:
        """A node's configuration; `policy` changes the policy."""
        rules = {**OPEN, **self.policies.get(party, {}), **policy}
        text = f"""
name = "{party}"
address = "127.0.0.1:{self.ports[party]}"
identity = "{party}"
trust = "{party}/trust"
state = "{party}-state"

[coordinator]
address = "127.0.0.1:{self.party_port}"

[timings]
watch = 0.2
silence = 20

[datasets.people]
source = "{party}.csv"
id = "ssn"
{self.columns(party)}

[datasets.people.policy]
{_toml(rules)}
"""
        path = self.folder / f"{party}.toml"
        write(path, text)
        return path

    def write_coordinator(self, keys: str = "", *, state: str = "coordinator-state") -> Path:
        """The coordinator's configuration; `keys` are more lines at its top."""
        sections = "\n".join(f'[parties.{party}]\naddress = "127.0.0.1:{self.ports[party]}"' for party in self.parties)
        more = keys or self.coordinator_keys
        timings = "" if "[timings]" in more else "[timings]\nretry = 0.2\ncomeback = 3\nrefresh = 1\nsilence = 20\n"
        text = f"""
name = "coordinator"
address = "127.0.0.1:0"
party_address = "127.0.0.1:{self.party_port}"
identity = "coordinator"
trust = "coordinator/trust"
state = "{state}"
console = {toml_value(self.console)}
{more}
{timings}
{sections}
"""
        path = self.folder / "coordinator.toml"
        path.write_text(text)
        return path

    # --- processes ---

    def start_nodes(self, *parties: str) -> None:
        for party in parties or self.parties:
            self.start_node(party)

    @cached_property
    def loop(self) -> LoopThread:
        """Where everything runs that is no process."""
        return LoopThread()

    def start_node(self, party: str) -> Any:
        if not self.processes:
            settings = NodeSettings.load(self.folder / f"{party}.toml")
            held = self.loop.hold(lambda: running(settings, network=self.memory.network))
            self.nodes[party] = NodeInMemory(party, self.memory, self.loop, held)
            return self.nodes[party]
        words = ["party", "serve", str(self.folder / f"{party}.toml")]
        self.nodes[party] = launch(words, self.folder / f"{party}.log")
        return self.nodes[party]

    def serve(self) -> Process:
        """A coordinator as a process of its own."""
        words = ["coordinator", "serve", str(self.folder / "coordinator.toml")]
        self.servers.append(launch(words, self.folder / "coordinator.log"))
        return self.servers[-1]

    @contextmanager
    def coordinator(self) -> Iterator[Coordinator]:
        """A coordinator in this process, whose background work runs in a thread."""
        if self.processes:
            with Coordinator(self.settings()) as coordinator, in_thread(coordinator.running):
                yield coordinator
        else:
            with (
                Coordinator(self.settings(), network=self.memory.network) as coordinator,
                self.loop.holding(coordinator.running),
            ):
                yield coordinator

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The address of a coordinator's API in this process, over HTTP."""
        with (
            without_log(),
            Coordinator(self.settings(), network=self.memory.network) as coordinator,
            self.loop.holding(lambda: serving(coordinator, create_app(coordinator))) as address,
        ):
            yield f"http://{address}"

    def settings(self) -> CoordinatorSettings:
        return CoordinatorSettings.load(self.folder / "coordinator.toml")

    def store(self) -> Store:
        """The coordinator's store, beside it."""
        settings = self.settings()
        settings.make_state()
        return Store.open(settings.database, base=settings.state)

    def user(self, name: str, role: str = "analyst") -> User:
        """An account, made when it is missing."""
        with self.store() as store:
            found = store.users.with_hash(name)
            if found is not None:
                return found[0]
            return Accounts(store, hasher=CHEAP).create(name, PASSWORD, role)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        started = [*self.servers, *self.nodes.values()]
        processes = [each for each in started if isinstance(each, Process)]
        for process in processes:
            if process.process.poll() is None:
                process.process.terminate()
        for process in processes:
            try:
                process.ended()
            except subprocess.TimeoutExpired:
                process.kill()
        for node in started:
            if isinstance(node, NodeInMemory):
                node.stop()
        if "loop" in self.__dict__:
            self.loop.__exit__()
        self._held.close()

    # --- requests ---

    def request(self, **changes: Any) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "purpose": "research",
            "attributes": ["age", "job", "salary", "town"],
            "class": "income",
            "budget": 1_000_000,
            "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 4}],
        }
        return wanted | changes

    def known(self, coordinator: Coordinator, user: User) -> None:
        """Wait until a user may ask every party."""
        wait_until(
            lambda: {each.party for each in coordinator.providers(user)} >= set(self.parties),
            "all parties have published",
        )

    def finished(self, coordinator: Coordinator, session_id: str, *also: Status, accepts: bool = True) -> SessionRecord:
        """A session once it ended, or stands where nothing happens without a person.

        With `accepts`, what waits for its losses alone is taken: few people lose much, which is seldom what is tested.
        """
        stops = {Status.AWAITING_CLIENT, *also}

        def looked() -> SessionRecord | None:
            session = coordinator.store.sessions.get(session_id)
            return session if session.status.final or session.status in stops else None

        try:
            session = wait_until(looked, f"session {session_id} ends")
            if accepts and session.status is Status.AWAITING_CLIENT:
                client = self.user(session.client)
                (told,) = coordinator.summaries(client, [session])
                if told.missed is not None and _only_lost(told.missed):
                    return coordinator.accept(client, session_id)
            return session
        except AssertionError:
            told = [(each.kind, dict(each.data)) for each in coordinator.store.events.after(session_id)]
            raise AssertionError(f"session does not end: {told[-8:]}") from None


def _only_lost(missed: MissedQuality) -> bool:
    return bool(missed.lost) and not missed.estimate and not any(missed_terms(dict(missed)))


def _toml(content: Mapping[str, Any]) -> str:
    plain = [f"{key} = {toml_value(value)}" for key, value in content.items() if key != "privacy"]
    for entry in content.get("privacy", []):
        plain.append("[[datasets.people.policy.privacy]]")
        plain += [f"{key} = {toml_value(value)}" for key, value in entry.items()]
    return "\n".join(plain)


def toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
