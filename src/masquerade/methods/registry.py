"""Every method by its kind and name, and where its class is. A class is loaded when somebody looks at it.

So a command loads the one method that its job names, and no cryptography unless there are parties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from masquerade.plugins import loaded, plugins

if TYPE_CHECKING:
    from masquerade.anonymize.method import Method

# What a method works on: one table; different columns of the same people; the same columns of different people; a model
# learned from either of the two; a question to parties, of which numbers come alone.
Kind = Literal["table", "vertical", "horizontal", "learning", "question"]
Wanted = TypeVar("Wanted", bound="Method")

GROUP = "masquerade.methods"

BUILT_IN: dict[Kind, dict[str, str]] = {
    "table": {
        "auto": "methods.automatic.Auto",
        "tds": "anonymize.tds.TopDownSpecialization",
        "mondrian": "anonymize.mondrian.algorithm.Mondrian",
        "cheapest-box": "anonymize.cheapest_box.algorithm.CheapestBox",
        "datafly": "anonymize.datafly.Datafly",
        "k-member": "anonymize.k_member.algorithm.KMember",
        "greedy-cka": "anonymize.k_member.algorithm.GreedyCka",
    },
    "vertical": {
        "auto": "methods.automatic.ChoiceForJoin",
        "tds": "protocol.joint_specialization.JointSpecialization",
        "dka": "protocol.dka.method.Dka",
        "mondrian": "protocol.multidimensional.method.JointMondrian",
    },
    "horizontal": {
        "auto": "methods.automatic.ChoiceForProviders",
        "mondrian": "protocol.collaborate.method.Collaboration",
    },
    "learning": {
        "id3": "protocol.learn.methods.id3.Id3",
        "bayes-net": "protocol.learn.methods.bayes_net.BayesNet",
        "logistic": "protocol.learn.methods.linear.LogisticRegression",
        "svm": "protocol.learn.methods.linear.SupportVectors",
        "cox": "protocol.learn.methods.survival.CoxRegression",
        "pp-svm": "protocol.learn.methods.projected.PpSvm",
        "pp-cox": "protocol.learn.methods.projected.PpCox",
    },
    "question": {"joint-keys": "protocol.joint_keys.method.JointKeys"},
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


def all_methods() -> tuple[type[Method], ...]:
    """Load every method, those of other packages last."""
    return (*(loaded(home) for homes in BUILT_IN.values() for home in homes.values()), *_plugins())


@cache
def _others(kind: Kind) -> dict[str, type[Any]]:
    return {each.name: each for each in _plugins() if kind_of(each) == kind}


@cache
def _plugins() -> tuple[type[Method], ...]:
    from masquerade.anonymize.method import Method

    taken = {name for homes in BUILT_IN.values() for name in homes}
    return tuple(plugins(GROUP, Method, taken))


def kind_of(method: type[Method]) -> Kind | None:
    """Return what a method works on, as its class declares it; None if nobody may ask for it."""
    from masquerade.anonymize.method import TableMethod

    if issubclass(method, TableMethod):
        return "table"
    from masquerade.protocol.learn.method import LearningMethod
    from masquerade.protocol.method import AskedMethod
    from masquerade.protocol.product import ANSWER

    if issubclass(method, LearningMethod):
        return "learning"
    if not issubclass(method, AskedMethod):
        return None
    return "question" if method.makes is ANSWER else method.arrangement
