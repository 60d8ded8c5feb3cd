"""An event loop in a thread, which holds asynchronous blocks open for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Self

PATIENCE = 900.0  # seconds: for a loaded machine, not for the work


class LoopThread:
    """A running loop; tasks that are left when it closes are cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # Tests hold threads up: with the usual few of them, others would wait for that.
        self._loop.set_default_executor(ThreadPoolExecutor(64))
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop")
        self._thread.start()

    def call(self, work: Callable[..., Any], *given: Any) -> Any:
        """Call something in the loop's thread; its answer."""
        answer: Future[Any] = Future()

        def called() -> None:
            try:
                answer.set_result(work(*given))
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(called)
        return answer.result(PATIENCE)

    def hold(self, work: Callable[[], AbstractAsyncContextManager[Any]]) -> Held:
        """Enter an asynchronous block; its error, when it does not get that far."""
        held = Held(self._loop, work)
        held.entered()
        return held

    @contextmanager
    def holding(self, work: Callable[[], AbstractAsyncContextManager[Any]]) -> Iterator[Any]:
        """An asynchronous block that lasts as long as this one."""
        held = self.hold(work)
        try:
            yield held.value
        finally:
            held.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it does not end"
        self._loop.close()

    async def _end_all(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_default_executor()


class Held:
    """A block that was entered, in a task of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._loop, self._over = loop, asyncio.Event()
        self._ready: Future[Any] = Future()
        self._task: Future[None] = asyncio.run_coroutine_threadsafe(self._run(work), loop)

    def entered(self) -> None:
        self.value = self._ready.result(PATIENCE)

    def end(self) -> None:
        """Leave the block, and wait for that; raises what went wrong in it."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._task.result(PATIENCE)

    async def _run(self, work: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        try:
            async with work() as value:
                self._ready.set_result(value)
                await self._over.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


@contextmanager
def in_thread(work: Callable[[], AbstractAsyncContextManager[Any]]) -> Iterator[Any]:
    """An asynchronous block that lasts as long as this one, in a loop of its own."""
    with LoopThread() as loop, loop.holding(work) as value:
        yield value
