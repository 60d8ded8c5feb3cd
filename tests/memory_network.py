"""Coordinator and nodes in one process and one event loop, without TLS, ports or sockets.

    memory = MemoryNetwork()
    async with running(settings, network=memory.network): ...

Certificates are compared as pins, handshakes and channels are the real ones; only bytes travel by queue. A node can be
cut off, as if it were killed, and frozen, as if it were stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Self

from masquerade.errors import ParameterError, PeerRefused, PeerUnreachable
from masquerade.net import Identity, PartyAddress, ProbeResult, TrustStore, listen
from masquerade.net.connect import Transport
from masquerade.net.probing import Diagnosis
from masquerade.net.stream_channel import Handler, StreamBroke
from masquerade.service.clock import SYSTEM_CLOCK, Clock, wait
from masquerade.service.wire import peers as mutual_tls
from masquerade.service.wire.control import ControlLink, ControlNotes
from masquerade.service.wire.peers import Network


@dataclass(eq=False)
class Place:
    """Somebody who listens at an address: for control calls (`app`), or for the peers of a session (`talk`)."""

    identity: Identity
    trust: TrustStore
    app: Any = None
    talk: Handler | None = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def begin(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class MemoryNetwork:
    """Everybody who listens, by address, and every open stream."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.places: dict[str, Place] = {}
        self.pipes: set[Pipe] = set()
        self.gone: set[str] = set()
        self.frozen: dict[str, asyncio.Event] = {}
        self._ports = count(20_000)
        transport = Transport(self._dial, self._probe, self._accept)
        self.network = Network(self._link, self._serve, partial(listen, transport=transport), self._check_free)

    # --- misfortunes ---

    def cut_off(self, name: str) -> None:
        """Nobody reaches this node any more, and what it says is lost, until it is `reached_again`."""
        self.gone.add(name)
        for pipe in [each for each in self.pipes if name in each.names]:
            pipe.break_off()

    def reached_again(self, name: str) -> None:
        self.gone.discard(name)

    def freeze(self, name: str) -> None:
        """Connections to this node stay, and it says nothing, until it is thawed."""
        self.frozen.setdefault(name, asyncio.Event())

    def thaw(self, name: str) -> None:
        self.frozen.pop(name).set()

    async def awake(self, name: str) -> None:
        if name in self.frozen:
            await self.frozen[name].wait()

    # --- control calls ---

    def _link(
        self,
        peer: str,
        address: str,
        identity: Identity,
        trust: TrustStore,
        *,
        timeout: float = 30.0,
        notes: ControlNotes | None = None,
    ) -> MemoryLink:
        return MemoryLink(self, peer, PartyAddress(peer, address).address, identity, trust, timeout, notes)

    @asynccontextmanager
    async def _serve(
        self, app: Any, address: str, identity: Identity, trust: TrustStore, _limits: object = None
    ) -> AsyncIterator[str]:
        identity.check_dates()
        place = Place(identity, trust, app=app)
        address = self._take(address, place)
        try:
            yield address
        finally:
            del self.places[address]
            if place.tasks:
                await asyncio.wait(place.tasks, timeout=5)

    def _check_free(self, address: str) -> None:
        if address in self.places:
            raise ParameterError(f"{address}: cannot listen here; is the port taken, or the address another machine's?")

    def _take(self, address: str, place: Place) -> str:
        if address.endswith(":0"):
            address = f"{address.removesuffix(':0')}:{next(self._ports)}"
        self._check_free(address)
        self.places[address] = place
        return address

    def found(self, address: str, caller: Identity) -> Place | None:
        """Who listens at an address, as far as the caller can tell."""
        place = self.places.get(address)
        return None if place is None or {place.identity.name, caller.name} & self.gone else place

    # --- streams ---

    def _dial(self, peer: PartyAddress, identity: Identity, trust: TrustStore) -> End:
        place = self.found(peer.address, identity)
        pipe = Pipe(self, identity, peer.name)
        if place is None or place.talk is None or not knows(place, peer.name, identity, trust):
            pipe.break_off()
        else:
            place.begin(_answered(place.talk, pipe))
        return pipe.dialled

    async def _probe(self, peer: PartyAddress, identity: Identity, trust: TrustStore) -> Diagnosis:
        place = self.found(peer.address, identity)
        if place is None:
            return Diagnosis(ProbeResult.NOBODY)
        if peer.name in self.frozen:
            return Diagnosis(ProbeResult.MUTE)
        if place.identity.certificate != trust.pin(peer.name):
            return Diagnosis(ProbeResult.STRANGER, place.identity.certificate)
        return Diagnosis(
            ProbeResult.FINE if knows(place, peer.name, identity, trust) else ProbeResult.REFUSES_US,
            place.identity.certificate,
        )

    async def _accept(
        self, address: str, identity: Identity, trust: TrustStore, talk: Handler
    ) -> tuple[Accepting, int]:
        try:
            address = self._take(address, place := Place(identity, trust, talk=talk))
        except ParameterError:
            raise OSError from None
        return Accepting(self, address, place), int(address.rpartition(":")[2])


def knows(place: Place, peer: str, caller: Identity, trust: TrustStore) -> bool:
    """Whether both sides have each other's certificate in their trust stores."""
    theirs = caller.name in place.trust.names and place.trust.pin(caller.name) == caller.certificate
    return theirs and place.identity.certificate == trust.pin(peer)


@dataclass
class Accepting:
    """A server of streams."""

    memory: MemoryNetwork
    address: str
    place: Place

    async def stop(self, _grace: float | None) -> None:
        del self.memory.places[self.address]
        for task in self.place.tasks:
            task.cancel()
        await asyncio.gather(*self.place.tasks, return_exceptions=True)


class Pipe:
    """Two ends; whoever ends it, both hear what was said before."""

    def __init__(self, memory: MemoryNetwork, caller: Identity, peer: str) -> None:
        self.memory, self.names, self.broken = memory, {caller.name, peer}, False
        self.dialled, self.accepted = End(self, caller.name, caller), End(self, peer, caller)
        memory.pipes.add(self)

    def break_off(self) -> None:
        self.broken = True
        self.memory.pipes.discard(self)
        for end in (self.dialled, self.accepted):
            end.ended.set()
            end.inbox.put_nowait(None)


class End:
    """One end of a pipe."""

    caller = "127.0.0.1:1"
    has_room = False  # so that channels use `write`, which may have to wait

    def __init__(self, pipe: Pipe, owner: str, dialler: Identity) -> None:
        self._pipe, self._owner, self.certificate = pipe, owner, dialler.certificate
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.ended = asyncio.Event()

    async def read(self) -> bytes | None:
        frame = await self.inbox.get()
        if frame is None:
            self.inbox.put_nowait(None)
            raise StreamBroke
        return frame

    async def write(self, frame: bytes) -> None:
        pipe = self._pipe
        await pipe.memory.awake(self._owner)
        if pipe.broken:
            raise StreamBroke
        (pipe.accepted if self is pipe.dialled else pipe.dialled).inbox.put_nowait(frame)

    def write_at_once(self, frame: bytes) -> None:
        raise AssertionError("there is no room")

    async def end(self) -> None:
        if not self._pipe.broken:
            self._pipe.break_off()


async def _answered(talk: Handler, pipe: Pipe) -> None:
    try:
        await talk(pipe.accepted)
    finally:
        await pipe.accepted.end()


class MemoryLink(ControlLink):
    """Calls an ASGI application as if over HTTP."""

    def __init__(
        self,
        memory: MemoryNetwork,
        peer: str,
        address: str,
        identity: Identity,
        trust: TrustStore,
        timeout: float,
        notes: ControlNotes | None,
    ) -> None:
        super().__init__(peer, notes)
        self._memory, self.address, self._timeout = memory, address, timeout
        self.identity, self._trust = identity, trust

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def exchange(self, method: str, path: str, content: bytes | None, timeout: float | None) -> tuple[int, bytes]:
        memory = self._memory
        place = memory.found(self.address, self.identity)
        if place is None or place.app is None:
            raise PeerUnreachable(self.peer, f"nobody answers at {self.address}; start it, or correct its address")
        if not knows(place, self.peer, self.identity, self._trust):
            raise PeerRefused(self.peer, f"at {self.address}: one side does not know the other's certificate")
        answering = place.begin(self._answered(place, method, path, content or b""))
        if not await wait(memory.clock, {answering}, self._timeout if timeout is None else timeout):
            raise PeerUnreachable(self.peer, f"did not answer at {self.address} in time; is it frozen, or overloaded?")
        if memory.found(self.address, self.identity) is not place:
            raise PeerUnreachable(self.peer, f"hung up at {self.address} before it answered; has it ended?")
        status, data = answering.result()
        return status, data

    async def _answered(self, place: Place, method: str, path: str, content: bytes) -> tuple[int, bytes]:
        await self._memory.awake(place.identity.name)
        status, data = 500, bytearray()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            mutual_tls._CALLER: self.identity.name,
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                data.extend(message.get("body", b""))

        await place.app(scope, receive, send)
        await self._memory.awake(place.identity.name)
        return status, bytes(data)
