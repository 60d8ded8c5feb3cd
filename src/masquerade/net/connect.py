"""Connect all parties of a session: every node listens, and in each pair the one whose name sorts first dials.

    async with listen(identity, trust) as listener:                   # a free port, known before the peers are
        tell_others(listener.address)
        async with listener.connect(peers, agreement) as channels:    # everybody is there, or an error says who is not
            result = await run_script(script, channels)

When the inner block ends with an error, every peer is sent the error's kind and the party at fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from masquerade.errors import ParameterError, PeerRefused
from masquerade.net.channel import Agreement, Channel, Node, Timings
from masquerade.net.gathering import LOOK_EVERY, Gathering
from masquerade.net.identity import Identity
from masquerade.net.leave_message import LeaveMessage, leave_message
from masquerade.net.probe import probe
from masquerade.net.stream_channel import FrameStream, StreamBroke
from masquerade.net.tls_stream import ClientStream, serve
from masquerade.net.transport import AcceptedStream, Transport
from masquerade.net.trust import TrustStore

_LINGER = 3 * LOOK_EVERY  # seconds for which a node that refused a peer can still be asked why


def _dial(peer: Node, identity: Identity, trust: TrustStore) -> FrameStream:
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
        self, peers: Sequence[Node], agreement: Agreement, timings: Timings | None = None
    ) -> AsyncIterator[dict[str, Channel]]:
        """Yield channels to all peers, by name. One session at a time.

        Raise PeerError when a peer cannot be reached or is refused. On exit, every peer is sent our reason for leaving.
        """
        own = self._identity, self._trust
        gathering = Gathering(*own, peers, agreement, timings or Timings(), self._transport)
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
    identity: Identity,
    trust: TrustStore,
    address: str = "127.0.0.1:0",
    *,
    transport: Transport = TLS,
) -> AsyncIterator[Listener]:
    """Listen on an address (`host:port`; port 0 takes a free one, which `Listener.address` then holds)."""
    if not trust.names:
        raise ParameterError("the trust store is empty: put one <peer>.pem a peer into it")
    identity.check_dates()
    host = address.rpartition(":")[0]
    listener = Listener(identity, trust, host, transport)
    try:
        place = Node(identity.name, address).address
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


@asynccontextmanager
async def connect(
    identity: Identity,
    trust: TrustStore,
    address: str,
    peers: Sequence[Node],
    agreement: Agreement,
    timings: Timings | None = None,
) -> AsyncIterator[dict[str, Channel]]:
    """Listen on our address, connect to all peers, and yield the channels by peer name."""
    async with (
        listen(identity, trust, address) as listener,
        listener.connect(peers, agreement, timings) as channels,
    ):
        yield channels


async def _close(gathering: Gathering, leave: LeaveMessage) -> None:
    await asyncio.gather(*(channel.close(leave) for channel in gathering.channels.values()))
