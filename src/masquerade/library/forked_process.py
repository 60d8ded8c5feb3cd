"""Processes that are forked from one that has loaded their modules (`library/fork_server.py`), seen from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from masquerade.library import fork_server
from masquerade.library.fork_server import ROOM, Ended, Signal, Start, encoded

_LONGEST_LINE = 1 << 24  # longest line from a process, in bytes
_WITH_ITS_SERVER = -signal.SIGTERM  # how a process ends whose server was killed


class ForkedProcess:
    """A running process, with one stream as its standard input and output."""

    def __init__(
        self,
        number: int,
        server: ForkServer,
        ended: asyncio.Future[int],
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._number, self._server, self._ended = number, server, ended
        self.stdout, self.stdin = streams

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for its end; return its exit code."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        """Send it a signal; none reaches another process once it has ended."""
        self._server.send(Signal(self._number, number))

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close its streams."""
        self.stdin.close()


class ForkServer:
    """The process that others are forked from."""

    def __init__(self, modules: Sequence[str], log: int) -> None:
        """Start it, to load these modules; what it complains about goes to `log`."""
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-m", fork_server.__name__, str(os.getpid()), *modules, ROOM],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._numbers = count()
        self._running: dict[int, asyncio.Future[int]] = {}
        self._hearing = asyncio.create_task(self._hear())

    async def fork(self, module: str, words: Sequence[str | Path], log: int) -> ForkedProcess:
        """Run `python -m MODULE WORDS…` in a process of its own; its standard error goes to `log`."""
        number = next(self._numbers)
        ended = self._running[number] = asyncio.get_running_loop().create_future()
        if self._hearing.done():
            ended.set_result(_WITH_ITS_SERVER)
        ours, theirs = socket.socketpair()
        with theirs:
            self.send(Start(number, module, [*map(str, words)]), theirs.fileno(), theirs.fileno(), log)
        return ForkedProcess(
            number, self, ended, await asyncio.open_connection(sock=ours, limit=_LONGEST_LINE)
        )

    def send(self, message: Start | Signal, *streams: int) -> None:
        """Send a request. A server that has died needs none: its processes die with it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._requests, [encoded(message)], streams)

    async def _hear(self) -> None:
        """Note the ends of processes."""
        lines = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), self._process.stdout
        )
        with contextlib.closing(transport):
            while line := await lines.readline():
                ended = Ended(**json.loads(line))
                self._running.pop(ended.process).set_result(ended.code)
        for process in self._running.values():
            process.set_result(_WITH_ITS_SERVER)

    async def end(self) -> None:
        """End it; what still runs is killed."""
        try:
            for number in self._running:
                self.send(Signal(number, signal.SIGKILL))
            await asyncio.gather(*self._running.values())
        finally:
            self._requests.close()
        await self._hearing
        await asyncio.to_thread(self._process.wait)
