"""A file that is written in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from masquerade.errors import ParameterError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file (mode 0600) in one step: it is there with all of its content, or as it was."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ParameterError(f"{path}: cannot be written: {error.strerror}") from None
