"""Frame streams in memory: what a channel stands on, without a network."""

from __future__ import annotations

import asyncio

from masquerade.net.stream_channel import StreamBroke


class MemoryStream:
    """One end of a stream; `break_off` is a peer that dies."""

    has_room = False  # so that channels use `write`

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes | StreamBroke | None] = asyncio.Queue()
        self.other: MemoryStream = self
        self.ended = False

    async def read(self) -> bytes | None:
        frame = await self.incoming.get()
        if isinstance(frame, StreamBroke):
            raise frame
        return frame

    async def write(self, frame: bytes) -> None:
        if self.ended or self.other.ended:
            raise StreamBroke
        self.other.incoming.put_nowait(frame)

    def write_at_once(self, frame: bytes) -> None:
        raise AssertionError("there is no room")

    async def end(self) -> None:
        if not self.ended:
            self.ended = True
            self.other.incoming.put_nowait(None)
            self.incoming.put_nowait(StreamBroke())

    def break_off(self) -> None:
        self.ended = True
        self.other.incoming.put_nowait(StreamBroke())


def stream_pair() -> tuple[MemoryStream, MemoryStream]:
    """Two ends of one stream."""
    ours, theirs = MemoryStream(), MemoryStream()
    ours.other, theirs.other = theirs, ours
    return ours, theirs
