"""The request being drafted in the form, and its TOML and JSON text. Draws nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade.arrangement import Arrangement
from masquerade.console.words import KINDS, KindView, kind_of
from masquerade.data import AttributeKind
from masquerade.forms import Parameter, parameters_of, words_of
from masquerade.methods import requestable_methods, unnamed_method
from masquerade.privacy import REQUIREMENTS, KAnonymity, can_wrap, limits_of
from masquerade.protocol import AskedMethod, RoleName, SessionMethod, testable_models
from masquerade.service import DEFAULT_ARRANGEMENT, QUALITY_TERMS, ColumnCard, Provider, SchemaCard


@dataclass(frozen=True)
class NumericParameter:
    """A numeric parameter of a requirement: its usual symbol, an initial value, and whether it must be an integer."""

    symbol: str
    example: str
    is_whole: bool


def numbers_of(model: str) -> dict[str, NumericParameter]:
    """Return the numeric parameters that a model declares, by name."""
    limits, numbers = limits_of(REQUIREMENTS[model]), dict[str, NumericParameter]()
    for each in parameters_of(REQUIREMENTS[model]):
        kind, limit = each.rule.json_schema.get("type"), limits.get(each.name)
        if limit is not None:
            numbers[each.name] = NumericParameter(limit.symbol, str(limit.example), kind == "integer")
        elif kind in ("integer", "number"):
            example = "" if each.required else str(each.default)
            numbers[each.name] = NumericParameter(each.name, example, kind == "integer")
    return numbers


def all_numbers() -> dict[str, NumericParameter]:
    """Return the numeric parameters of all models, by name; the first model to declare a name defines it."""
    found: dict[str, NumericParameter] = {}
    for model in REQUIREMENTS.plain:
        for name, number in numbers_of(model).items():
            found.setdefault(name, number)
    return found


def needs_sensitive(model: str) -> bool:
    """Return whether a model protects a sensitive attribute."""
    return "sensitive" in words_of(REQUIREMENTS[model])


@dataclass
class Wish:
    """One requirement that the client asks for."""

    model: str = KAnonymity.model
    qid: list[str] = field(default_factory=list)
    numbers: dict[str, str] = field(default_factory=dict)
    sensitive: str = ""

    def number(self, name: str) -> str:
        """Return the text entered for a parameter, or its example."""
        return self.numbers.get(name, all_numbers()[name].example)

    def content(self, qid: Sequence[str], sensitive: Sequence[str]) -> dict[str, Any]:
        """Return an entry of `[[privacy]]` over this QID; `sensitive` lists the names that it can protect."""
        entry: dict[str, Any] = {"model": self.model, "qid": list(qid)}
        for name, number in numbers_of(self.model).items():
            entry[name] = _number(self.number(name), whole=number.is_whole)
        if needs_sensitive(self.model) and self.sensitive in sensitive:
            entry["sensitive"] = self.sensitive
        return entry


@dataclass(frozen=True)
class OfferedColumn:
    """A column that can be requested, with the party and dataset that hold it."""

    party: str
    dataset: str
    name: str
    role: str
    pooled: bool = False  # whether its dataset may be published together with others
    kind: AttributeKind = "categorical"


# Which columns can have a role in a request, by what their party says of them.
_FITTING: Mapping[RoleName, Callable[[OfferedColumn], bool]] = {
    "class": lambda column: column.role in ("class", "sensitive"),
    "duration": lambda column: column.kind == "continuous" and column.role in ("duration", "attribute"),
    "event": lambda column: column.role != "duration" and column.kind == "categorical",
}


@dataclass
class RequestDraft:
    """Everything that can be filled in; empty fields are left out of the request.

    Fields that the chosen kind does not use are left out too, but kept here in case the kind is changed back.
    """

    offered: Sequence[OfferedColumn] = ()
    kind: Arrangement = DEFAULT_ARRANGEMENT
    chosen: list[OfferedColumn] = field(default_factory=list)
    purpose: str = ""
    class_name: str = ""
    class_from: str = ""
    duration: str = ""
    event: str = ""
    wishes: list[Wish] = field(default_factory=lambda: [Wish()])
    most_error: str = ""
    most_ncp: str = ""
    most_query_error: str = ""
    estimate: bool = False
    budget: str = ""
    recipients: str = ""
    method: str = ""  # "": the default of the kind
    settings: dict[str, dict[str, str]] = field(default_factory=dict)  # values chosen for each method's parameters
    limits: dict[str, dict[str, str]] = field(default_factory=dict)  # by column: coarsest, finest, weight
    show_progress: bool = False
    m: str = "1"
    left_out: set[str] = field(default_factory=set)  # parties that could publish with the others but are unticked

    def choose(self, column: OfferedColumn, wanted: bool) -> None:
        """Tick or untick a column; ticking it for one party unticks it for any other."""
        self.chosen = [each for each in self.chosen if each.name != column.name]
        if wanted:
            self.chosen.append(column)
            if self.class_name == column.name:
                self.class_name = ""
            first = self.wishes[0]
            if column.role == "attribute" and column.name not in first.qid:
                first.qid.append(column.name)  # covers all attributes unless they are unticked
        else:
            for wish in self.wishes:
                wish.qid = [name for name in wish.qid if name != column.name]
                if wish.sensitive == column.name:
                    wish.sensitive = ""

    def choose_by_name(self, name: str, wanted: bool) -> None:
        """Tick or untick a column for all parties that hold it."""
        self.choose(next(each for each in self._of_kind if each.name == name), wanted)

    # --- what takes effect ---

    @property
    def view(self) -> KindView:
        """What depends on the kind."""
        return KINDS[self.kind]

    @property
    def _of_kind(self) -> list[OfferedColumn]:
        """The columns that a request of this kind can ask for."""
        return [each for each in self.offered if each.pooled or not self.view.every_party_holds_all]

    @property
    def columns(self) -> list[OfferedColumn]:
        """The chosen columns that enough parties hold."""
        least = self.view.least_holders
        return [each for each in self.chosen if len(self.holders(each.name)) >= least]

    @property
    def in_qids(self) -> list[OfferedColumn]:
        """The requested columns that are generalised, and so can be in a QID."""
        return [each for each in self.columns if each.role == "attribute"]

    @property
    def limitable(self) -> list[str]:
        """The columns that may have boundaries and weights."""
        return [each.name for each in self.in_qids] if self.has_groups else []

    @property
    def sensitive(self) -> list[str]:
        """The names of the columns that a requirement can protect."""
        raw = [each.name for each in self.columns if each.role != "attribute"]
        return [*raw, *([self.wanted_class] if self.wanted_class else [])]

    def candidates(self, role: RoleName) -> list[str]:
        """Return the columns that can have a role and are not asked for, by name; those declared for it come first."""
        asked = {each.name for each in self.chosen}
        fitting = [each for each in self._of_kind if _FITTING[role](each) and each.name not in asked]
        fitting.sort(key=lambda each: each.role != role and role != "class")
        names = dict.fromkeys(each.name for each in fitting)
        return [name for name in names if len(self.holders(name)) >= self.view.least_holders]

    @property
    def roles(self) -> dict[RoleName, str]:
        """The columns with a role that the chosen method takes; "" where none is chosen that can have it."""
        named: dict[RoleName, str] = {"class": self.class_name, "duration": self.duration, "event": self.event}
        return {
            role: name if name in self.candidates(role) else ""
            for role, name in named.items()
            if role in self.chosen_method.roles
        }

    def name_role(self, role: RoleName, name: str) -> None:
        """Choose the column with a role."""
        if role == "class":
            self.class_name, self.class_from = name, ""
        else:
            setattr(self, role, name)

    @property
    def wanted_class(self) -> str:
        """The chosen class, or "" if there is none."""
        return self.roles.get("class", "")

    @property
    def sharers(self) -> list[str]:
        """The parties that may contribute the class, if there is a choice."""
        return self.view.sharers(self.holders(self.wanted_class))

    @property
    def able(self) -> list[str]:
        """The parties that hold every requested column in one dataset."""
        return [party for party, names in self._missing().items() if self._wanted and not names]

    def lacking(self) -> dict[str, list[str]]:
        """Return the columns that each other party lacks, in its dataset that lacks the fewest."""
        return {party: names for party, names in self._missing().items() if names}

    @property
    def _wanted(self) -> list[str]:
        return [*(each.name for each in self.columns), *filter(None, self.roles.values())]

    def _missing(self) -> dict[str, list[str]]:
        held: dict[str, dict[str, set[str]]] = {}  # by party and dataset
        for each in self._of_kind:
            held.setdefault(each.party, {}).setdefault(each.dataset, set()).add(each.name)
        return {
            party: min(([name for name in self._wanted if name not in has] for has in sets.values()), key=len)
            for party, sets in held.items()
        }

    @property
    def together(self) -> list[str]:
        """The parties that are to publish together."""
        return [party for party in self.able if party not in self.left_out]

    @property
    def models(self) -> list[str]:
        """The privacy models that can be requested."""
        if self.setting("third_party") != "secure":
            pooled = self.kind == "horizontal"  # where each is wrapped in m-privacy
            return [name for name, each in REQUIREMENTS.plain.items() if can_wrap(each) or not pooled]
        return list(testable_models(m=0 if self.number("m") == 0 else 1))  # a text that is no number is not 0

    @property
    def methods(self) -> Mapping[str, type[AskedMethod]]:
        """What can be asked for in this kind; that a method be chosen, only where there are several."""
        named = {name: each for name, each in requestable_methods(self.kind).items() if issubclass(each, SessionMethod)}
        return {self._unnamed.name: self._unnamed, **named}

    @property
    def chosen_method(self) -> type[AskedMethod]:
        """The chosen method, or what is meant where none is named."""
        return self.methods.get(self.method, self._unnamed)

    @property
    def has_groups(self) -> bool:
        """Whether records are asked for, in groups; of a model or an answer no requirement says anything."""
        return self.chosen_method.makes.has_groups

    @property
    def _unnamed(self) -> type[AskedMethod]:
        return type(unnamed_method(self.kind))

    def setting(self, name: str) -> str:
        """Return the value chosen for a parameter of the method, or its default; "" if the method lacks it."""
        for each in parameters_of(self.chosen_method):
            if each.name == name:
                return self.settings.get(self.chosen_method.name, {}).get(name, _text_of(each.default))
        return ""

    def choose_setting(self, name: str, value: str) -> None:
        """Set a parameter of the chosen method."""
        self.settings.setdefault(self.chosen_method.name, {})[name] = value

    def holders(self, name: str) -> list[str]:
        """Return the parties that hold a column."""
        return list(dict.fromkeys(each.party for each in self._of_kind if each.name == name))

    def problems(self) -> list[str]:
        """Return the problems that prevent sending but do not show in the request itself."""
        found = [
            f"privacy[{number}].model: {wish.model} cannot be tested where nobody sees all counts; "
            f"use one of {', '.join(self.models)}, or a trusted third party"
            for number, wish in enumerate(self.wishes, start=1)
            if wish.model not in self.models and self.has_groups
        ]
        return [*found, *self.view.problems(self)]

    # --- the request ---

    def content(self) -> dict[str, Any]:
        """Return the request in the form that the coordinator accepts."""
        made: dict[str, Any] = {
            "purpose": self.purpose.strip(),
            "kind": "" if self.kind == DEFAULT_ARRANGEMENT else self.kind,
            "attributes": [each.name for each in self.columns],
            **{str(role): name for role, name in self.roles.items()},
            **self.view.content(self),
            **({term.key: _number(getattr(self, term.key)) for term in QUALITY_TERMS} if self.has_groups else {}),
            "estimate": self.estimate and self.has_groups,
            "budget": _cents(self.budget),
            "recipients": self.recipients.replace(",", " ").split(),
            "algorithm": self._algorithm(),
            "boundaries": self._boundaries(),
            "show_progress": self.show_progress,
            "privacy": [self._wished(wish) for wish in self.wishes] if self.has_groups else [],
        }
        return {key: value for key, value in made.items() if not _is_empty(value)}

    def number(self, name: str) -> Any:
        """Return the whole number entered in a field; text that is none is returned unchanged."""
        return _number(getattr(self, name), whole=True)

    def _algorithm(self) -> dict[str, Any]:
        """Return what differs from the default method and its default parameters."""
        method = self.chosen_method
        chosen = self.settings.get(method.name, {})
        changed = {
            each.name: _value_of(each, chosen[each.name])
            for each in parameters_of(method)
            if chosen.get(each.name) and chosen[each.name] != _text_of(each.default)
        }
        usual = method is self._unnamed
        return changed if usual and not changed else {"name": method.name} | changed

    def _boundaries(self) -> dict[str, Any]:
        """Return the boundaries and weights of the chosen columns; text that is no number is a list of values."""
        found: dict[str, Any] = {}
        for name in self.limitable:
            told = self.limits.get(name, {})
            made = {
                **_limit("max", told.get("coarsest", "")),
                **_limit("min", told.get("finest", "")),
                "weight": _number(told.get("weight", "")),
            }
            if made := {key: value for key, value in made.items() if not _is_empty(value)}:
                found[name] = made
        return found

    def _wished(self, wish: Wish) -> dict[str, Any]:
        names = [each.name for each in self.in_qids]
        return wish.content([name for name in wish.qid if name in names], self.sensitive)


def _limit(word: str, text: str) -> dict[str, Any]:
    """Return a boundary as a request has it: a width, or the names of nodes."""
    if not text.strip():
        return {}
    if not isinstance(width := _number(text), str):
        return {f"{word}_width": width}
    return {f"{word}_generalization": [name for each in text.split(",") if (name := each.strip())]}


def _shares(text: str) -> Any:
    """Return a table of numbers from text such as "spread 1, weight 2"; other text is returned unchanged."""
    parts = [each.replace("=", " ").split() for each in text.split(",") if each.strip()]
    return {name: _number(share) for name, share in parts} if all(len(each) == 2 for each in parts) else text


def _lists(text: str) -> list[list[str]]:
    """Return lists of names from text such as "age, job; age, town"."""
    found = [[name for word in each.split(",") if (name := word.strip())] for each in text.split(";")]
    return [each for each in found if each]


def _text_of(default: Any) -> str:
    """Return a parameter's default as the form shows it."""
    return "" if default is None else _value(default) if isinstance(default, bool) else str(default)


def _value_of(parameter: Parameter, text: str) -> Any:
    """Convert the text chosen for a parameter to the value in the request."""
    if parameter.rule.is_switch:
        return text == "true"
    if "object" in (each.get("type") for each in _kinds(parameter)):
        return _shares(text)
    if "array" in (each.get("type") for each in _kinds(parameter)):
        return _lists(text)
    return text if parameter.rule.choices else _number(text)


def _kinds(parameter: Parameter) -> Sequence[Mapping[str, Any]]:
    schema = parameter.rule.json_schema
    return (schema, *schema.get("anyOf", ()))


def columns_of(found: Sequence[Provider]) -> list[OfferedColumn]:
    """Return every column that can be requested."""
    return [column_of(card, each) for one in found for card in one.datasets for each in card.columns]


def column_of(card: SchemaCard, column: ColumnCard) -> OfferedColumn:
    """Describe a column of a dataset for the form."""
    return OfferedColumn(card.party, card.dataset, column.name, column.role, card.horizontal, column.kind)


def as_json(content: Mapping[str, Any]) -> str:
    """Format the request for the HTTP API."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def as_toml(content: Mapping[str, Any]) -> str:
    """Format the request for a client's configuration file."""
    lines = ["[request]"]
    entries = content.get("privacy", [])
    lines += [f"{_key(key)} = {_value(value)}" for key, value in content.items() if key != "privacy"]
    for entry in entries:
        lines += ["", "[[request.privacy]]", *(f"{_key(key)} = {_value(value)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


def _is_empty(value: Any) -> bool:
    """Return whether a value can be left out of the request; 0 cannot."""
    return value is False or value in ("", [], {}, None)


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
    """Parse a number; text that is not one is returned unchanged, for the coordinator to reject."""
    text = text.strip().replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return text
    if number.is_integer() and abs(number) < 2**53 and "e" not in text.lower():
        return int(number)
    return text if whole or number != number or number in (float("inf"), float("-inf")) else number


def _cents(text: str) -> Any:
    """Parse an amount with up to two decimals into cents."""
    number = _number(text)
    if isinstance(number, str):
        return number
    cents = number * 100
    return round(cents) if abs(cents - round(cents)) < 1e-6 else text


# --- refill -------------------------------------------------------------------------------------------------
# A request that was made before, as a draft to change.


def refilled(offered: Sequence[OfferedColumn], request: Mapping[str, Any], user: str) -> RequestDraft:
    """Return a draft that makes the same request, as far as its columns are still offered."""
    draft = RequestDraft(offered, kind=kind_of(request).name)
    givers: Mapping[str, str] = request.get("providers") or {}
    for name in request.get("attributes") or ():
        held = [each for each in offered if each.name == name]
        held.sort(key=lambda each: each.party != givers.get(each.name))  # who was asked before comes first
        if held:
            draft.choose(held[0], True)
    draft.purpose = request.get("purpose") or ""
    draft.class_name = request.get("class") or ""
    draft.duration, draft.event = request.get("duration") or "", request.get("event") or ""
    draft.class_from = givers.get(draft.class_name, "")
    draft.wishes = [_wish(each) for each in request.get("privacy") or ()] or [Wish()]
    for term in QUALITY_TERMS:
        setattr(draft, term.key, _text(request.get(term.key)))
    cents = int(request.get("budget") or 0)
    draft.budget = f"{cents // 100}.{cents % 100:02d}" if cents else ""
    draft.recipients = ", ".join(each for each in request.get("recipients") or () if each != user)
    draft.estimate = bool(request.get("estimate"))
    draft.show_progress = bool(request.get("show_progress"))
    draft.m = _text(request.get("m")) or draft.m
    parties = request.get("parties") or ()
    draft.left_out = {each.party for each in offered} - {*parties} if parties else set()
    draft.limits = {name: _limits(each) for name, each in (request.get("boundaries") or {}).items()}
    method = dict(request.get("algorithm") or {})
    draft.method = str(method.pop("name", ""))
    for name, value in method.items():
        draft.choose_setting(name, _text(value))
    return draft


def _limits(written: Mapping[str, Any]) -> dict[str, str]:
    told = {"coarsest": "max", "finest": "min"}
    found = {
        key: ", ".join(written.get(f"{word}_generalization") or ()) or _text(written.get(f"{word}_width"))
        for key, word in told.items()
    }
    return found | {"weight": _text(written.get("weight"))}


def _wish(written: Mapping[str, Any]) -> Wish:
    model = str(written.get("model"))
    if model not in REQUIREMENTS.plain:
        return Wish()
    numbers = {name: _text(written[name]) for name in numbers_of(model) if written.get(name) is not None}
    return Wish(model, list(written.get("qid") or ()), numbers, _text(written.get("sensitive")))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return "" if value is None else str(value)
