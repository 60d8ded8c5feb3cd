"""Commands in processes of their own that start at once: each is a fork of one process that has loaded the program.

    with Forked([MASQUERADE, "party", "serve", conf], stdout=subprocess.PIPE) as node:
        ...
        node.send_signal(signal.SIGINT)

It is used as `subprocess.Popen` is, for `masquerade …`, and for Python programs of the tests. To load all modules takes
a service three seconds of the processor. A process starts here in the state in which a fresh one is
(`masquerade/jobs/processes.py`); how the real command starts is for tests that start it with `subprocess`. What
`masquerade demo` and `masquerade mashup` fork their own processes from is forked as well, when a forked command starts
it, or a test within `forked_servers()`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MASQUERADE = str(Path(sys.executable).with_name("masquerade"))

_LOADED = (
    *("masquerade.cli.app", "masquerade.service.node.serving", "masquerade.service.api.app"),
    *("masquerade.console.app", "masquerade.jobs.mashup", "masquerade.jobs.run", "sklearn.tree"),
)
_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")


class Forked(subprocess.Popen):  # type: ignore[type-arg] # of texts or of bytes, as its options say
    """A process that is forked rather than loaded."""

    def _execute_child(self, args: Any, executable: Any, *options: Any) -> None:  # type: ignore[override]
        before, pipes, after = options[:8], options[8:14], options[14:]  # in the order of subprocess
        preexec, _, pass_fds, folder, environment, *_, shell = before
        *others, new_session, _group = after
        assert (executable, preexec, pass_fds, shell) == (None, None, (), False)
        assert others == [True, None, None, None, -1], "neither another user nor another mask"
        stdin, _, _, stdout, _, stderr = pipes
        streams = [given if given != -1 else number for number, given in enumerate((stdin, stdout, stderr))]
        request = {
            "words": [os.fspath(word) for word in args],
            "folder": os.fspath(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "session": new_session,
        }
        self._ended, theirs = socket.socketpair()
        with theirs, socket.socket(socket.AF_UNIX) as asking:
            asking.connect(_server())
            body = json.dumps(request).encode()
            socket.send_fds(asking, [_LENGTH.pack(len(body)) + body], [theirs.fileno(), *streams])
        self.args = args
        self._child_created = True
        self.pid = self._told()
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined] # as subprocess does

    def _told(self) -> int:
        """The next number of its keeper: first the process id, then how it ended."""
        said = self._ended.recv(_STATUS.size, socket.MSG_WAITALL)
        assert said, "the process that others are forked from has died"
        return int(_STATUS.unpack(said)[0])

    def _internal_poll(self, *_given: Any, **_more: Any) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self._try_wait(0)
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._ended], [], [], 0)[0]:
            return 0, 0
        status = self._told()
        self._handle_exitstatus(status)  # type: ignore[attr-defined] # as subprocess does
        self._ended.close()
        return self.pid, status


def run(words: list[str | Path], *, timeout: float = 900, **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, forked, with its output captured."""
    with Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextmanager
def forked_servers() -> Iterator[None]:
    """Fork, too, what the program would start to fork its own processes from."""
    from masquerade.jobs import processes as forked_process

    ours = SimpleNamespace(Popen=Forked, PIPE=subprocess.PIPE)
    before, forked_process.subprocess = forked_process.subprocess, ours  # type: ignore[assignment,attr-defined]
    try:
        yield
    finally:
        forked_process.subprocess = before  # type: ignore[attr-defined]


_started: list[str] = []  # in a forked process, where the one is that it was forked from


def _server() -> str:
    """Where the process listens that others are forked from; it is started when it is first asked for."""
    if not _started:
        _started.append(_start())
    return _started[0]


def _start() -> str:
    from masquerade.jobs.processes import ROOM

    folder = tempfile.mkdtemp(prefix="masquerade-forked-", dir="/tmp")  # for no other user, and a short name
    address = f"{folder}/socket"
    alive, theirs = socket.socketpair()
    with theirs, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(100)
        words = [sys.executable, __file__, address, str(listening.fileno()), ROOM]
        server = subprocess.Popen(words, stdin=theirs.fileno(), pass_fds=[listening.fileno()])
    atexit.register(shutil.rmtree, folder)
    atexit.register(server.wait)
    atexit.register(alive.close)
    return address


# --- that process ---


def serve(alive: socket.socket, listening: socket.socket) -> dict[str, Any] | None:
    """What is to be done, in each new process; None at the end."""
    me = os.getpid()
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # ignored already, where tests run in the background
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([alive, listening], [], [])
        if alive in ready:
            return None
        asking, _ = listening.accept()
        with asking:
            length, files, _, _ = socket.recv_fds(asking, _LENGTH.size, 4)
            request = json.loads(asking.recv(*_LENGTH.unpack(length), socket.MSG_WAITALL))
        if os.fork() == 0:
            alive.close()
            listening.close()
            return _kept(request, files, me, interrupted)
        for file in files:
            os.close(file)


def _kept(request: dict[str, Any], files: list[int], server: int, interrupted: Any) -> dict[str, Any] | None:
    """Fork once more, and tell how the child ends; return what is to be done in the child."""
    from masquerade.jobs.processes import end_with

    status, *streams = files
    end_with(server)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper = os.getpid()
    if child := os.fork():
        for stream in streams:
            os.close(stream)
        os.write(status, _STATUS.pack(child))
        ended = os.waitpid(child, 0)[1]
        os.write(status, _STATUS.pack(ended))
        os._exit(0)
    os.close(status)
    end_with(keeper)
    signal.signal(signal.SIGINT, interrupted)
    return {**request, "streams": streams}


def become(words: list[str], folder: str, environment: dict[str, str], session: bool, streams: list[int]) -> None:
    """Be the command from here on."""
    from masquerade.jobs import processes as fork_server
    from masquerade.jobs.processes import show_as, start_afresh, use_streams

    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    use_streams(streams)
    start_afresh()
    show_as(words)
    with forked_servers():
        if words[0] == MASQUERADE:
            from masquerade.cli.app import main

            sys.argv = words
            main()
        elif words[1] == "-m":
            assert words[2] == fork_server.__name__
            keeper = str(os.getppid())  # its parent, which is not the process that started it
            sys.orig_argv, sys.argv = words, [words[2], keeper, *words[4:]]
            sys.modules.pop(words[2])  # it runs as __main__ alone
            runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        else:
            assert words[0] == sys.executable
            sys.argv = words[1:]
            sys.path[0] = str(Path(words[1]).parent)
            runpy.run_path(words[1], run_name="__main__")


def main() -> None:
    """Load the program, then serve."""
    from importlib import import_module

    from masquerade.jobs import hide_pandas
    from masquerade.jobs.processes import show_as

    show_as(sys.orig_argv[:-1])
    hide_pandas()
    from masquerade import cli

    start = cli.main
    for module in _LOADED:
        import_module(module)
    cli.main = start  # in a fresh process the name is not yet the module's
    gc.freeze()  # a child that collects garbage would copy every page
    address, listening, _room = sys.argv[1:]
    _started.append(address)
    request = serve(socket.socket(fileno=os.dup(0)), socket.socket(fileno=int(listening)))
    if request is not None:
        become(**request)


if __name__ == "__main__":
    main()
