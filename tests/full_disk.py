"""A disk that is full, for this process and for a while: no rights and no file system are needed."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The system refuses to let a file grow further, as a full disk would.

    Modules that are imported meanwhile are not compiled: Python would keep one that was cut short.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
