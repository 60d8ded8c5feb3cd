"""Any bytes as a peer's greeting and as its frames, which are cut at each length byte: what they say, or FrameError."""

from __future__ import annotations

from contextlib import suppress

from fuzz.oracle import PEER, allowing
from masquerade.errors import PeerError
from masquerade.net import Agreement, PartyAddress, connect as handshake
from masquerade.net.channel import Cause, LeaveMessage, blame
from masquerade.net.stream_channel import Arrived, FrameError, Inbound, Outbound

NODE = PartyAddress(PEER, "127.0.0.1:7001")
AGREEMENT = Agreement(b"\0" * 32, 1)
MOST_BYTES = 4096


def fuzz(data: bytes) -> None:
    with allowing(PeerError):
        greeting = handshake.decode(data, NODE)
        if isinstance(greeting, handshake.Hello):
            handshake.misfit(greeting, AGREEMENT)
        else:
            raise handshake.refused(NODE, greeting.reason, AGREEMENT, greeting.version, by_peer=True)
    inbound = Inbound(MOST_BYTES)
    with suppress(FrameError):
        while data:
            length, data = data[0], data[1:]
            said = inbound.take(data[:length])
            data = data[length:]
            if isinstance(said, Arrived):
                assert len(said.data) <= MOST_BYTES
            elif isinstance(said, LeaveMessage):
                assert blame(PEER, said, [PEER, "clinic"]).lines


def seeds() -> dict[str, bytes]:
    out = Outbound()
    left = LeaveMessage(Cause.BROKE_PROTOCOL, "clinic")
    frames = [*out.message(b"hello"), out.pulse(), out.leave(left), out.heard()]
    return {
        "session": b"".join(bytes([len(frame)]) + frame for frame in frames),
        "hello": handshake.encode(handshake.Hello(PEER, 1, AGREEMENT.session)),
        "refusal": handshake.encode(handshake.HelloRefused(handshake.Reason.GAVE_UP, 1, left)),
    }
