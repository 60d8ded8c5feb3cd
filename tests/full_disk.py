"""A disk that is full, or read-only, for this process and for a while: no rights and no file system are needed."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest.mock import patch


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


@contextmanager
def read_only() -> Iterator[None]:
    """The system refuses to make or remove any file, also one that is not there, as a read-only disk does."""
    really = os.open

    def refuse(path: Any, *_args: Any, **_names: Any) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def opened(path: Any, flags: int, *args: Any, **names: Any) -> int:
        return refuse(path) if flags & (os.O_CREAT | os.O_WRONLY) else really(path, flags, *args, **names)

    with patch("os.open", opened), patch("os.unlink", refuse), patch("os.mkdir", refuse):
        yield
