"""Load modules once, then fork a process for each request: `python -m masquerade.jobs.processes PARENT MODULES…`.

Loading takes a party of a small trial longer than its part in the protocol. The server only imports: it has no secret,
no connection and no thread of its own, so that each process starts as one that has imported the modules itself. Its
standard input is a socket, whose other end the supervising process has (`jobs/processes.py`):

    supervisor -> server   StartProcess   a number for the process, the module and its words; with its standard streams
    supervisor -> server   Signal         a signal for a process
    server -> supervisor   Ended          its exit code, or minus the signal that ended it; on standard output

Every process has a session of its own, and none outlives the supervisor, whose death closes the socket.

`multiprocessing`'s fork server is no faster, and imports the program that started it once more in every process: a
user's script that calls us without `if __name__ == "__main__"` would run again in each party.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import io
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar, cast

from masquerade.errors import MasqueradeError, PeerError, PeerUnreachable
from masquerade.jobs.without_pandas import hide_pandas

# --- fork server --------------------------------------------------------------------------------------------

# Elsewhere, system libraries do not survive a fork: there, each process loads its modules itself.
_LINUX = sys.platform == "linux"
_TELL_ME_WHEN_MY_PARENT_DIES = 1  # PR_SET_PDEATHSIG
_LENGTH = struct.Struct("!I")
ROOM = "-" * 1000
"""A last word for the server's command line, which later holds that of the process."""


@dataclass(frozen=True)
class StartProcess:
    """Run a module with these words."""

    process: int
    module: str
    words: list[str]


@dataclass(frozen=True)
class Signal:
    """Send a signal to a process, unless it has ended."""

    process: int
    signal: int


@dataclass(frozen=True)
class Ended:
    """A process has ended."""

    process: int
    code: int


def encoded(message: StartProcess | Signal) -> bytes:
    """A request with its length before it."""
    body = json.dumps(asdict(message)).encode()
    return _LENGTH.pack(len(body)) + body


class _Server:
    """The children, and whom to tell of their ends."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._children: dict[int, int] = {}  # process ids by number
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._waker.fileno())

    def serve(self) -> tuple[StartProcess, list[int]] | None:
        """Return what to do, with its standard streams, in each new child; None in the server, at its end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._woken in ready:
                    self._woken.recv(1 << 12)
                    self._report()
                if self._requests in ready:
                    request, streams = self._request()
                    if request is None:
                        for child in self._children.values():
                            os.kill(child, signal.SIGTERM)
                        return None
                    if isinstance(request, Signal):
                        with suppress(KeyError):
                            os.kill(self._children[request.process], request.signal)
                    elif self._is_child(request):
                        return request, streams
                    for stream in streams:
                        os.close(stream)

    def _request(self) -> tuple[StartProcess | Signal | None, list[int]]:
        length, streams, _, _ = socket.recv_fds(self._requests, _LENGTH.size, 3)
        if len(length) < _LENGTH.size:
            return None, streams
        (size,) = _LENGTH.unpack(length)
        fields = json.loads(self._requests.recv(size, socket.MSG_WAITALL))
        return (StartProcess(**fields) if streams else Signal(**fields)), streams

    def _is_child(self, request: StartProcess) -> bool:
        """Fork; return True in the child."""
        server = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's and pyarrow's idle threads mend themselves after a fork
            child = os.fork()
        if child:
            self._children[request.process] = child
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._requests, self._woken, self._waker):
            each.close()
        os.setsid()
        end_with(server)
        return True

    def _report(self) -> None:
        """Report who has ended."""
        for number, child in list(self._children.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del self._children[number]
                end = Ended(number, os.waitstatus_to_exitcode(status))
                print(json.dumps(asdict(end)), flush=True)  # noqa: T201 - the supervisor reads it


def end_with(parent: int) -> None:
    """Let this process be asked to stop as soon as its parent dies, however that dies. Only Linux can."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_TELL_ME_WHEN_MY_PARENT_DIES, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask
        sys.exit(0)


def become(start: StartProcess, streams: Sequence[int]) -> None:
    """Be `python -m MODULE WORDS…` from here on."""
    use_streams(streams)
    if not _LINUX:
        os.execv(sys.executable, [sys.executable, "-m", start.module, *start.words])  # noqa: S606 - our own interpreter
    start_afresh()
    sys.argv = [start.module, *start.words]
    show_as([sys.executable, "-m", *sys.argv])
    if not hasattr(sys.modules.get(start.module), "__path__"):
        sys.modules.pop(start.module, None)  # it runs as __main__ alone
    runpy.run_module(start.module, run_name="__main__", alter_sys=True)


def use_streams(streams: Sequence[int]) -> None:
    """Take these as the standard streams."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)


def start_afresh() -> None:
    """Make anew what this process has of its server's: the objects of the standard streams, and randomness."""
    for number, (name, mode) in enumerate((("stdin", "rb"), ("stdout", "wb"), ("stderr", "wb"))):
        old = getattr(sys, name)
        buffering = -1 if isinstance(old.buffer, io.BufferedIOBase) else 0
        binary = open(number, mode, buffering, closefd=False)  # noqa: SIM115 - open as long as we live
        by_lines = not old.write_through and (name == "stderr" or os.isatty(number))
        new = io.TextIOWrapper(
            cast(IO[bytes], binary), old.encoding, old.errors, line_buffering=by_lines, write_through=old.write_through
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # Python's own and OpenSSL's generators see the fork themselves


def show_as(words: Sequence[str]) -> None:
    """Let `ps` show this command line, as far as there is room for it."""
    if _LINUX:
        start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
        room = end - start
        ctypes.memmove(start, "\0".join(words).encode(errors="replace")[: room - 1].ljust(room, b"\0"), room)


def main() -> None:
    """Serve; in a child, become what was asked for."""
    parent, *modules, _room = sys.argv[1:]
    end_with(int(parent))
    show_as(sys.orig_argv[:-1])
    hide_pandas()
    if _LINUX:
        for module in modules:
            with suppress(ImportError):  # whoever needs it complains
                import_module(module)
    gc.freeze()  # a child that collects garbage would touch, and so copy, every page that it shares with the others
    child = _Server(socket.socket(fileno=os.dup(0))).serve()
    if child is None:
        os._exit(0)  # there is nothing to tidy up
    become(*child)


if __name__ == "__main__":
    main()


# --- forked process -----------------------------------------------------------------------------------------
# Processes that are forked from one that has loaded their modules (`jobs/processes.py`), seen from outside.

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
                [sys.executable, "-m", __name__, str(os.getpid()), *modules, ROOM],
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
            self.send(StartProcess(number, module, [*map(str, words)]), theirs.fileno(), theirs.fileno(), log)
        return ForkedProcess(number, self, ended, await asyncio.open_connection(sock=ours, limit=_LONGEST_LINE))

    def send(self, message: StartProcess | Signal, *streams: int) -> None:
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


# --- supervisor ---------------------------------------------------------------------------------------------
# Child processes: started, listened to, watched, and ended in order.
#
# They are forked from one process, which loads what they have in common (`jobs/processes.py`). Each runs in
# its own session, so that Ctrl-C is ours to handle, and writes its standard error to a log. Whatever
# happens to us (a failure, an interrupt, a second one, our death), no child is left behind.

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
        self, logs: Path, *, loads: tuple[str, ...] = (), grace: float = 10.0, ended_first: tuple[str, ...] = ()
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
