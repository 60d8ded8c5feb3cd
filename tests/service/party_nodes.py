"""Party nodes for tests: a bank and a clinic with their files, and what a coordinator says to them.

The coordinator here makes the control calls, with the coordinator's identity. Nodes run in the test's own event loop
and are reached in memory, unless their folder says TLS; processes are reached over TLS.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from masquerade.anonymize import VerifiedRelease
from masquerade.net import Agreement, Channel, Identity, Listener, PartyAddress, TrustStore, run_script
from masquerade.net.identity import issue, make_authority
from masquerade.protocol import Assembly
from masquerade.protocol.assembling import assemble
from masquerade.service import NodeSettings, Request, SignedContract, read_request, running
from masquerade.service.agree.negotiation import CounterOffer, negotiate
from masquerade.service.agree.signing import TokenIssuer, draw_up
from masquerade.service.agree.terms import Deal, Offer, Refusal
from masquerade.service.clock import SYSTEM_CLOCK, Clock
from masquerade.service.node.serving import RunningNode
from masquerade.service.wire.control import (
    AskOffer,
    AskSignature,
    ControlLink,
    ControlNotes,
    Pending,
    Prepare,
    Progress,
    ReadyAt,
    Signature,
    Start,
)
from masquerade.service.wire.peers import TLS, Network
from memory_network import MemoryNetwork
from service_house import write

_AUTHORITY = make_authority()
NAMES = ("coordinator", "bank", "clinic", "stranger")
PEOPLE = {name: issue(_AUTHORITY, name) for name in NAMES}
DATASETS = {"bank": "customers", "clinic": "patients"}
COMMON = 60

Result = TypeVar("Result")

JOBS = ("Qzjanitor", "Qzmover", "Qzlawyer", "Qzdoctor")  # leaves, which nothing that is published may hold
TOWNS = ("Qzulm", "Qzgraz", "Qzbern")
DISEASES = ("Qzflu", "Qzgout", "Qzcold")

POLICY: Mapping[str, Any] = {"access": "public", "purposes": ["research"], "least_k": 3}
WISH: Mapping[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job", "salary", "town", "disease"],
    "class": "income",
    "budget": 0,
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 4}],
}


def now() -> int:
    return int(datetime.now(UTC).timestamp())


def trust_of(name: str) -> TrustStore:
    return TrustStore({other: who.certificate for other, who in PEOPLE.items() if other != name})


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def wish(**changes: Any) -> Request:
    return read_request(dict(WISH) | changes).asked_by("ana")


@dataclass
class Folder:
    """A folder with a node's files for each party."""

    path: Path
    coordinator: str = "127.0.0.1:1"  # nobody is there
    network: Network = field(default_factory=lambda: MemoryNetwork().network)
    clock: Clock = SYSTEM_CLOCK
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("bank", "clinic"):
            home = self.path / name
            PEOPLE[name].save(home / "identity")
            trust_of(name).save(home / "identity" / "trust")
            self.policies[name] = dict(POLICY)
        self.policies["bank"]["share_class"] = True
        (self.path / "bank" / "job.csv").write_text(
            "".join(f"{job};{'Manual' if job in JOBS[:2] else 'Office'};AnyJob\n" for job in JOBS)
        )
        (self.path / "clinic" / "town.csv").write_text("".join(f"{town};AnyTown\n" for town in TOWNS))
        self.write_tables()
        for name in DATASETS:
            self.write_conf(name)

    def conf(self, name: str) -> Path:
        return self.path / name / f"{name}.toml"

    def state(self, name: str) -> Path:
        return self.path / name / "state"

    def audited(self, name: str, event: str) -> list[dict[str, Any]]:
        """The fields of each such event in a node's audit log."""
        lines = map(json.loads, (self.state(name) / "audit.jsonl").read_text().splitlines())
        return [line["fields"] for line in lines if line["event"] == event]

    def write_tables(self, salary: int = 30, people: int = COMMON) -> None:
        """The same people at both, and a few at one only."""
        customers = [
            f"{1000 + at},{JOBS[at % 4]},{salary + at % 7},{'high' if at % 4 > 1 else 'low'},note{at}"
            for at in [*range(people), *range(9000, 9005)]
        ]
        patients = [
            f"{1000 + at},{20 + at % 11},{TOWNS[at % 3]},{DISEASES[at % 3]}"
            for at in [*reversed(range(people)), *range(8000, 8003)]
        ]
        write(self.path / "bank" / "customers.csv", "\n".join(["ssn,job,salary,income,remark", *customers]) + "\n")
        write(self.path / "clinic" / "patients.csv", "\n".join(["ssn,age,town,disease", *patients]) + "\n")

    def write_conf(self, name: str, *, extra: str = "", start: int = 900, **policy: Any) -> Path:
        self.policies[name] |= policy
        dataset = DATASETS[name]
        columns = {
            "bank": '[datasets.customers.attributes.job]\ntaxonomy = "job.csv"\n'
            '[datasets.customers.attributes.salary]\ntype = "continuous"\nmin = 0\nmax = 4711\n',
            "clinic": '[datasets.patients.attributes.age]\ntype = "continuous"\n'
            '[datasets.patients.attributes.town]\ntaxonomy = "town.csv"\n',
        }[name]
        roles = {"bank": 'class = "income"', "clinic": 'sensitive = ["disease"]'}[name]
        rules = "\n".join(f"{key} = {_toml(value)}" for key, value in self.policies[name].items())
        write(
            self.conf(name),
            f'name = "{name}"\naddress = "127.0.0.1:0"\n{extra}\n'
            f'[coordinator]\naddress = "{self.coordinator}"\n'
            f"[timings]\nconnect = 900\nsilence = 900\nwatch = 0.2\nstart = {start}\n"
            f'[datasets.{dataset}]\nsource = "{dataset}.csv"\nid = "ssn"\n{roles}\n'
            f"{columns}[datasets.{dataset}.policy]\n{rules}\n",
        )
        return self.conf(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


@dataclass
class Coordinator:
    """What a coordinator says to its nodes."""

    https: dict[str, ControlLink] = field(default_factory=dict)
    identity: Identity = PEOPLE["coordinator"]
    network: Network = TLS

    async def offer(self, party: str, request: Request) -> Offer | Refusal:
        ask = AskOffer("s1", DATASETS[party], request.content())
        answer: Offer | Refusal = await self.https[party].call("POST", "/v1/offers", ask, answer=Offer | Refusal)
        return answer

    async def deal(self, request: Request | None = None) -> Deal:
        """All rounds of a negotiation that ends well."""
        wished = request or wish()
        earlier: list[CounterOffer] = []
        while True:
            asked = earlier[-1].request if earlier else wished
            answers = [await self.offer(party, asked) for party in self.https]
            ended = negotiate(wished, answers, earlier)
            if isinstance(ended, CounterOffer):
                earlier.append(ended)
                continue
            assert isinstance(ended, Deal), ended
            return ended

    def draw_up(self, deal: Deal, expiry: int | None = None, attempt: int = 1) -> SignedContract:
        keys = {party: PEOPLE[party].fingerprint for party in deal.terms.parties}
        return draw_up(deal, keys, expiry or now() + 600, attempt)

    async def ask_signature(self, party: str, contract: SignedContract) -> Signature | Pending | Refusal:
        answer: Signature | Pending | Refusal = await self.https[party].call(
            "POST", "/v1/contracts", AskSignature("s1", contract), answer=Signature | Pending | Refusal
        )
        return answer

    async def sign(self, contract: SignedContract) -> SignedContract:
        """The contract with everybody's signature."""
        for party in contract.parties:
            given = await self.ask_signature(party, contract)
            assert isinstance(given, Signature), given
            contract = contract.with_signature(party, bytes.fromhex(given.signature))
        return contract

    async def signed(self, request: Request | None = None) -> SignedContract:
        return await self.sign(self.draw_up(await self.deal(request)))

    def token(self, party: str, contract: SignedContract) -> str:
        return TokenIssuer(self.identity).issue(party, contract.hash.hex())

    async def prepare(self, party: str, contract: SignedContract, token: str | None = None) -> ReadyAt | Refusal:
        ask = Prepare("s1", contract, token or self.token(party, contract))
        answer: ReadyAt | Refusal = await self.https[party].call("POST", "/v1/sessions", ask, answer=ReadyAt | Refusal)
        return answer

    async def prepare_all(self, contract: SignedContract) -> dict[str, str]:
        addresses = {}
        for party in contract.parties:
            ready = await self.prepare(party, contract)
            assert isinstance(ready, ReadyAt), ready
            addresses[party] = ready.address
        return addresses

    async def start(self, party: str, contract: SignedContract, addresses: Mapping[str, str]) -> Progress:
        path = f"/v1/sessions/{contract.hash.hex()}/start"
        answer: Progress = await self.https[party].call("POST", path, Start(dict(addresses)), answer=Progress)
        return answer

    async def progress(self, party: str, contract: SignedContract) -> Progress:
        path = f"/v1/sessions/{contract.hash.hex()}"
        answer: Progress = await self.https[party].call("GET", path, answer=Progress)
        return answer

    async def cancel(self, party: str, contract: SignedContract) -> Progress:
        path = f"/v1/sessions/{contract.hash.hex()}"
        answer: Progress = await self.https[party].call("DELETE", path, answer=Progress)
        return answer

    async def ended(self, party: str, contract: SignedContract) -> Progress:
        """How the session ended at a party."""
        while True:
            progress = await self.progress(party, contract)
            if progress.state not in ("ready", "running"):
                return progress
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        async with self.network.listen(self.identity, trust_of("coordinator")) as listener:
            yield listener

    async def start_all(self, contract: SignedContract, listener: Listener, addresses: Mapping[str, str]) -> None:
        book = {**addresses, "coordinator": listener.address}
        for party in contract.parties:
            await self.start(party, contract, book)

    @asynccontextmanager
    async def together(self, contract: SignedContract) -> AsyncIterator[dict[str, Channel]]:
        """A session that all parties have begun, with channels to each, and an assembler that says nothing."""
        async with self.listening() as listener:
            addresses = await self.prepare_all(contract)
            await self.start_all(contract, listener, addresses)
            async with self.connected(contract, listener, addresses) as channels:
                yield channels

    @asynccontextmanager
    async def held(self, contract: SignedContract) -> AsyncIterator[dict[str, Channel]]:
        """The same in which every party has handed in: one to watch."""
        async with self.together(contract) as channels:
            for party in contract.parties:
                while (await self.progress(party, contract)).stage.name != "handing in":
                    await asyncio.sleep(0.02)
            yield channels

    @asynccontextmanager
    async def connected(
        self, contract: SignedContract, listener: Listener, addresses: Mapping[str, str]
    ) -> AsyncIterator[dict[str, Channel]]:
        peers = [PartyAddress(party, addresses[party]) for party in contract.parties]
        async with listener.connect(peers, Agreement(contract.hash, contract.deal.terms.version)) as channels:
            yield channels

    async def release(self, contract: SignedContract) -> VerifiedRelease:
        """A whole session, with the coordinator as assembler."""
        async with self.listening() as listener:
            addresses = await self.prepare_all(contract)
            await self.start_all(contract, listener, addresses)
            return await self.assembled(contract, listener, addresses)

    async def assembled(
        self, contract: SignedContract, listener: Listener, addresses: Mapping[str, str]
    ) -> VerifiedRelease:
        async with self.connected(contract, listener, addresses) as channels:
            release: VerifiedRelease = await run_script(assemble(Assembly(contract.contract)), channels)
            return release


@dataclass
class World:
    """Running nodes, and the coordinator that talks to them."""

    folder: Folder
    nodes: dict[str, RunningNode]
    coordinator: Coordinator

    def http(self, who: str, peer: str, notes: ControlNotes | None = None) -> Any:
        return http(who, peer, self.nodes[peer].address, notes, self.folder.network)


@asynccontextmanager
async def world(folder: Folder, *parties: str) -> AsyncIterator[World]:
    """Nodes in this event loop."""
    async with AsyncExitStack() as stack:
        nodes, https = {}, {}
        for name in parties or tuple(DATASETS):
            settings, network = NodeSettings.load(folder.conf(name)), folder.network
            node = await stack.enter_async_context(running(settings, folder.clock, network))
            nodes[name] = node
            link = http("coordinator", name, node.address, network=network)
            https[name] = await stack.enter_async_context(link)
        yield World(folder, nodes, Coordinator(https, network=network))


def http(who: str, peer: str, address: str, notes: ControlNotes | None = None, network: Network = TLS) -> Any:
    return network.link(peer, address, PEOPLE[who], trust_of(who), notes=notes)


def run(part: Coroutine[Any, Any, Result]) -> Result:
    """A test's part in a loop of its own; nothing that is waited for takes this long."""

    async def bounded() -> Result:
        async with asyncio.timeout(300):
            return await part

    return asyncio.run(bounded())
