"""The request that somebody is putting together, and how it reads as TOML and JSON. No page in here."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade.privacy.models import MODELS
from masquerade.service.coordinator.directory import Provided
from masquerade.service.request import Request

WHOLE = ("k", "p")  # parameters that are whole numbers whatever the model
_DEFAULTS = {key: Request.model_fields[key].default for key in ("adversary", "argmax")}
_USUAL = {"k": "5", "l": "2", "c": "3", "t": "0.3", "alpha": "0.5", "confidence": "0.5", "p": "2"}


def parameters_of(model: str) -> tuple[str, ...]:
    """The numbers that a model needs."""
    takes = inspect.signature(MODELS[model]).parameters
    return tuple(name for name in takes if name in _USUAL)


def needs_sensitive(model: str) -> bool:
    """Whether a model protects a sensitive attribute."""
    return "sensitive" in inspect.signature(MODELS[model]).parameters


@dataclass
class Wish:
    """One wished requirement."""

    model: str = "k-anonymity"
    qid: list[str] = field(default_factory=list)
    numbers: dict[str, str] = field(default_factory=dict)
    sensitive: str = ""

    def number(self, name: str) -> str:
        """What is written for a parameter."""
        return self.numbers.get(name, _USUAL[name])

    def content(self) -> dict[str, Any]:
        """As an entry of `[[privacy]]`."""
        entry: dict[str, Any] = {"model": self.model, "qid": list(self.qid)}
        for name in parameters_of(self.model):
            entry[name] = _number(self.number(name), whole=name in WHOLE)
        if needs_sensitive(self.model) and self.sensitive:
            entry["sensitive"] = self.sensitive
        return entry


@dataclass(frozen=True)
class Column:
    """A column that can be asked for, and whose it is."""

    party: str
    dataset: str
    name: str
    role: str


@dataclass
class Draft:
    """All that can be filled in. What is empty is left out of the request."""

    offered: Sequence[Column] = ()
    chosen: list[Column] = field(default_factory=list)
    purpose: str = ""
    class_name: str = ""
    class_from: str = ""
    wishes: list[Wish] = field(default_factory=lambda: [Wish()])
    most_error: str = ""
    budget: str = ""
    recipients: str = ""
    adversary: str = _DEFAULTS["adversary"]
    argmax: str = _DEFAULTS["argmax"]
    show_steps: bool = False

    def choose(self, column: Column, wanted: bool) -> None:
        """Tick a column, or untick it; one that another party is ticked for moves over."""
        self.chosen = [each for each in self.chosen if each.name != column.name]
        if wanted:
            self.chosen.append(column)
            if self.class_name == column.name:
                self.class_name = ""
        names = [each.name for each in self.in_qids]
        for wish in self.wishes:
            wish.qid = [name for name in wish.qid if name in names]
            if (
                wanted
                and column.role == "attribute"
                and column.name not in wish.qid
                and wish is self.wishes[0]
            ):
                wish.qid.append(
                    column.name
                )  # the first requirement is over all attributes, unless they are unticked
            if wish.sensitive not in self.sensitive:
                wish.sensitive = ""

    @property
    def in_qids(self) -> list[Column]:
        """The chosen columns that are generalised: those that can be in a QID."""
        return [each for each in self.chosen if each.role == "attribute"]

    @property
    def sensitive(self) -> list[str]:
        """The names that a requirement can protect."""
        raw = [each.name for each in self.chosen if each.role != "attribute"]
        return [*raw, *([self.class_name] if self.class_name else [])]

    @property
    def classes(self) -> list[str]:
        """The names that can be the class: columns that are released as they are, and not asked for anyway."""
        asked = {each.name for each in self.chosen}
        kinds = ("class", "sensitive")
        return list(
            dict.fromkeys(each.name for each in self.offered if each.role in kinds and each.name not in asked)
        )

    @property
    def class_holders(self) -> list[str]:
        """Who holds the class."""
        return list(dict.fromkeys(each.party for each in self.offered if each.name == self.class_name))

    def content(self) -> dict[str, Any]:
        """The request, as the coordinator takes it."""
        made: dict[str, Any] = {
            "purpose": self.purpose.strip(),
            "attributes": [each.name for each in self.chosen],
        }
        made["class"] = self.class_name
        providers = {each.name: each.party for each in self.chosen if self._holders(each.name) > 1}
        if self.class_name and self.class_from:
            providers[self.class_name] = self.class_from
        made["providers"] = providers
        made["most_error"] = _number(self.most_error)
        made["budget"] = _cents(self.budget)
        made["recipients"] = [name for name in self.recipients.replace(",", " ").split() if name]
        protocol = {"adversary": self.adversary, "argmax": self.argmax}
        made |= {key: value for key, value in protocol.items() if value != _DEFAULTS[key]}
        made["show_steps"] = self.show_steps
        made["privacy"] = [wish.content() for wish in self.wishes]
        return {key: value for key, value in made.items() if value not in ("", [], {}, False, None)}

    def _holders(self, name: str) -> int:
        return len({each.party for each in self.offered if each.name == name})


def columns_of(found: Sequence[Provided]) -> list[Column]:
    """Every column that can be asked for."""
    return [
        Column(each.party, card.dataset, column.name, column.role)
        for each in found
        for card in each.datasets
        for column in card.columns
    ]


def as_json(content: Mapping[str, Any]) -> str:
    """The request for the HTTP API."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def as_toml(content: Mapping[str, Any]) -> str:
    """The request for a client's configuration."""
    lines = ["[request]"]
    entries = content.get("privacy", [])
    lines += [f"{_key(key)} = {_value(value)}" for key, value in content.items() if key != "privacy"]
    for entry in entries:
        lines += [
            "",
            "[[request.privacy]]",
            *(f"{_key(key)} = {_value(value)}" for key, value in entry.items()),
        ]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _number(text: str, *, whole: bool = False) -> Any:
    """A number as it is meant; what is none stays as it is, and the coordinator says so."""
    text = text.strip().replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return text
    if number.is_integer() and abs(number) < 2**53 and "e" not in text.lower():
        return int(number)
    return text if whole or number != number or number in (float("inf"), float("-inf")) else number


def _cents(text: str) -> Any:
    """Money with two decimals as cents."""
    number = _number(text)
    if isinstance(number, str):
        return number
    cents = number * 100
    return round(cents) if abs(cents - round(cents)) < 1e-6 else text
