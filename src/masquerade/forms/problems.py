"""The problems of one file or form, gathered while it is read and raised together.

A key that cannot be read is **broken**; problems that only follow from it are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from masquerade.errors import BadInput, JobError, Key, MasqueradeError, Problem, one_line


class Problems:
    """The problems of one source; with a `prefix`, of a table inside it."""

    def __init__(self, source: str, prefix: Key = ()) -> None:
        self.source, self.prefix = source, prefix
        self.found: list[Problem] = []
        self._broken: set[Key] = set()

    def add(self, key: Key, problem: Problem | str) -> None:
        """Record a problem, unless it only follows from a broken key."""
        if not self.about(key):
            self._remember(key, problem)

    def broken(self, key: Key, problem: Problem | str, *, meant: Key | None = None) -> None:
        """Record a key that cannot be read; for an unknown key, `meant` is the key that was probably meant."""
        self._remember(key, problem)
        self._broken.add(meant or key)

    def about(self, key: Key) -> bool:
        """Return whether a key is broken, lies inside a broken one, or holds one."""
        return any(key[: len(other)] == other or other[: len(key)] == key for other in self._broken)

    @contextmanager
    def collecting(self, key: Key) -> Iterator[None]:
        """Turn the errors of the block into problems below a key."""
        try:
            yield
        except MasqueradeError as error:
            self.collect(error, key)

    def collect(self, error: MasqueradeError, key: Key = ()) -> None:
        """Record the problems of an error below a key."""
        for problem in error.problems:
            below = problem.within(self.source, key).key
            if not self.about(below):
                self.found.append(problem.within(self.source, (*self.prefix, *key)))

    def broken_by(self, part: Problems) -> None:
        """Take over the problems of a table inside; it counts as broken."""
        self.found += part.found
        self._broken.add(part.prefix)

    def settle(self, kind: type[BadInput] = JobError) -> None:
        """Raise one error with all problems, without duplicates, if there are any."""
        if self.found:
            once = {one_line(str(problem)): problem for problem in self.found}
            raise kind(*once.values())

    def _remember(self, key: Key, problem: Problem | str) -> None:
        given = problem if isinstance(problem, Problem) else Problem(problem)
        self.found.append(given.at(source=self.source, key=(*self.prefix, *key)))
