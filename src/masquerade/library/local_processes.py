"""Coordinator and party nodes as processes on this machine: started, watched, and ended in order.

Whatever happens to the one who started them (a failure, an interrupt, a second one, its death), none is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from masquerade.errors import MasqueradeError, PeerError, PeerUnreachable, one_line
from masquerade.library.local_configurations import free_addresses, is_taken

Result = TypeVar("Result")

_READY_WITHIN = 120.0  # seconds, on a machine that does much else
_ATTEMPTS = 5
_DEATH_IS_TOLD = 1.0  # seconds
_GRACE = 10.0  # seconds to end by oneself


@dataclass
class LocalProcesses:
    """Running commands by name."""

    logs: Path  # a folder; what a process writes to standard error goes to NAME.log in it
    ended_first: tuple[str, ...] = ("coordinator",)  # so that it does not miss the others
    running: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    _drains: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self, name: str, *words: str | Path) -> dict[str, Any]:
        """Run `masquerade WORDS… --json` until it says that it is ready; returns what it said."""
        log = os.open(self.logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "masquerade.library.bound_process",
                str(os.getpid()),
                *map(str, words),
                "--json",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        finally:
            os.close(log)
        self.running[name] = process
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), _READY_WITHIN)
        except TimeoutError:
            raise PeerUnreachable(name, f"is not ready after {_READY_WITHIN:.0f} seconds") from None
        if not line:
            raise await self._died(name)
        self._drains.append(asyncio.create_task(_drain(process.stdout)))
        ready: dict[str, Any] = json.loads(line)
        return ready

    async def watched(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of some work, unless a process dies meanwhile: then that is the failure."""
        task = asyncio.ensure_future(work)
        deaths = {asyncio.create_task(process.wait()): name for name, process in self.running.items()}
        try:
            await asyncio.wait({task, *deaths}, return_when=asyncio.FIRST_COMPLETED)
            if deaths and task.done() and not task.cancelled() and isinstance(task.exception(), PeerError):
                # Whoever talks to a process that dies may hear of it first.
                await asyncio.wait(deaths, timeout=_DEATH_IS_TOLD, return_when=asyncio.FIRST_COMPLETED)
            for death, name in deaths.items():
                if death.done():
                    raise await self._died(name)
            return await task
        finally:
            for each in (task, *deaths):
                each.cancel()
                with contextlib.suppress(asyncio.CancelledError, MasqueradeError):
                    await each

    async def start_all(self, commands: Mapping[str, Sequence[str | Path]]) -> dict[str, dict[str, Any]]:
        """Start several at once; returns what each said when it was ready."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    name: group.create_task(self.start(name, *words)) for name, words in commands.items()
                }
        except BaseExceptionGroup as failures:  # the others were stopped because of the first
            raise failures.exceptions[0] from None
        return {name: task.result() for name, task in tasks.items()}

    async def end(self) -> None:
        """End all, the named first; whoever does not end in time is killed, and at a second interrupt all are."""
        first = [name for name in self.ended_first if name in self.running]
        try:
            for names in (first, [name for name in self.running if name not in first]):
                await asyncio.gather(*(_end(self.running[name]) for name in names))
        finally:
            for process in self.running.values():
                if process.returncode is None:
                    process.kill()
            for process in self.running.values():
                await process.wait()
            for drain in self._drains:
                await drain
            self.running.clear()
            self._drains.clear()

    async def _died(self, name: str) -> MasqueradeError:
        code = await self.running[name].wait()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        log = self.logs / f"{name}.log"
        return PeerUnreachable(name, f"its process {how}{_last_words(log)}; its log is {log}")


@asynccontextmanager
async def local_processes(logs: Path) -> AsyncIterator[LocalProcesses]:
    """Processes that all end with the block."""
    processes = LocalProcesses(logs)
    try:
        yield processes
    finally:
        await processes.end()


async def start_somewhere(
    processes: LocalProcesses,
    commands: Mapping[str, Sequence[str | Path]],
    configure: Callable[[Mapping[str, str]], None],
) -> dict[str, dict[str, Any]]:
    """Start everybody at addresses that are free; `configure` writes them down first. Returns what each said.

    Everybody must know everybody's address beforehand, and somebody else may take one meanwhile: then others are tried.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        addresses = dict(zip(commands, free_addresses(len(commands)), strict=True))
        configure(addresses)
        try:
            return await processes.start_all(commands)
        except MasqueradeError:
            await processes.end()
            if attempt == _ATTEMPTS or not any(map(is_taken, addresses.values())):
                raise
    raise AssertionError("the last attempt has raised")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass


def _last_words(log: Path) -> str:
    """What a process complained about last."""
    with contextlib.suppress(OSError):
        lines = log.read_text("utf-8", errors="replace").splitlines()
        words = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if words:
            return f": {one_line(words[-1])}"
    return ""
