"""Methods and requirements of other packages, found by their entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from masquerade.errors import BadInput, one_line

Kind = TypeVar("Kind")


def plugins(group: str, kind: type[Kind], known: set[str]) -> Iterator[type[Kind]]:
    """The classes that other packages declare for a group; BadInput names one that cannot be used.

    `known` are the names that are taken; each class is asked for its own by the attribute `name` or `model`.
    """
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            found = point.load()
        except (Exception, SystemExit) as error:  # code of others, which may fail in any way
            raise _unusable(point, f"cannot be loaded ({type(error).__name__}: {error})") from None
        if not isinstance(found, type) or not issubclass(found, kind):
            raise _unusable(point, f"must be a class derived from {kind.__module__}.{kind.__name__}")
        name = getattr(found, "model", None) or getattr(found, "name", None)
        if name != point.name:
            raise _unusable(point, f'declares another name than its entry point: "{name}"')
        if name in known:
            raise _unusable(point, "the name is taken; give it another, or remove the package")
        if missing := ", ".join(sorted(getattr(found, "__abstractmethods__", ()))):
            raise _unusable(point, f"does not implement {missing}")
        known.add(name)
        yield found


def _unusable(point: EntryPoint, why: str) -> BadInput:
    package = point.dist.name if point.dist is not None else "an unknown package"
    return BadInput(one_line(f'{point.group} "{point.name}" of {package}: {why}'))
