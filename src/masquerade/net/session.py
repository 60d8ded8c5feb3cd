"""Drive a party's script over its channels.

The script computes in its own thread: meanwhile pulses are sent, messages arrive, and a failing peer ends the session
at once, whatever this party is doing, unless the script makes tolerant moves (`net/script.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from masquerade.net.channel import Agreement, Channel, Node, Timings
from masquerade.net.connect import connect
from masquerade.net.identity import Identity
from masquerade.net.losses import Losses, forget
from masquerade.net.running import run_async
from masquerade.net.script import Script
from masquerade.net.script_thread import OnMove, ScriptThread
from masquerade.net.transcript import Transcript
from masquerade.net.trust import TrustStore

Result = TypeVar("Result")


async def run_script(
    script: Script[Result],
    channels: Mapping[str, Channel],
    *,
    transcript: Transcript | None = None,
    on_move: OnMove | None = None,
) -> Result:
    """Run the script and return its result.

    `on_move` is called after each move, in the event loop's thread. Errors of the script pass through; a failing
    channel ends the session with its PeerError, even while the script computes or waits for others, unless its last
    move was tolerant. The caller closes the channels (`Listener.connect` does), which informs the peers how it ended.
    """
    losses = Losses()
    watches = [asyncio.create_task(_watch(channel, losses)) for channel in channels.values()]
    thread = ScriptThread(script, channels, losses, transcript, on_move)
    thread.ended.add_done_callback(forget)
    try:
        await asyncio.wait({thread.ended, losses.fatal}, return_when=asyncio.FIRST_COMPLETED)
        if not thread.ended.done():
            raise losses.fatal.result()
        result: Result = thread.ended.result()
        return result
    finally:
        thread.stop()
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


def run(
    script: Script[Result],
    identity: Identity,
    trust: TrustStore,
    address: str,
    peers: Sequence[Node],
    agreement: Agreement,
    *,
    timings: Timings | None = None,
    transcript: Transcript | None = None,
    on_move: OnMove | None = None,
) -> Result:
    """Connect to all peers, run the script, and leave: the whole session of one party."""

    async def session() -> Result:
        async with connect(identity, trust, address, peers, agreement, timings) as channels:
            return await run_script(script, channels, transcript=transcript, on_move=on_move)

    return run_async(session())


async def _watch(channel: Channel, losses: Losses) -> None:
    """Note the failure of a channel."""
    losses.note(await channel.failure())
