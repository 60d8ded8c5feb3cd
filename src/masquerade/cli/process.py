"""What a command does to its own process: streams, signals, libraries it can do without, a short end."""

from __future__ import annotations

import gc
import io
import os
import resource
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from masquerade.library.without_pandas import hide_pandas

stopped_by: list[int] = []
"""The signals that asked this process to stop: what breaks after one is no bug."""


def prepare() -> None:
    """Make ready for a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ℓ or ü shows an escape instead
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever is asked to stop cleans up first
        signal.signal(number, _stop)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would search all packages for them
    # OpenBLAS's threads, one for each core, wait for work by spinning: 2²⁶ ticks, 30 ms, as soon as numpy is loaded.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    if "bench" not in sys.argv[1:2]:  # experiments compare with pandas
        hide_pandas()


def open_files_for_many() -> None:
    """Let a service have as many open files as the system allows it: its limits on connections come first."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # where the system does not let itself be asked
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def let_go() -> None:
    """Let a further signal end this process at once and silently: nothing is left to clean up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if "duckdb" not in sys.modules:  # whose binding takes what is not collected for a leak, and says so
        gc.freeze()  # as it ends, Python would look for garbage three times among all that was loaded


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    stopped_by.append(number)
    raise KeyboardInterrupt
