"""How the peers of a session connect: who dials whom, who is admitted, and why others are refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from masquerade.errors import ParameterError, PeerBrokeProtocol, PeerRefused
from masquerade.net.channel import Agreement, Node, Timings
from masquerade.net.handshake import Hello, HelloRefused, Reason, decode, encode, misfit, refused
from masquerade.net.identity import Identity, out_of_date
from masquerade.net.leave_message import LeaveMessage, blame
from masquerade.net.probe import Diagnosis, Finding, explain
from masquerade.net.stream_channel import FrameStream, StreamBroke, StreamChannel
from masquerade.net.transport import AcceptedStream, Transport
from masquerade.net.trust import TrustStore

_FIRST_DELAY, _LONGEST_DELAY = 0.05, 2.0
LOOK_EVERY = 0.3
"""How often a node that waits to be dialled looks at who does not come."""
GREETING = 5.0
"""Seconds for the hello of a node that dialled us: whoever says nothing must not keep a place that others need."""


class Gathering:
    """Connects the peers of one session."""

    def __init__(
        self,
        identity: Identity,
        trust: TrustStore,
        peers: Sequence[Node],
        agreement: Agreement,
        timings: Timings,
        transport: Transport,
    ) -> None:
        self.identity, self.trust, self.agreement, self.timings = identity, trust, agreement, timings
        self._transport = transport
        self.peers = {peer.name: peer for peer in peers}
        self._n_peers = len(peers)
        loop = asyncio.get_running_loop()
        self.joined: dict[str, asyncio.Future[StreamChannel]] = {
            name: loop.create_future() for name in self.peers
        }
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
                raise PeerRefused(
                    name, f"has a certificate in our trust store that {problem}; get its new one"
                )

    async def _dial(self, peer: Node) -> None:
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
            if diagnosis.is_final or loop.time() + delay > until:
                raise explain(peer, diagnosis, self.identity, self.trust, self.timings.connect)
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 # so that nodes do not retry in step
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _greet(self, peer: Node, stream: FrameStream) -> None:
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

    async def _await(self, peer: Node) -> None:
        """Wait for a peer to dial us, probing regularly for a reason why it never will."""
        until = asyncio.get_running_loop().time() + self.timings.connect
        joined = self.joined[peer.name]
        diagnosis = Diagnosis(Finding.NOBODY)
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
                hopeless = diagnosis.is_final and diagnosis.finding is not Finding.NO_TLS
                if hopeless or late:
                    raise explain(peer, diagnosis, self.identity, self.trust, self.timings.connect) from None
        joined.result()

    async def welcome(self, stream: AcceptedStream) -> None:
        """Answer a node that dialled us: greet it, or refuse it.

        An invited peer that does not fit aborts the gathering. Nobody else can: whoever merely is in our trust store
        could end every session otherwise.
        """
        shown = self.trust.owner(stream.certificate)
        invited = shown in self.peers
        caller = self.peers.get(shown or "") or Node(shown or "unknown", stream.caller)
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
            await stream.write(
                encode(HelloRefused(reason or Reason.GAVE_UP, self.agreement.version, self.last_word))
            )
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

    def _join(self, peer: Node, stream: FrameStream) -> None:
        channel = StreamChannel(peer, stream, self.agreement, self.timings, self.peers, on_failure=self.abort)
        self.joined[peer.name].set_result(channel)

    def _hello(self) -> Hello:
        return Hello(self.identity.name, self.agreement.version, self.agreement.session)
