"""Load modules once, then fork a process for each request: `python -m masquerade.library.fork_server PARENT MODULES…`.

Loading takes a party of a small trial longer than its part in the protocol. The server only imports: it has no secret,
no connection and no thread of its own, so that each process starts as one that has imported the modules itself. Its
standard input is a socket, whose other end the supervising process has (`library/forked_process.py`):

    supervisor -> server   Start   a number for the process, the module and its words; with its standard streams
    supervisor -> server   Signal  a signal for a process
    server -> supervisor   Ended   its exit code, or minus the signal that ended it; on standard output

Every process has a session of its own, and none outlives the supervisor, whose death closes the socket.

`multiprocessing`'s fork server is no faster, and imports the program that started it once more in every process: a
user's script that calls us without `if __name__ == "__main__"` would run again in each party.
"""

from __future__ import annotations

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
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, cast

from masquerade.library.without_pandas import hide_pandas

# Elsewhere, system libraries do not survive a fork: there, each process loads its modules itself.
_LINUX = sys.platform == "linux"
_TELL_ME_WHEN_MY_PARENT_DIES = 1  # PR_SET_PDEATHSIG
_LENGTH = struct.Struct("!I")
ROOM = "-" * 1000
"""A last word for the server's command line, which later holds that of the process."""


@dataclass(frozen=True)
class Start:
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


def encoded(message: Start | Signal) -> bytes:
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

    def serve(self) -> tuple[Start, list[int]] | None:
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

    def _request(self) -> tuple[Start | Signal | None, list[int]]:
        length, streams, _, _ = socket.recv_fds(self._requests, _LENGTH.size, 3)
        if len(length) < _LENGTH.size:
            return None, streams
        (size,) = _LENGTH.unpack(length)
        fields = json.loads(self._requests.recv(size, socket.MSG_WAITALL))
        return (Start(**fields) if streams else Signal(**fields)), streams

    def _is_child(self, request: Start) -> bool:
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


def become(start: Start, streams: Sequence[int]) -> None:
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
            cast(IO[bytes], binary),
            old.encoding,
            old.errors,
            line_buffering=by_lines,
            write_through=old.write_through,
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
