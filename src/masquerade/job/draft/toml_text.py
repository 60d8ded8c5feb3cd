"""Texts, names and paths as a TOML file has them."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path


def quoted(text: str) -> str:
    """Write a text in quotes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def listed(names: Iterable[str]) -> str:
    """Write a list of texts."""
    return f"[{', '.join(map(quoted, names))}]"


def key(name: str) -> str:
    """Write a key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def relative(path: Path, job: Path) -> str:
    """Write a path as seen from the job's folder."""
    return Path(os.path.relpath(path, job.parent)).as_posix()


def comment(text: str) -> list[str]:
    """Write a text as comment lines; what would end a line is a space."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return [f"# {line}" for line in textwrap.wrap(plain, 110)] or ["#"]
