"""Masquerade: publish and analyse data together without showing each other the raw data.

    import masquerade as mq
    table = mq.read("adult.csv", taxonomies="taxonomies/")
    algorithm = mq.TopDownSpecialization(target="income")
    release = mq.anonymize(table, mq.KAnonymity(["age", "job"], k=50), algorithm)

Names are imported when they are first used, so that `masquerade --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    from inspect import Signature

__version__ = "0.1.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _CallableRoom(ModuleType):
    # `masquerade.anonymize` is a room of the house, and the function of that name: one word, one object.
    # Properties stand before what the package itself has, so help() and editors show the function.

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _anonymize()(*args, **options)

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        return signature(_anonymize())

    @property
    def __doc__(self) -> str | None:
        return f"{_anonymize().__doc__}\n    anonymize{self.__signature__}"


def _anonymize() -> Callable[..., Any]:
    function: Callable[..., Any] = import_module("masquerade.jobs.one_table").anonymize
    return function


import_module("masquerade.anonymize").__class__ = _CallableRoom
