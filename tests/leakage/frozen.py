"""The frozen file: all that travels, field by field with its type and class, and how long each message is.

`messages.toml` is made by `make messages`. Names, types and sizes are the code's; what people decide is kept as it is:
each field's `class` and, where it has one, its `length` as a formula of public numbers.

    open      docs/leakage.md grants it: a simulator makes it from what is granted, byte for byte (views.py)
    masked    looks the same whatever the peers' data are: the distribution test that `by` names (masked.py)
    public    agreed, configured or counted by everybody: simulated likewise, where it is between parties
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import sys
import tomllib
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import masquerade
from masquerade.net import Message

FILE = Path(__file__).with_name("messages.toml")
CLASSES = ("open", "masked", "public")
# Where structs that travel are defined: in the package, and in a protocol that only experiments play.
OURS = ("masquerade.", "benchmarks._ssi")


@dataclass(frozen=True)
class Frozen:
    """The file's content."""

    messages: dict[str, dict[str, Any]]
    sessions: dict[str, dict[str, Any]]
    at_home: list[str]  # structs that never leave their process

    @classmethod
    def read(cls) -> Frozen:
        """Read the file."""
        found = tomllib.loads(FILE.read_text()) if FILE.exists() else {}
        return cls(found.get("message", {}), found.get("session", {}), found.get("at_home", []))

    def fields(self, kind: str) -> dict[str, dict[str, str]]:
        """A message's fields: type, class, and what else is said of them."""
        found = self.messages.get(kind, {})
        return {name: told for name, told in found.items() if isinstance(told, dict)}

    def classes(self, kind: str, field: str) -> str:
        """A field's class; of one that has another for another receiver, both."""
        return self.fields(kind).get(field, {}).get("class", "?")

    def shown(self, kind: str) -> bool:
        """Whether some field of the message is not masked, so that a simulator has something to make."""
        found = self.fields(kind)
        return not found or any(told["class"] != "masked" for told in found.values())

    def all_masked(self, kind: str) -> bool:
        """Whether all fields of the message are masked, so that its length must not depend on data."""
        return all("masked" in told["class"] for told in self.fields(kind).values())

    def masked_by(self, piece: str) -> set[tuple[str, str]]:
        """The masked fields that a distribution test answers for."""
        return {
            (kind, name)
            for kind in self.messages
            for name, told in self.fields(kind).items()
            if piece in told.get("by", "").split(", ")
        }


def travelling() -> dict[str, type]:
    """Every struct that travels, by its kind: all structs of the package but those that stay at home."""
    found: dict[str, type] = {}
    at_home = Frozen.read().at_home
    for kind, struct in all_structs().items():
        if kind not in at_home:
            _closure(struct, found)
    return dict(sorted(found.items()))


def all_structs() -> dict[str, type]:
    """Every struct of the package, by its kind."""
    import_all()
    found: dict[str, type] = {}
    for each in _below(msgspec.Struct):
        if vars(sys.modules[each.__module__]).get(each.__qualname__) is not each:
            continue  # of another copy of the package, which was loaded before
        assert found.setdefault(kind_of(each), each) is each, f"two structs are called {kind_of(each)}"
    return found


def types_of(struct: type) -> dict[str, str]:
    """A struct's fields with their types, as a reader writes them."""
    hints = typing.get_type_hints(struct)
    if dataclasses.is_dataclass(struct):
        return {each.name: _text(hints[each.name]) for each in dataclasses.fields(struct)}
    fields: Any = struct  # as they are encoded
    return {
        sent: _text(hints[name])
        for sent, name in zip(fields.__struct_encode_fields__, fields.__struct_fields__, strict=True)
    }


def kind_of(struct: type) -> str:
    """The name of a struct in the file, wherever it is defined: a message's tag, or the name of the class."""
    return str(struct.__struct_config__.tag) if issubclass(struct, Message) else struct.__qualname__


def is_message(kind: str) -> bool:
    """Whether this names a message between parties, which has a tag."""
    return kind.islower()


def import_all() -> None:
    """Import the whole package, so that no struct is overlooked."""
    for module in pkgutil.walk_packages(masquerade.__path__, "masquerade."):
        if "migrations" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _below(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        if each.__module__.startswith(OURS) and each is not Message:
            yield each
        yield from _below(each)


def _closure(struct: type, found: dict[str, type]) -> None:
    """A struct and all that its fields are made of."""
    kind = kind_of(struct)
    if kind in found:
        return
    found[kind] = struct
    for hint in typing.get_type_hints(struct).values():
        for part in _parts(hint):
            ours = isinstance(part, type) and part.__module__.startswith(OURS)
            if ours and (issubclass(part, msgspec.Struct) or dataclasses.is_dataclass(part)):
                _closure(part, found)


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for each in typing.get_args(hint):
        yield from _parts(each)


def _text(hint: Any) -> str:
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return hint.__qualname__
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", str(hint))
