"""How many of our files a run goes through: those in which a function runs. A newcomer reads no fewer.

with walked() as files:
    anonymize(job)
assert len(files) <= 85
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import CO_NEWLOCALS, CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import masquerade

SOURCE = str(Path(masquerade.__file__).parent)
_FUNCTION = CO_OPTIMIZED | CO_NEWLOCALS  # neither a module nor the body of a class, which run when they are loaded


@contextmanager
def walked() -> Iterator[set[str]]:
    """The files of the package in which a function runs meanwhile, in any thread that starts."""
    found: set[CodeType] = set()
    files: set[str] = set()

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        for code in found:
            if code.co_filename.startswith(SOURCE) and code.co_flags & _FUNCTION == _FUNCTION:
                files.add(code.co_filename.removeprefix(SOURCE)[1:])
