"""A Dask cluster of separate processes on this machine: a scheduler and some workers, which can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_LOCAL = ("--host", "127.0.0.1", "--no-dashboard")


@dataclass
class Cluster:
    """A scheduler's address, and the processes of its workers; what they say is in the folder's `cluster.log`."""

    address: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start one more worker with one thread."""
        words = ["worker", self.address, "--nthreads", "1", "--no-nanny", *_LOCAL, *options]
        self.workers.append(_start(words, self.folder))
        return self.workers[-1]


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a scheduler and its workers until the block ends."""
    contact = folder / "scheduler.json"
    scheduler = _start(["scheduler", "--port", "0", "--scheduler-file", str(contact), *_LOCAL], folder)
    found: Cluster | None = None
    try:
        found = Cluster(_address(contact, scheduler), folder)
        for _ in range(workers):
            found.start_worker()
        yield found
    finally:
        for process in (*(found.workers if found is not None else ()), scheduler):
            process.kill()
            process.wait()


def _start(words: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
    environment = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(folder)}
    with (folder / "cluster.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def _address(contact: Path, scheduler: subprocess.Popen[bytes]) -> str:
    """Wait for the file in which the scheduler says where it is."""
    import json
    import time

    while scheduler.poll() is None:
        try:
            return str(json.loads(contact.read_text())["address"])
        except (OSError, ValueError, KeyError):
            time.sleep(0.05)
    raise AssertionError("the scheduler has not started")
