"""Child processes: started, listened to, watched, and ended in order.

They are forked from one process, which loads what they have in common (`library/fork_server.py`). Each runs in its own
session, so that Ctrl-C is ours to handle, and writes its standard error to a log. Whatever happens to us (a failure, an
interrupt, a second one, our death), no child is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from masquerade.errors import MasqueradeError, PeerError, PeerUnreachable
from masquerade.library.forked_process import ForkedProcess, ForkServer

Result = TypeVar("Result")

_DEATH_IS_NOTICED = 1.0  # seconds


class Child:
    """A running process, which exchanges lines with us over its standard input and output."""

    def __init__(self, name: str, process: ForkedProcess, log: Path) -> None:
        self.name, self.log = name, log
        self._process = process

    @property
    def code(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self._process.returncode

    async def tell(self, line: bytes) -> None:
        """Write a line to its standard input; PeerUnreachable when it has ended."""
        self._process.stdin.write(line + b"\n")
        try:
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise PeerUnreachable(self.name, "its process has ended") from None

    async def hear(self) -> bytes:
        """Return the next line of its standard output; b"" once it has ended."""
        return await self._process.stdout.readline()

    def hang_up(self) -> None:
        """Close its standard input, to signal that nothing more comes."""
        self._process.stdin.write_eof()

    async def drain(self) -> None:
        """Discard its output until it has ended, so that it never blocks on a full pipe."""
        while await self._process.stdout.read(1 << 16):
            pass

    async def wait(self) -> int:
        """Wait for it to end; return its exit code."""
        return await self._process.wait()

    async def end(self, grace: float) -> None:
        """Ask it to end, and kill it if it has not within `grace` seconds."""
        if self.code is None and grace:
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wait(), grace)
        self.kill()

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.code is None:
            self._process.kill()

    def close(self) -> None:
        """Close its streams, once it has ended."""
        self._process.close()


class Supervisor:
    """Child processes by name, all ended on leaving the block: `ended_first` first, and each within `grace` seconds.

    `loads` names the modules that they have in common.
    """

    def __init__(
        self,
        logs: Path,
        *,
        loads: tuple[str, ...] = (),
        grace: float = 10.0,
        ended_first: tuple[str, ...] = (),
    ) -> None:
        self._logs, self._loads, self._grace, self._ended_first = logs, loads, grace, ended_first
        self._server: ForkServer | None = None
        self.children: dict[str, Child] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    async def spawn(self, name: str, module: str, *words: str | Path) -> Child:
        """Run a Python module with these arguments; its log is NAME.log."""
        path = self._logs / f"{name}.log"
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            if self._server is None:
                self._server = ForkServer(self._loads, log)
            process = await self._server.fork(module, words, log)
        finally:
            os.close(log)
        self.children[name] = Child(name, process, path)
        return self.children[name]

    def death(self, child: Child, code: int) -> PeerUnreachable:
        """Return an error that says which child ended, and how."""
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return PeerUnreachable(child.name, f"its process {how}")

    async def watched(self, work: Coroutine[Any, Any, Result], *, may_end: bool = False) -> Result:
        """Return the result of some work, or raise the death of a child that dies meanwhile.

        With `may_end`, a child that ends by itself is not dead, whatever its exit code: only a signal is a death.
        """
        task = asyncio.ensure_future(work)
        waits = {asyncio.create_task(child.wait()): child for child in self.children.values()}

        async def until_any_ends(*more: asyncio.Future[Any], timeout: float | None = None) -> None:
            open_waits = {wait for wait in waits if not wait.done()}
            if open_waits or more:
                await asyncio.wait({*more, *open_waits}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for wait, child in waits.items():
                if wait.done() and (wait.result() < 0 or not may_end):
                    raise self.death(child, wait.result())

        try:
            while not task.done():
                await until_any_ends(task)
            if not task.cancelled() and isinstance(task.exception(), PeerError):
                # The work may notice a dying process before we do.
                await until_any_ends(timeout=_DEATH_IS_NOTICED)
            return await task
        finally:
            for each in (task, *waits):
                each.cancel()
                with contextlib.suppress(asyncio.CancelledError, MasqueradeError):
                    await each

    async def end(self) -> None:
        """End all children; those that do not end in time are killed, and on a second interrupt all are."""
        first = [child for name, child in self.children.items() if name in self._ended_first]
        others = [child for child in self.children.values() if child not in first]
        try:
            for group in (first, others):
                await asyncio.gather(*(child.end(self._grace) for child in group))
        finally:
            for child in self.children.values():
                child.kill()
            for child in self.children.values():
                await child.wait()
                child.close()
            self.children.clear()
            if self._server is not None:
                server, self._server = self._server, None
                await server.end()
