"""Runs a session in an event loop that is stopped properly.

An interrupt that is raised wherever the process happens to be may hit gRPC in the middle of a callback, which
swallows it or crashes. So while a session runs, signals ask the loop to end it: peers hear that we were stopped,
sockets are closed, and only then KeyboardInterrupt is raised.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_async(session: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` for sessions; KeyboardInterrupt when SIGINT or SIGTERM asked to stop, after an orderly end."""
    if threading.current_thread() is not threading.main_thread():  # others get no signals
        return asyncio.run(session)
    stopped = False

    async def stoppable() -> Result:
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            nonlocal stopped
            stopped = True
            task.cancel()

        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop)
        return await session

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: one that was not set from Python
                signal.signal(number, handler)
