"""The failures of a session's channels: fatal, or at tolerant moves reported to the script."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from masquerade.errors import PeerError
from masquerade.net.script import Move, TolerantReceive, TolerantSend


class Losses:
    """The first failure is fatal or, at tolerant moves, each waits to be reported to the script."""

    def __init__(self) -> None:
        self.fatal: asyncio.Future[PeerError] = asyncio.get_running_loop().create_future()
        self._untold: list[PeerError] = []
        self._told: list[PeerError] = []
        self._tolerant = False
        self._noticed = asyncio.Event()

    def note(self, error: PeerError) -> None:
        """Note the failure of a channel."""
        if not any(each is error for each in self._told):
            self._untold.append(error)
            self._noticed.set()
        self._settle()

    def before(self, move: Move) -> None:
        """Note what the script does next."""
        self._tolerant = isinstance(move, TolerantSend | TolerantReceive)
        self._settle()

    async def unless_lost(self, moved: Coroutine[Any, Any, bytes | None]) -> bytes | PeerError | None:
        """Return what a tolerant move gives, or a failure that came first; a message that has arrived is not lost."""
        moving, losing = asyncio.ensure_future(moved), asyncio.ensure_future(self._noticed.wait())
        try:
            await asyncio.wait({moving, losing}, return_when=asyncio.FIRST_COMPLETED)
            return moving.result() if moving.done() else self._tell()
        except PeerError as error:
            return self._tell(error)
        finally:
            for each in (moving, losing):
                each.cancel()
                each.add_done_callback(forget)

    def _tell(self, error: PeerError | None = None) -> PeerError:
        """Return the failure that is reported to the script now; by default the first that was not."""
        told = error if error is not None else self._untold[0]
        self._told.append(told)
        self._untold = [each for each in self._untold if each is not told]
        if not self._untold:
            self._noticed.clear()
        return told

    def _settle(self) -> None:
        if self._untold and not self._tolerant and not self.fatal.done():
            self.fatal.set_result(self._untold[0])


def forget(future: asyncio.Future[Any]) -> None:
    """Retrieve the error, so that asyncio does not complain when nobody else does."""
    if not future.cancelled():
        future.exception()
