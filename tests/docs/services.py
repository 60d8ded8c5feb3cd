"""The services that a page asks its reader to start."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import masquerade as mq
from forked import MASQUERADE, Forked


@contextmanager
def service(folder: Path, command: str) -> Iterator[str]:
    """One that is ready, and ends well with Ctrl-C; yields the line by which it says so."""
    words = [MASQUERADE, *command.split()[1:]]
    with Forked(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline().decode()
            assert line, f"{command} ended with {running.wait()}"
            yield line
            running.send_signal(signal.SIGINT)
            assert running.wait(120) == 0, command
        finally:
            running.kill()


def await_providers(url: str, token: str, count: int) -> None:
    """Wait until so many parties have published: each does as soon as it can."""
    with mq.Client(url, token=token) as client:
        until = time.monotonic() + 900
        while len(client.providers()) < count:
            assert time.monotonic() < until
