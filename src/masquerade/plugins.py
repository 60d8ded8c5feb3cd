"""Load methods and requirements: ours by where they are, those of other packages by their entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from masquerade.errors import BadInput, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind")


def loaded(home: str) -> Any:
    """Return the class of ours that a dotted name below `masquerade` stands for."""
    module, _, name = home.rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), name)


def plugins(group: str, kind: type[Kind], known: set[str]) -> Iterator[type[Kind]]:
    """The classes that other packages declare for a group; BadInput names one that cannot be used.

    `known` are the names that are taken; each class is asked for its own by the attribute `name` or `model`.
    """
    from importlib.metadata import entry_points

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


def outside_package(kind: type) -> str | None:
    """The other package that a class comes from; None if it is ours."""
    package = kind.__module__.partition(".")[0]
    return package if package != __package__ else None


def failure_of(kind: type, error: BaseException) -> str:
    """How a class of another package failed, for a person; if the class is ours, its error is raised again.

    Only the kind of the error is shown: its text may hold a person's data.
    """
    package = outside_package(kind)
    if package is None:
        raise error
    return f"failed with {type(error).__name__} (package {package})"


def _unusable(point: EntryPoint, why: str) -> BadInput:
    package = point.dist.name if point.dist is not None else "an unknown package"
    return BadInput(one_line(f'{point.group} "{point.name}" of {package}: {why}'))
