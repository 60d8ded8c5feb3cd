"""What is wrong with a job: gathered as it is found, and told together.

A key is a tuple, `("privacy", 0, "k")`, and is shown as a person would write it, `privacy[1].k`: entries
count from 1, as rows do everywhere. A key that cannot be read is **broken**; what follows from that alone is
not told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from masquerade.errors import JobError, MasqueradeError

Key = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PARAMETER = re.compile(r"The (\w+) parameter of \w+ must be (.*)\. Got (.*) instead(.*)\.", re.DOTALL)


class Problems:
    """The problems of one job file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: list[str] = []
        self._broken: set[Key] = set()

    def add(self, key: Key, problem: str) -> None:
        """Remember a problem, unless it only follows from a broken key."""
        if not self.about(key):
            self._tell(key, problem)

    def broken(self, key: Key, problem: str, *, meant: Key | None = None) -> None:
        """A key that cannot be read; for an unknown key, `meant` is what it was probably meant to be."""
        self._tell(key, problem)
        self._broken.add(meant or key)

    def about(self, key: Key) -> bool:
        """Whether a key is broken, lies inside a broken one, or holds one."""
        return any(key[: len(other)] == other or other[: len(key)] == key for other in self._broken)

    @contextmanager
    def collecting(self, key: Key) -> Iterator[None]:
        """Turn the errors of the block into problems of this job."""
        try:
            yield
        except MasqueradeError as error:
            for problem in error.problems:
                if match := _PARAMETER.fullmatch(problem):
                    self.add((*key, match[1]), f"must be {match[2]}; got {match[3]}{match[4]}")
                else:
                    self.add(key, problem)

    def settle(self) -> None:
        """Raise what has been found wrong."""
        if self.lines:
            raise JobError(*dict.fromkeys(self.lines))

    def _tell(self, key: Key, problem: str) -> None:
        where = f"{written(key)}: " if key else ""
        self.lines.append(f"{self.source}: {where}{problem}")


def written(key: Key) -> str:
    """`privacy[1].k`, `attributes."native country"`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            name = part if _BARE.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def shown(value: object) -> str:
    """A value of a job file for a person, in short. The rest of a URL may hold a password."""
    if isinstance(value, str):
        scheme, separator, _ = value.partition("://")
        text = f'"{scheme}://…"' if separator else f'"{value}"'
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, dict):
        text = "a table"
    elif isinstance(value, list):
        text = "a list" if value else "an empty list"
    elif isinstance(value, int) and abs(value) > 1 << 256:  # Python does not write numbers of any length
        text = "a number of very many digits"
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
