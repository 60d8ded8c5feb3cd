"""A folder for the files of one run, which is gone when the run is over, however it ends.

A run that is killed cannot remove its own: the folder holds a file that was locked for as long as the run lived, and
the next run removes every folder whose lock nobody holds.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from masquerade.errors import MasqueradeError
from masquerade.files import FileError, FileLock

_PREFIX, _LOCK = "masquerade-run-", ".lock"


@contextmanager
def run_folder() -> Iterator[Path]:
    """Yield an empty folder in the system's temporary one, for its owner alone; remove it in the end."""
    base = Path(tempfile.gettempdir())
    _sweep(base)
    while True:
        try:
            made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=base, ignore_cleanup_errors=True)
        except OSError as error:
            raise FileError.at(base, f"no folder can be made in it: {error.strerror}") from None
        with made as name:
            lock = FileLock(Path(name) / _LOCK, name)
            if lock.hold() and (Path(name) / _LOCK).exists():
                try:
                    yield Path(name)
                finally:
                    lock.release()
                return
        # Somebody swept it before it was locked.


def _sweep(base: Path) -> None:
    """Remove the folders of runs that were killed; what cannot be removed is in nobody's way."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError, MasqueradeError):
            if not (folder / _LOCK).is_file() or folder.is_symlink():
                continue
            lock = FileLock(folder / _LOCK, str(folder))
            if lock.hold():
                try:
                    shutil.rmtree(folder)
                finally:
                    lock.release()
