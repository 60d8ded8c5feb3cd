"""Where a test holds up a thread until something else has happened."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

PATIENCE = 900  # seconds; nobody waits so long


class Gate:
    """Holds whoever comes through, until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.opened.set()

    def hold(self) -> None:
        self.entered.set()
        assert self.opened.wait(PATIENCE)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, PATIENCE)

    def open_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.1, self.opened.set)
