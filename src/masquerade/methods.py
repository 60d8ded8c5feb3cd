"""Everything that `[algorithm] name` may say: the methods on one table, and those between parties.

A method is added by one line in `_BUILT_IN`, or by another package through the entry point `masquerade.methods`.
Nothing else lists methods: the job file, contracts, requests, the HTTP schema, the console's form and the reference
page are made from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from masquerade.anonymize.best_release import BestRelease
from masquerade.anonymize.cheapest_box.algorithm import CheapestBox
from masquerade.anonymize.datafly import Datafly
from masquerade.anonymize.k_member.algorithm import GreedyCka, KMember
from masquerade.anonymize.method import Method, TableMethod
from masquerade.anonymize.mondrian.algorithm import Mondrian
from masquerade.anonymize.tds import TopDownSpecialization
from masquerade.errors import ParameterError, Problem, hint
from masquerade.forms.declared import (
    Declared,
    Parameter,
    parameter,
    parameters_of,
    read_declared,
    shown_value,
    words_of,
)
from masquerade.forms.rules import choice, whole
from masquerade.plugins import plugins
from masquerade.privacy.m_privacy.strategies import STRATEGIES
from masquerade.protocol.arrangement import ARRANGEMENTS, Arrangement
from masquerade.protocol.automatic import Automatic
from masquerade.protocol.collaborate.method import Collaboration
from masquerade.protocol.contract import Contract, without_floats
from masquerade.protocol.dka.method import Dka
from masquerade.protocol.joint_specialization import JointSpecialization
from masquerade.protocol.method import AskedMethod, SessionMethod
from masquerade.protocol.multidimensional.method import JointMondrian

GROUP = "masquerade.methods"
DEFAULT = BestRelease.name  # on one table; between parties a name of its own kind, the same word


@dataclass(frozen=True)
class Auto(BestRelease):
    """The best of the methods that take the requirements, each with the few settings that it declares.

    The best is the one with the lowest classification error where there is a class (without the extra `mining`: the
    lowest classification metric), otherwise with the lowest normalised certainty penalty; `measure` names another
    metric, or `"query_error"`, the error of random range queries. Errors of decision trees that differ by less than
    their standard error count as equal, and then the certainty penalty decides. `budget` is for all methods together:
    those that would exceed it by what they declare are left out, and named.
    """

    def methods(self) -> Iterable[type[TableMethod]]:
        """Return all methods on one table, those of other packages included."""
        return table_methods().values()


@dataclass(frozen=True)
class ChoiceForJoin(Automatic):
    """A method for parties with different columns of the same people."""

    arrangement: ClassVar[Arrangement] = "vertical"

    @classmethod
    def methods(cls) -> Iterable[type[SessionMethod]]:
        """Return all such methods, those of other packages included."""
        return methods_between_parties(cls.arrangement)


@dataclass(frozen=True)
class ChoiceForProviders(ChoiceForJoin):
    """A method for providers of the same columns about different people."""

    arrangement: ClassVar[Arrangement] = "horizontal"


_BUILT_IN: tuple[type[Method], ...] = (
    Auto,
    ChoiceForJoin,
    ChoiceForProviders,
    TopDownSpecialization,
    Mondrian,
    CheapestBox,
    Datafly,
    KMember,
    GreedyCka,
    JointSpecialization,
    Dka,
    Collaboration,
    JointMondrian,
)

Wanted = TypeVar("Wanted", bound=Method)


@dataclass(frozen=True)
class CommonKeys(Declared):
    """Keys of `[algorithm]` that every method has."""

    seed: int = parameter(
        whole(0, 2**32 - 1), 7, help="sampling and cross-validation; never shuffles, keys or masks"
    )
    verification: str = parameter(
        choice(*STRATEGIES), "exact", help="how m-privacy is verified; all ways give the same verdict"
    )


@cache
def methods() -> tuple[type[Method], ...]:
    """All methods, those of other packages last."""
    names = {each.name for each in _BUILT_IN}
    return (*_BUILT_IN, *plugins(GROUP, Method, names))


def table_methods() -> dict[str, type[TableMethod]]:
    """The methods on one table, by name."""
    return {each.name: each for each in methods() if issubclass(each, TableMethod)}


def methods_between_parties(arrangement: Arrangement | None = None) -> tuple[type[SessionMethod], ...]:
    """The methods between parties; those of one arrangement alone, if it is given. Names are unique within it."""
    return tuple(
        each
        for each in methods()
        if issubclass(each, SessionMethod) and arrangement in (None, each.arrangement)
    )


def session_methods(arrangement: Arrangement) -> dict[str, type[SessionMethod]]:
    """The methods between parties who hold their data in this way, by name."""
    return {each.name: each for each in methods_between_parties(arrangement)}


def askable_methods(arrangement: Arrangement) -> dict[str, type[AskedMethod]]:
    """What such parties may be asked for, by name: a method, or that one be chosen."""
    return {
        each.name: each
        for each in methods()
        if issubclass(each, AskedMethod) and each.arrangement == arrangement
    }


def unnamed_method(arrangement: Arrangement) -> AskedMethod:
    """What such parties do where nobody names a method: choose one, or take it where there is no choice."""
    choice = askable_methods(arrangement)[DEFAULT]()
    return choice if len(choice.possible) > 1 else choice.possible[0]


def full_name(name: Any) -> tuple[Any, dict[str, str]]:
    """The method's own name and the parameters that a short name stands for; any other name as it is, and none."""
    for method in methods():
        if isinstance(name, str) and name in method.short_names:
            return method.name, dict(method.short_names[name])
    return name, {}


def read_method(
    available: Mapping[str, type[Wanted]],
    table: Mapping[str, Any],
    default: str = DEFAULT,
    *,
    in_job: bool = True,
    **given: Any,
) -> tuple[Wanted | None, CommonKeys, list[Problem]]:
    """A method from a table that names it, with the keys that all methods share, and what is wrong with the table.

    A key of another method is a problem that says whose it is. Only job files have the common keys. A short name is
    read as the method's own name with its parameters. Without a name, keys that one method alone has stand for it
    where the default is to choose.
    """
    keys = dict(table)
    common_words = {each.name for each in parameters_of(CommonKeys)} if in_job else set()
    common, problems = read_declared(CommonKeys, {key: keys.pop(key) for key in table if key in common_words})
    name, fixed = full_name(keys.pop("name") if "name" in keys else _implied(keys, available, default))
    if not isinstance(name, str) or name not in available:
        must_be = f'the name of an algorithm, such as "{default}"'
        wrong_kind = Problem(key=("name",), allowed=must_be, found=shown_value(name))
        unknown = Problem(_no_method(name, available), key=("name",)) if isinstance(name, str) else wrong_kind
        return None, common or CommonKeys(), [unknown, *problems]
    method = available[name]
    own = set(words_of(method))
    for key in [key for key in keys if key not in own]:
        problems.append(Problem(_foreign(key, method, own | common_words | {"name"}), key=(key,)))
        del keys[key]
    for key in fixed.keys() & keys.keys():
        text = f'the name "{table["name"]}" says it already; leave it out, or use name = "{name}"'
        problems.append(Problem(text, key=(key,)))
    made, wrong = read_declared(method, keys | fixed, **given)
    return made, common or CommonKeys(), [*problems, *wrong]


def placed(table: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """The keys of a method, where its files are relative to a folder."""
    files = {each.name for method in methods() for each in parameters_of(method) if each.rule.is_file}
    return {
        key: str(base / value) if key in files and isinstance(value, str) and value else value
        for key, value in table.items()
    }


def _implied(keys: Iterable[str], available: Mapping[str, type[Method]], default: str) -> str:
    usual = available.get(default)
    if usual is None or not issubclass(usual, BestRelease | Automatic):
        return default
    foreign = set(keys) - set(words_of(usual))
    owners = [name for name, method in available.items() if foreign and foreign <= set(words_of(method))]
    return owners[0] if len(owners) == 1 else default


def method_of(contract: Contract) -> SessionMethod:
    """The method of a contract; ParameterError when this version has none of that name."""
    name = str(contract.method.get("name"))
    known = session_methods(contract.arrangement)
    if name not in known:
        raise ParameterError(f'contract: no method "{name}" for parties; available: {", ".join(known)}')
    return known[name].of(contract)


def written_method(method: SessionMethod) -> dict[str, Any]:
    """A method as a contract has it: decimals as texts."""
    return without_floats(method.settings())


def plain_method(written: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `written_method`, for people: decimals as numbers; what is not known stays as it is."""
    decimals = {
        each.name
        for method in methods_between_parties()
        if method.name == written.get("name")
        for each in parameters_of(method)
        if each.rule.decimal
    }
    return {key: float(value) if key in decimals else value for key, value in written.items()}


def described(written: Mapping[str, Any]) -> str:
    """A method with its parameters, for a person."""
    shown = {key: _shown(value) for key, value in written.items()}
    name = shown.pop("name", None)
    parameters = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
    return f"{name}: {parameters}" if parameters else str(name)


def _shown(value: Any) -> Any:
    if isinstance(value, Mapping):
        return " + ".join(f"{name} {part}" for name, part in value.items())
    return ("yes" if value else "no") if isinstance(value, bool) else value


def parameters_by_method(available: Iterable[type[Method]]) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each method, by its name; those of both where parties may hold their data in two ways."""
    found: dict[str, tuple[Parameter, ...]] = {}
    for each in available:
        found[each.name] = (*found.get(each.name, ()), *parameters_of(each))
    return found


def _no_method(name: str, available: Mapping[str, type[Method]]) -> str:
    listed = ", ".join(available)
    if name not in {each.name for each in methods()}:
        return f'no algorithm "{name}"{hint(str(name), available)}; available: {listed}'
    between = {each.name for each in methods() if issubclass(each, AskedMethod)}
    if name in table_methods() and name not in between:
        return f'"{name}" is for one table; parties have: {listed}'
    if name in between and name not in table_methods():
        return f'"{name}" is for parties; one table has: {listed}'
    return f'"{name}" is not for parties that hold their data like this; they have: {listed}'


def _where(home: type[Method], method: type[Method]) -> str:
    """Where a method of the same name as another is at home."""
    if issubclass(home, AskedMethod) and issubclass(method, AskedMethod):
        return f"between parties with {ARRANGEMENTS[home.arrangement].columns}"
    return "between parties" if issubclass(home, AskedMethod) else "on one table"


def _foreign(key: str, method: type[Method], own: set[str]) -> str:
    """Why a key does not belong to a method, and to which it does."""
    homes = [
        each for each in methods() if any(key in (own.name, *own.aliases) for own in parameters_of(each))
    ]
    named = " and ".join(dict.fromkeys(each.name for each in homes))
    beside = [each for each in homes if issubclass(each, TableMethod) == issubclass(method, TableMethod)]
    alike = [each for each in homes if each.name == method.name]
    if alike:
        return f"belongs to {method.name} {_where(next((each for each in alike if each in beside), alike[0]), method)}"
    if homes and not beside:
        return (
            f"belongs to {named} {'between parties' if issubclass(method, TableMethod) else 'on one table'}"
        )
    if not homes and any(key == each.name for each in parameters_of(CommonKeys)):
        return "belongs to a job file; a request has no such key"
    if homes:
        why = f": {method.lacks[key]}" if key in method.lacks else ""
        return f"belongs to {named}; {method.name} does without it{why}"
    meant = hint(key, own) or hint(key, {word for each in methods() for word in words_of(each)})
    return f"unknown key{meant}; known here: {', '.join(sorted(own))}"
