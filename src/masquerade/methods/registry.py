"""Everything that `[algorithm] name` may say: the methods on one table, those between parties, that learn, that answer.

one_table.py         the one that chooses for one table
between_parties.py   those that choose between parties

They are apart because whoever asks for one table has no use for cryptography.

A method is added by one line in `BUILT_IN`, or by another package through the entry point `masquerade.methods`.
Nothing else lists methods: the job file, contracts, requests, the HTTP schema, the console's form and the reference
page are made from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from masquerade import forms
from masquerade.arrangement import ANSWER, ARRANGEMENTS, MODEL, TABLE, Arrangement, Product
from masquerade.errors import ParameterError, Problem, hint
from masquerade.plugins import loaded, plugins
from masquerade.privacy import VERIFICATIONS

if TYPE_CHECKING:
    from masquerade.anonymize import Method, TableMethod
    from masquerade.protocol import AskedMethod, Contract, LearningMethod, SessionMethod

# --- registry -----------------------------------------------------------------------------------------------
# Every method by its kind and name, and where its class is. A class is loaded when somebody looks at it.
#
# So a command loads the one method that its job names, and no cryptography unless there are parties.

# What a method works on: one table; different columns of the same people; the same columns of different people; a model
# learned from either of the two; a question to parties, of which numbers come alone.
Kind = Literal["table", "vertical", "horizontal", "learning", "question"]
Wanted = TypeVar("Wanted", bound="Method")

GROUP = "masquerade.methods"

BUILT_IN: dict[Kind, dict[str, str]] = {
    "table": {
        "auto": "methods.one_table.Auto",
        "tds": "anonymize.tds.method.TopDownSpecialization",
        "mondrian": "anonymize.mondrian.algorithm.Mondrian",
        "cheapest-box": "anonymize.cheapest_box.method.CheapestBox",
        "datafly": "anonymize.datafly.Datafly",
        "k-member": "anonymize.k_member.KMember",
        "greedy-cka": "anonymize.k_member.GreedyCka",
    },
    "vertical": {
        "auto": "methods.between_parties.ChoiceForJoin",
        "tds": "protocol.tds.method.JointSpecialization",
        "dka": "protocol.dka.method.Dka",
        "mondrian": "protocol.mondrian.method.JointMondrian",
    },
    "horizontal": {
        "auto": "methods.between_parties.ChoiceForProviders",
        "mondrian": "protocol.providers.method.Collaboration",
    },
    "learning": {
        "id3": "protocol.learn.id3.Id3",
        "bayes-net": "protocol.learn.bayes_net.BayesNetMethod",
        "logistic": "protocol.learn.linear.LogisticRegressionMethod",
        "svm": "protocol.learn.linear.SupportVectors",
        "cox": "protocol.learn.cox.CoxRegressionMethod",
        "pp-svm": "protocol.learn.projected.PpSvmMethod",
        "pp-cox": "protocol.learn.projected.PpCoxMethod",
    },
    "question": {"joint-keys": "protocol.joint_keys.JointKeys"},
}


class Available(Mapping[str, type[Wanted]], Generic[Wanted]):
    """The methods of one kind by name: our own, then those of other packages, which are looked for when needed."""

    def __init__(self, kind: Kind, *, without: str | None = None) -> None:
        self._kind = kind
        self._homes = {name: home for name, home in BUILT_IN[kind].items() if name != without}

    def __getitem__(self, name: str) -> type[Wanted]:
        home = self._homes.get(name)
        found: type[Wanted] = loaded(home) if home is not None else _others(self._kind)[name]
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in _others(self._kind)

    def __iter__(self) -> Iterator[str]:
        yield from self._homes
        yield from _others(self._kind)

    def __len__(self) -> int:
        return len(self._homes) + len(_others(self._kind))


@cache
def _others(kind: Kind) -> dict[str, type[Any]]:
    return {each.name: each for each in _plugins() if kind_of(each) == kind}


@cache
def _plugins() -> tuple[type[Method], ...]:
    from masquerade.anonymize import Method

    taken = {name for homes in BUILT_IN.values() for name in homes}
    return tuple(plugins(GROUP, Method, taken))


def kind_of(method: type[Method]) -> Kind | None:
    """Return what a method works on, as its class declares it; None if nobody may ask for it."""
    from masquerade.anonymize import TableMethod

    if issubclass(method, TableMethod):
        return "table"
    from masquerade.arrangement import ANSWER
    from masquerade.protocol import AskedMethod, LearningMethod

    if issubclass(method, LearningMethod):
        return "learning"
    if not issubclass(method, AskedMethod):
        return None
    return "question" if method.makes is ANSWER else method.arrangement


# --- methods ------------------------------------------------------------------------------------------------

DEFAULT = "auto"  # the method that chooses: on one table by trying, between parties from what is agreed


@dataclass(frozen=True)
class CommonKeys(forms.Declared):
    """Keys of `[algorithm]` that every method has."""

    seed: int = forms.parameter(
        forms.whole(0, 2**32 - 1), 7, help="sampling and cross-validation; never shuffles, keys or masks"
    )
    verification: str = forms.parameter(
        forms.choice(*VERIFICATIONS), "exact", help="how m-privacy is verified; all ways give the same verdict"
    )


@cache
def methods() -> tuple[type[Method], ...]:
    """Load every method, those of other packages last."""
    return (*(loaded(home) for homes in BUILT_IN.values() for home in homes.values()), *_plugins())


def table_methods() -> Mapping[str, type[TableMethod]]:
    """The methods on one table, by name."""
    return Available("table")


def methods_between_parties(arrangement: Arrangement | None = None) -> tuple[type[SessionMethod], ...]:
    """The methods between parties; those of one arrangement alone, if it is given. Names are unique within it."""
    wanted: tuple[Arrangement, ...] = ("vertical", "horizontal") if arrangement is None else (arrangement,)
    return tuple(each for kind in wanted for each in session_methods(kind).values())


def session_methods(arrangement: Arrangement) -> Mapping[str, type[SessionMethod]]:
    """The methods between parties who hold their data in this way, by name."""
    return Available(arrangement, without=DEFAULT)


def learning_methods() -> Mapping[str, type[LearningMethod]]:
    """The methods by which parties learn a model, by name."""
    return Available("learning")


def requestable_methods(arrangement: Arrangement) -> dict[str, type[AskedMethod]]:
    """What a request may name of such parties: a method that makes a table, learns a model, or answers a question."""
    asked = {name: each for name, each in questions().items() if each.arrangement == arrangement}
    models = {name: each for name, each in learning_methods().items() if arrangement in each.arrangements}
    return {**askable_methods(arrangement), **models, **asked}


def questions() -> Mapping[str, type[SessionMethod]]:
    """What parties may be asked that only an answer comes of, by name."""
    return Available("question")


def askable_methods(arrangement: Arrangement) -> Mapping[str, type[AskedMethod]]:
    """What such parties may be asked for a table by, by name: a method, or that one be chosen."""
    return Available(arrangement)


def unnamed_method(arrangement: Arrangement) -> AskedMethod:
    """What such parties do where nobody names a method: choose one, or take it where there is no choice."""
    choice = askable_methods(arrangement)[DEFAULT]()
    return choice if len(choice.possible) > 1 else choice.possible[0]


def full_name(name: Any) -> tuple[Any, dict[str, str]]:
    """The method's own name and the parameters that a short name stands for; any other name as it is, and none."""
    if not isinstance(name, str) or any(name in homes for homes in BUILT_IN.values()):
        return name, {}
    for method in methods():
        if name in method.short_names:
            return method.name, dict(method.short_names[name])
    return name, {}


def read_method(
    available: Mapping[str, type[Wanted]],
    table: Mapping[str, Any],
    default: str = DEFAULT,
    *,
    in_job: bool = True,
    base: Path | None = None,
    **given: Any,
) -> tuple[Wanted | None, CommonKeys, list[Problem]]:
    """A method from a table that names it, with the keys that all methods share, and what is wrong with the table.

    A key of another method is a problem that says whose it is. Only job files have the common keys. Files that the keys
    name are relative to `base`, if it is given. A short name is read as the method's own name with its parameters.
    Without a name, keys that one method alone has stand for it where the default is to choose.
    """
    keys = dict(table)
    common_words = {each.name for each in forms.parameters_of(CommonKeys)} if in_job else set()
    common, problems = forms.read_declared(CommonKeys, {key: keys.pop(key) for key in table if key in common_words})
    name, fixed = full_name(keys.pop("name") if "name" in keys else _implied(keys, available, default))
    if not isinstance(name, str) or name not in available:
        must_be = f'the name of an algorithm, such as "{default}"'
        wrong_kind = Problem(key=("name",), allowed=must_be, found=forms.shown_value(name))
        unknown = Problem(no_method(name, available), key=("name",)) if isinstance(name, str) else wrong_kind
        return None, common or CommonKeys(), [unknown, *problems]
    method = available[name]
    own = set(forms.words_of(method))
    for key in [key for key in keys if key not in own]:
        problems.append(Problem(_foreign(key, method, own | common_words | {"name"}), key=(key,)))
        del keys[key]
    for key in fixed.keys() & keys.keys():
        text = f'the name "{table["name"]}" says it already; leave it out, or use name = "{name}"'
        problems.append(Problem(text, key=(key,)))
    files = {each.name for each in forms.parameters_of(method) if each.rule.is_file}
    for key in files & keys.keys():
        if base is not None and isinstance(keys[key], str) and keys[key]:
            keys[key] = str(base / keys[key])
    made, wrong = forms.read_declared(method, keys | fixed, **given)
    return made, common or CommonKeys(), [*problems, *wrong]


def _implied(keys: Iterable[str], available: Mapping[str, type[Method]], default: str) -> str:
    if default != DEFAULT or default not in available or not keys:
        return default
    foreign = set(keys) - set(forms.words_of(available[default]))
    owners = [name for name, method in available.items() if foreign and foreign <= set(forms.words_of(method))]
    return owners[0] if len(owners) == 1 else default


def method_of(contract: Contract) -> SessionMethod:
    """The method of a contract, whatever it makes; ParameterError when this version has none of that name."""
    name = str(contract.method.get("name"))
    if name in learning_methods():
        return learning_method_of(contract)
    known = questions() if name in questions() else session_methods(contract.arrangement)
    if name not in known:
        raise ParameterError(f'contract: no method "{name}" for parties; available: {", ".join(known)}')
    return known[name].of(contract)


def learning_method_of(contract: Contract) -> LearningMethod:
    """The method of a contract for a model; ParameterError when this version has none of that name."""
    name, known = str(contract.method.get("name")), learning_methods()
    if name not in known:
        raise ParameterError(f'contract: no method "{name}" for models; available: {", ".join(known)}')
    return known[name].of(contract)


class _NamesMethod(Protocol):
    @property
    def method(self) -> dict[str, Any]: ...


def product_of(agreed: _NamesMethod) -> Product:
    """What a contract, or its terms, are for; a method that this version does not know makes tables."""
    return product_by(agreed.method)


def product_by(method: Mapping[str, Any] | None) -> Product:
    """What a method makes, as a contract or a request writes it; None where a request leaves it open."""
    name = (method or {}).get("name")
    if name in learning_methods():
        return MODEL
    return ANSWER if name in questions() else TABLE


def written_method(method: SessionMethod) -> dict[str, Any]:
    """A method as a contract has it: decimals as texts."""
    return forms.without_floats(method.settings())


def plain_method(written: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `written_method`, for people: decimals as numbers; what is not known stays as it is."""
    name = str(written.get("name"))
    between: list[Mapping[str, type[Method]]] = [*map(askable_methods, ARRANGEMENTS), learning_methods(), questions()]
    named = [available[name] for available in between if name in available]
    decimals = {each.name for method in named for each in forms.parameters_of(method) if each.rule.decimal}
    return {key: forms.numbers_of(value) if key in decimals else value for key, value in written.items()}


def described(written: Mapping[str, Any]) -> str:
    """A method with its parameters, for a person."""
    shown = {key: _shown(value) for key, value in written.items()}
    name = shown.pop("name", None)
    parameters = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
    return f"{name}: {parameters}" if parameters else str(name)


def _shown(value: Any) -> Any:
    if isinstance(value, Mapping):
        return " + ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return " / ".join(" + ".join(each) if isinstance(each, list | tuple) else str(each) for each in value)
    return ("yes" if value else "no") if isinstance(value, bool) else value


def parameters_by_method(available: Iterable[type[Method]]) -> dict[str, tuple[forms.Parameter, ...]]:
    """The parameters of each method, by its name; those of both where parties may hold their data in two ways."""
    found: dict[str, tuple[forms.Parameter, ...]] = {}
    for each in available:
        found[each.name] = (*found.get(each.name, ()), *forms.parameters_of(each))
    return found


def no_method(name: str, available: Mapping[str, type[Method]]) -> str:
    """Say that a method is not known here, and what is."""
    listed = ", ".join(available)
    if name not in {each.name for each in methods()}:
        return f'no algorithm "{name}"{hint(str(name), available)}; available: {listed}'
    if name in questions():
        return f'"{name}" answers a question: run masquerade keys on the job; available here: {listed}'
    makes_models = set(learning_methods())
    if name in makes_models:
        return f'"{name}" learns a model: run masquerade learn; available here: {listed}'
    if makes_models.issuperset(available):
        return f'"{name}" makes a table: run masquerade mashup or anonymize; learn has: {listed}'
    between = {each.name for each in methods() if kind_of(each) != "table"}
    if name in table_methods() and name not in between:
        return f'"{name}" is for one table; parties have: {listed}'
    if name in between and name not in table_methods():
        return f'"{name}" is for parties; one table has: {listed}'
    return f'"{name}" is not for parties that hold their data like this; they have: {listed}'


def _where(home: type[Method], method: type[Method]) -> str:
    """Where a method of the same name as another is at home."""
    kind = kind_of(home)
    if (kind == "vertical" or kind == "horizontal") and kind_of(method) != "table":
        return f"between parties with {ARRANGEMENTS[kind].columns}"
    return "on one table" if kind == "table" else "between parties"


def _foreign(key: str, method: type[Method], own: set[str]) -> str:
    """Why a key does not belong to a method, and to which it does."""
    homes = [each for each in methods() if any(key in (own.name, *own.aliases) for own in forms.parameters_of(each))]
    named = " and ".join(dict.fromkeys(each.name for each in homes))
    on_table = kind_of(method) == "table"
    beside = [each for each in homes if (kind_of(each) == "table") == on_table]
    alike = [each for each in homes if each.name == method.name]
    if alike:
        return f"belongs to {method.name} {_where(next((each for each in alike if each in beside), alike[0]), method)}"
    if homes and not beside:
        return f"belongs to {named} {'between parties' if on_table else 'on one table'}"
    if not homes and any(key == each.name for each in forms.parameters_of(CommonKeys)):
        return "belongs to a job file; a request has no such key"
    if homes:
        why = f": {method.lacks[key]}" if key in method.lacks else ""
        return f"belongs to {named}; {method.name} does without it{why}"
    meant = hint(key, own) or hint(key, {word for each in methods() for word in forms.words_of(each)})
    return f"unknown key{meant}; known here: {', '.join(sorted(own))}"
