"""Read TOML files, reporting the line of a syntax error."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from masquerade.errors import BadInput, JobError, Problem, hint

_MOST_BYTES = 16 << 20  # a larger file is probably the table, named by mistake


def read_toml(path: Path, what: str = "job file", error: type[BadInput] = JobError) -> dict[str, Any]:
    """Read a TOML file; `what` names its kind in error messages."""

    def wrong(text: str, line: int | None = None) -> BadInput:
        return error(Problem(text, source=str(path), line=line))

    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise wrong(f"{path.stat().st_size} bytes; a {what} has at most {_MOST_BYTES}")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise wrong(f"no such {what}{_neighbour(path)}") from None
    except IsADirectoryError:
        raise wrong(f"a folder, where a {what} is expected") from None
    except UnicodeDecodeError as caught:
        line = caught.object.count(b"\n", 0, caught.start) + 1
        raise wrong("the text is not UTF-8; save the file as UTF-8", line) from None
    except (OSError, ValueError) as caught:  # ValueError: an impossible path
        reason = caught.strerror if isinstance(caught, OSError) and caught.strerror else caught
        raise wrong(f"cannot be read: {reason}") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise wrong("not valid TOML: nested too deeply") from None
    except ValueError as caught:  # from tomllib, or a number with too many digits for Python
        raise wrong(f"not valid TOML: {caught}") from None


def _neighbour(path: Path) -> str:
    try:
        return hint(path.name, [each.name for each in path.parent.glob("*.toml")])
    except (OSError, ValueError):
        return ""
