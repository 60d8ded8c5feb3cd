"""Runs a session in an event loop that is stopped properly.

An interrupt that is raised wherever the process happens to be may hit gRPC in the middle of a callback, which
swallows it or crashes. So while a session runs, signals ask the loop to end it: peers hear that we were stopped,
sockets are closed, and only then KeyboardInterrupt is raised.

All sessions of the main thread share one loop: gRPC may tell a loop of a call's end when its session is long over,
and one that is closed by then cannot be told.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAST_STEPS = 0.5  # seconds for what is about to end by itself
_runners: list[asyncio.Runner] = []  # the one of the main thread, once it is needed


def run_async(session: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` for sessions; KeyboardInterrupt when SIGINT or SIGTERM asked to stop, after an orderly end."""
    if threading.current_thread() is not threading.main_thread():  # others get no signals
        return asyncio.run(session)
    stopped = False

    async def stoppable() -> Result:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            nonlocal stopped
            if not ending:
                stopped = True
                task.cancel()

        ending = False
        await _end_all_others(task)  # of an earlier session that was not let end
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop)
        try:
            return await session
        finally:
            ending = True  # whoever insists on stopping has to wait until all have ended
            await _end_all_others(task)
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        return _runner().run(stoppable())
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: one that was not set from Python
                signal.signal(number, handler)


def _runner() -> asyncio.Runner:
    if not _runners:
        _runners.append(asyncio.Runner())
        atexit.register(_runners[0].close)
    return _runners[0]


async def _end_all_others(task: asyncio.Task[Any]) -> None:
    """What a session leaves running ends with it.

    gRPC's own tasks end by themselves once a server has stopped; one that is cancelled on its way may print its error.
    """
    others = asyncio.all_tasks() - {task}
    if others:
        await asyncio.wait(others, timeout=_LAST_STEPS)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
