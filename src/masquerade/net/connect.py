"""Connect all parties of a session: every node listens, and in each pair the one whose name sorts first dials.

    async with listen(identity, trust) as listener:                   # a free port, known before the peers are
        tell_others(listener.address)
        async with listener.connect(peers, agreement) as channels:    # everybody is there, or an error says who is not
            result = await run_script(script, channels)

When the inner block ends with an error, every peer is sent the error's kind and the party at fault.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from masquerade.errors import ParameterError, PeerBrokeProtocol, PeerError, PeerRefused, PeerUnreachable
from masquerade.forms import msgpack_decoder
from masquerade.net.channel import Agreement, Channel, LeaveMessage, PartyAddress, Timings, blame, leave_message
from masquerade.net.identity import Identity, TrustStore, out_of_date
from masquerade.net.probing import Diagnosis, ProbeResult, explain, probe
from masquerade.net.stream_channel import AcceptedStream, FrameStream, Handler, Server, StreamBroke, StreamChannel
from masquerade.net.tls_stream import ClientStream, serve

# --- handshake ----------------------------------------------------------------------------------------------
# The handshake on a new stream: each node's name, protocol version and contract.
#
# Both ends say hello; the accepting end checks first and answers with its own hello, or with a refusal that
# gives the reason. The texts here address the person who has to fix the problem.

MOST_BYTES = 1024
"""No greeting is longer."""


class Reason(StrEnum):
    """Why a node refuses another."""

    VERSION = "version"
    CONTRACT = "contract"
    STRANGER = "stranger"  # its certificate is not the one pinned for the name it gives
    NOT_INVITED = "not invited"
    WRONG_WAY = "wrong way"  # it dials us, although we should dial it
    TWICE = "twice"
    GAVE_UP = "gave up"


# Newer versions may add fields but keep these, so that versions can be compared.
class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A node's name, protocol version and contract hash."""

    name: str
    version: int
    session: bytes


class HelloRefused(msgspec.Struct, frozen=True, tag="refusal"):
    """The answer to a hello that does not match."""

    reason: Reason
    version: int
    leave: LeaveMessage | None = None


def encode(greeting: Hello | HelloRefused) -> bytes:
    """Encode a greeting as a frame."""
    return msgspec.msgpack.encode(greeting)


def decode(frame: bytes, peer: PartyAddress) -> Hello | HelloRefused:
    """Decode a peer's greeting; PeerBrokeProtocol when it is malformed."""
    try:
        if len(frame) > MOST_BYTES:
            raise ValueError
        greeting: Hello | HelloRefused = msgpack_decoder(Hello | HelloRefused).decode(frame)
        return greeting
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        raise PeerBrokeProtocol(peer.name, f"at {peer.address} does not greet as a Masquerade node") from None


def misfit(hello: Hello, agreement: Agreement) -> Reason | None:
    """Return why a peer's hello does not match ours; None when it does."""
    if hello.version != agreement.version:
        return Reason.VERSION
    if hello.session != agreement.session:
        return Reason.CONTRACT
    return None


def refused(peer: PartyAddress, reason: Reason, agreement: Agreement, version: int, *, by_peer: bool) -> PeerRefused:
    """Return the error that explains to a person, on either side, why two nodes did not connect."""
    match reason, by_peer:
        case Reason.VERSION, _:
            problem = f"speaks protocol version {version}, we speak {agreement.version}: update the older of the two"
        case Reason.CONTRACT, _:
            problem = (
                "agreed to another contract than we did; compare the jobs of the two parties,"
                " and restart the session from one of them"
            )
        case Reason.STRANGER, True:
            problem = "says that our certificate is not the one it knows for our name; send it ours again"
        case Reason.STRANGER, False:
            problem = (
                "shows a certificate that is not the one in our trust store for the name it says;"
                " compare the fingerprints with its steward"
            )
        case Reason.NOT_INVITED, True:
            problem = "says that we are not among the parties of its session; compare the jobs of the two parties"
        case Reason.NOT_INVITED, False:
            problem = "is not among the parties of this session, and yet it connects to us"
        case Reason.WRONG_WAY, True:
            problem = "says that it connects to us, not we to it; compare the parties' names"
        case Reason.WRONG_WAY, False:
            problem = "connects to us, though we connect to it; compare the parties' names"
        case Reason.TWICE, True:
            problem = "has a connection from us already; is another process running under our name?"
        case Reason.TWICE, False:
            problem = "connects a second time; is another process running under its name?"
        case _:
            problem = "has given up the session already; its log says why"
    return PeerRefused(peer.name, f"at {peer.address} {problem}")


# --- gathering ----------------------------------------------------------------------------------------------
# How the peers of a session connect: who dials whom, who is admitted, and why others are refused.

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 2.0
LOOK_EVERY = 0.3
"""How often a node that waits to be dialled looks at who does not come."""
_MOST_TO_LOOK = 5.0
"""Seconds by which the last look at an address is over, whatever is there."""
GREETING = 5.0
"""Seconds for the hello of a node that dialled us: whoever says nothing must not keep a place that others need."""


@dataclass(frozen=True)
class Transport:
    """Dial a peer; probe why it cannot be dialled; serve at an address and return the actual port (or OSError).

    TLS in production, memory in single-process tests.
    """

    dial: Callable[[PartyAddress, Identity, TrustStore], FrameStream]
    probe: Callable[[PartyAddress, Identity, TrustStore], Awaitable[Diagnosis]]
    serve: Callable[[str, Identity, TrustStore, Handler], Awaitable[tuple[Server, int]]]


OnFound = Callable[[PeerError], None]


class Gathering:
    """Connects the peers of one session."""

    def __init__(
        self,
        identity: Identity,
        trust: TrustStore,
        peers: Sequence[PartyAddress],
        agreement: Agreement,
        timings: Timings,
        transport: Transport,
        on_found: OnFound | None = None,
    ) -> None:
        self.identity, self.trust, self.agreement, self.timings = identity, trust, agreement, timings
        self._transport, self._on_found = transport, on_found
        self.peers = {peer.name: peer for peer in peers}
        self._n_peers = len(peers)
        loop = asyncio.get_running_loop()
        self.joined: dict[str, asyncio.Future[StreamChannel]] = {name: loop.create_future() for name in self.peers}
        self.trouble: asyncio.Future[Exception] = loop.create_future()
        self.last_word: LeaveMessage | None = None
        self._greetings: set[asyncio.Task[None]] = set()

    @property
    def channels(self) -> dict[str, StreamChannel]:
        """The channels to the peers that have joined, in peer order."""
        return {name: future.result() for name, future in self.joined.items() if future.done()}

    def dials(self, peer: str) -> bool:
        """Return whether we dial this peer, rather than it us: the name that sorts first dials."""
        return self.identity.name < peer

    async def gather(self) -> None:
        """Wait until every peer has joined; raise the first error."""
        self._check()
        coming = {
            asyncio.create_task(self._dial(node) if self.dials(name) else self._await(node))
            for name, node in self.peers.items()
        }
        tasks = set(coming)
        try:
            while coming:
                events: set[asyncio.Future[Any]] = {*coming, self.trouble}
                await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
                if self.trouble.done():
                    raise self.trouble.result()
                for task in {task for task in coming if task.done()}:
                    coming.remove(task)
                    task.result()
        except Exception:
            # A peer that we are greeting may count us as joined: let it read our leave message, not find us gone.
            if self._greetings:
                await asyncio.wait(self._greetings, timeout=self.timings.grace)
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _check(self) -> None:
        """Check names and certificate dates before contacting any peer."""
        if len(self.peers) != self._n_peers or self.identity.name in self.peers:
            raise ParameterError("each party of a session needs a name of its own")
        self.identity.check_dates()
        for name in self.peers:
            problem = out_of_date(self.trust.pin(name))
            if problem is not None:
                raise PeerRefused(name, f"has a certificate in our trust store that {problem}; get its new one")

    async def _dial(self, peer: PartyAddress) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.timings.connect
        delay = _FIRST_DELAY
        while True:
            stream = self._transport.dial(peer, self.identity, self.trust)
            try:
                greeting = asyncio.create_task(self._greet(peer, stream))
                self._greetings.add(greeting)
                greeting.add_done_callback(self._greetings.discard)
                async with asyncio.timeout_at(until):
                    await greeting
                return
            except (StreamBroke, TimeoutError):
                await stream.end()
            except BaseException:
                await stream.end()
                raise
            diagnosis = await self._transport.probe(peer, self.identity, self.trust)
            if self._is_final(peer, diagnosis) or loop.time() + delay > until:
                raise await self._missing(peer, diagnosis, until)
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 # so that nodes do not retry in step
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _greet(self, peer: PartyAddress, stream: FrameStream) -> None:
        """Exchange hellos as the dialling side; the peer joins if its hello matches ours."""
        await stream.write(encode(self._hello()))
        frame = await stream.read()
        if frame is None:
            raise StreamBroke
        answer = decode(frame, peer)
        if isinstance(answer, HelloRefused):
            if answer.leave is not None:
                raise blame(peer.name, answer.leave, self.peers)
            raise refused(peer, answer.reason, self.agreement, answer.version, by_peer=True)
        if answer.name != peer.name:
            raise PeerBrokeProtocol(peer.name, f"at {peer.address} greets with the name of another party")
        reason = misfit(answer, self.agreement)
        if reason is not None:
            raise refused(peer, reason, self.agreement, answer.version, by_peer=False)
        self._join(peer, stream)

    async def _await(self, peer: PartyAddress) -> None:
        """Wait for a peer to dial us, probing regularly for a reason why it never will."""
        until = asyncio.get_running_loop().time() + self.timings.connect
        joined = self.joined[peer.name]
        diagnosis = Diagnosis(ProbeResult.NOBODY)
        while not joined.done():
            try:
                async with asyncio.timeout_at(min(until, asyncio.get_running_loop().time() + LOOK_EVERY)):
                    await asyncio.shield(joined)
            except TimeoutError:
                diagnosis = await self._transport.probe(peer, self.identity, self.trust)
                if joined.done():
                    break
                late = asyncio.get_running_loop().time() >= until
                # Only a finding that also prevents it from dialling us is final; its address may be closed to us.
                hopeless = self._is_final(peer, diagnosis) and diagnosis.finding is not ProbeResult.NO_TLS
                if hopeless or late:
                    raise await self._missing(peer, diagnosis, until) from None
        joined.result()

    def _is_final(self, peer: PartyAddress, diagnosis: Diagnosis) -> bool:
        return diagnosis.is_final and (self._on_found is None or self._is_the_peer(peer, diagnosis))

    def _is_the_peer(self, peer: PartyAddress, diagnosis: Diagnosis) -> bool:
        return diagnosis.shown == self.trust.pin(peer.name)

    async def _missing(self, peer: PartyAddress, diagnosis: Diagnosis, until: float) -> PeerError:
        """Return the error for a peer that does not join: the same at the same time, if it is for `on_found` alone."""
        error = explain(peer, diagnosis, self.identity, self.trust, self.timings.connect)
        if self._on_found is None or self._is_the_peer(peer, diagnosis):
            return error
        self._on_found(error)
        await asyncio.sleep(until + _MOST_TO_LOOK - asyncio.get_running_loop().time())
        return PeerUnreachable(peer.name, "was not reached at its address; our log says what is there")

    async def welcome(self, stream: AcceptedStream) -> None:
        """Answer a node that dialled us: greet it, or refuse it.

        An invited peer that does not fit aborts the gathering. Nobody else can: whoever merely is in our trust store
        could end every session otherwise.
        """
        shown = self.trust.owner(stream.certificate)
        invited = shown in self.peers
        caller = self.peers.get(shown or "") or PartyAddress(shown or "unknown", stream.caller)
        try:
            async with asyncio.timeout(GREETING):
                frame = await stream.read()
            hello = decode(frame or b"", caller)
            if isinstance(hello, HelloRefused):
                raise PeerBrokeProtocol(caller.name, "refuses us before we have said anything")
        except TimeoutError:
            return
        except PeerBrokeProtocol as error:
            if invited:
                self.abort(error)
            return
        reason = self._misfit(hello, shown)
        if reason is None and self.last_word is None:
            await stream.write(encode(self._hello()))
            if self.joined[caller.name].done() or self.last_word is not None:
                return  # another stream of this peer was faster, or we have left: drop this one
            self._join(caller, stream)
            await stream.ended.wait()
            return
        try:
            await stream.write(encode(HelloRefused(reason or Reason.GAVE_UP, self.agreement.version, self.last_word)))
        finally:  # even if it has hung up, we know why it does not join
            if invited and reason not in (None, Reason.TWICE):  # those do no harm to joined peers
                assert reason is not None
                self.abort(refused(caller, reason, self.agreement, hello.version, by_peer=False))

    def _misfit(self, hello: Hello, shown: str | None) -> Reason | None:
        if shown not in self.peers:
            return Reason.STRANGER if shown is None else Reason.NOT_INVITED
        if hello.name != shown:
            return Reason.STRANGER
        if self.dials(shown):
            return Reason.WRONG_WAY
        if self.joined[shown].done():
            return Reason.TWICE
        return misfit(hello, self.agreement)

    def abort(self, error: Exception) -> None:
        """End the gathering with this error; no effect once all peers have joined."""
        if not self.trouble.done():
            self.trouble.set_result(error)

    def _join(self, peer: PartyAddress, stream: FrameStream) -> None:
        channel = StreamChannel(peer, stream, self.agreement, self.timings, self.peers, on_failure=self.abort)
        self.joined[peer.name].set_result(channel)

    def _hello(self) -> Hello:
        return Hello(self.identity.name, self.agreement.version, self.agreement.session)


# --- connect ------------------------------------------------------------------------------------------------

_LINGER = 3 * LOOK_EVERY  # seconds for which a node that refused a peer can still be asked why


def _dial(peer: PartyAddress, identity: Identity, trust: TrustStore) -> FrameStream:
    return ClientStream(peer.address, identity, peer.name, trust.pin(peer.name))


TLS = Transport(_dial, probe, serve)


class Listener:
    """A listening node, created by `listen`."""

    def __init__(self, identity: Identity, trust: TrustStore, host: str, transport: Transport) -> None:
        self.address = host
        self._identity, self._trust, self._transport = identity, trust, transport
        self._gathering: Gathering | None = None
        self._invited = asyncio.Event()

    @asynccontextmanager
    async def connect(
        self,
        peers: Sequence[PartyAddress],
        agreement: Agreement,
        timings: Timings | None = None,
        on_found: OnFound | None = None,
    ) -> AsyncIterator[dict[str, Channel]]:
        """Yield channels to all peers, by name. One session at a time.

        With `on_found`, which is told what is at an address in place of a peer, the error itself says no more than that
        this peer was not reached, and takes as long whatever is there: whoever names addresses must not scan a network.
        Raise PeerError when a peer cannot be reached or is refused. On exit, every peer is sent our reason for leaving.
        """
        own = self._identity, self._trust
        gathering = Gathering(*own, peers, agreement, timings or Timings(), self._transport, on_found)
        self._gathering = gathering
        self._invited.set()
        try:
            await gathering.gather()
            yield dict(gathering.channels)
        except BaseException as error:
            gathering.last_word = leave_message(error)
            await _close(gathering, gathering.last_word)
            if isinstance(error, PeerRefused) and len(gathering.channels) < len(peers):
                await asyncio.sleep(_LINGER)
            raise
        else:
            await _close(gathering, leave_message(None))
        finally:
            self._invited.clear()
            self._gathering = None

    async def _talk(self, stream: AcceptedStream) -> None:
        while self._gathering is None:
            await self._invited.wait()
        gathering = self._gathering
        try:
            await gathering.welcome(stream)
        except StreamBroke:
            pass  # the caller hung up: it either dials again or is reported missing
        except Exception as error:  # a bug of ours: reported by the session
            gathering.abort(error)


@asynccontextmanager
async def listen(
    identity: Identity, trust: TrustStore, address: str = "127.0.0.1:0", *, transport: Transport = TLS
) -> AsyncIterator[Listener]:
    """Listen on an address (`host:port`; port 0 takes a free one, which `Listener.address` then holds)."""
    if not trust.names:
        raise ParameterError("the trust store is empty: put one <peer>.pem a peer into it")
    identity.check_dates()
    host = address.rpartition(":")[0]
    listener = Listener(identity, trust, host, transport)
    try:
        place = PartyAddress(identity.name, address).address
        server, port = await transport.serve(place, identity, trust, listener._talk)
    except OSError:
        raise ParameterError(
            f"{address}: cannot listen here; is the port taken, or the address another machine's?"
        ) from None
    listener.address = f"{host}:{port}"
    try:
        yield listener
    finally:
        await server.stop(None)


async def _close(gathering: Gathering, leave: LeaveMessage) -> None:
    await asyncio.gather(*(channel.close(leave) for channel in gathering.channels.values()))
