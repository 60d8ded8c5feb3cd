"""What every fuzz target shares: the errors that a decoder may raise, and a folder for the files that it reads."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from masquerade.errors import MasqueradeError, PeerError

_accepted: list[None] = []

PEER = "bank"
"""The party that sends what is being decoded."""


@contextmanager
def allowing(*kinds: type[MasqueradeError], peer: str = PEER) -> Iterator[None]:
    """Let the block succeed or raise one of these errors, which must explain itself; whatever else is a finding."""
    try:
        yield
    except kinds as error:
        _check(error, peer)
    else:
        accept()


def accept() -> None:
    """Count an input that a decoder took for what it is there for."""
    _accepted.append(None)


def accepted() -> int:
    """How many there were."""
    return len(_accepted)


def _check(error: MasqueradeError, peer: str) -> None:
    assert error.lines, f"{type(error).__name__} says nothing"
    assert all(line.isprintable() and line.strip() for line in error.lines), error.lines
    if isinstance(error, PeerError):
        assert error.peer == peer, f"{error.peer!r} is blamed for what {peer} sent"


def scratch() -> Path:
    """An empty folder of this process, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="masquerade-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
