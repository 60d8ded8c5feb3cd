"""Run a session in an event loop that signals stop in an orderly way.

An interrupt raised at an arbitrary point may hit the loop in the middle of a callback, and leave half of it done. So
while a session runs, signals ask the loop to end it: peers are informed that we were stopped, sockets are closed, and
only then KeyboardInterrupt is raised.

All sessions of the main thread share one loop.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAST_STEPS = 0.5  # seconds for tasks that are about to end by themselves
_runners: list[asyncio.Runner] = []  # that of the main thread, made when first needed


def run_async(session: Coroutine[Any, Any, Result]) -> Result:
    """Run a session like `asyncio.run`; on SIGINT or SIGTERM end it in order, then raise KeyboardInterrupt.

    Where this thread runs a loop already, as that of a notebook does, the session runs in a thread of its own.
    """
    if _is_in_loop():
        return _run_in_a_thread(session)
    if threading.current_thread() is not threading.main_thread():  # other threads get no signals
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
        await _end_all_others(task)  # left by an earlier session that was interrupted
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop)
        try:
            return await session
        finally:
            ending = True  # further signals are ignored until all tasks have ended
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
            if handler is not None:  # None: not set from Python
                signal.signal(number, handler)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_a_thread(session: Coroutine[Any, Any, Result]) -> Result:
    """Run a session beside the loop of this thread, which stands still meanwhile; an interrupt ends it in order."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    given_up = threading.Event()

    async def stoppable() -> Result:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        if given_up.is_set():  # whoever gave up before we had started could not cancel us
            session.close()
            raise asyncio.CancelledError
        return await session

    with ThreadPoolExecutor(1) as threads:
        # An interrupt while the pool starts its thread would make it forget the thread, and not wait for its end.
        threads.submit(int).result()
        try:
            return threads.submit(copy_context().run, lambda: asyncio.run(stoppable())).result()
        except KeyboardInterrupt:
            given_up.set()
            if started.done():
                loop, task = started.result()
                with suppress(RuntimeError):  # it has ended by itself
                    loop.call_soon_threadsafe(task.cancel)
            raise


def _runner() -> asyncio.Runner:
    if not _runners:
        _runners.append(asyncio.Runner())
        atexit.register(_runners[0].close)
    return _runners[0]


async def _end_all_others(task: asyncio.Task[Any]) -> None:
    """End the tasks that a session leaves running, those first that are about to end by themselves."""
    others = asyncio.all_tasks() - {task}
    if others:
        await asyncio.wait(others, timeout=_LAST_STEPS)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)
