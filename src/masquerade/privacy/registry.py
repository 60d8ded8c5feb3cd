"""Every requirement by the name that a job file, a request or a contract gives it, and where its class is.

A class is loaded when somebody looks at it, so a job loads the requirements that it names. Other packages add theirs by
the entry point `masquerade.requirements`: the entry's object is a subclass of `GroupRequirement`, and its name the
model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from masquerade.errors import ParameterError, hint
from masquerade.plugins import loaded, plugins
from masquerade.privacy.requirement import GroupRequirement

Model = type[GroupRequirement]

GROUP = "masquerade.requirements"
M_PRIVACY = "m-privacy"  # the one that wraps others

BUILT_IN = {
    "k-anonymity": "privacy.k_anonymity.KAnonymity",
    "l-diversity": "privacy.l_diversity.LDiversity",
    "entropy-l-diversity": "privacy.entropy_l_diversity.EntropyLDiversity",
    "recursive-l-diversity": "privacy.recursive_l_diversity.RecursiveLDiversity",
    "t-closeness": "privacy.t_closeness.TCloseness",
    "alpha-k-anonymity": "privacy.combined.AlphaKAnonymity",
    "confidence-bounding": "privacy.confidence_bounding.ConfidenceBounding",
    "p-sensitive-k-anonymity": "privacy.combined.PSensitiveKAnonymity",
    "constrained-k-anonymity": "privacy.k_anonymity.ConstrainedKAnonymity",
    M_PRIVACY: "privacy.m_privacy.requirement.MPrivateGroups",
}


class Registry(Mapping[str, Model]):
    """The built-in models, then those of other packages, which are looked for once, when none of ours is meant."""

    @cached_property
    def _others(self) -> dict[str, Model]:
        found = plugins(GROUP, GroupRequirement, {*BUILT_IN})  # type: ignore[type-abstract] # of its subclasses
        return {model.model: model for model in found}

    def __getitem__(self, name: str) -> Model:
        home = BUILT_IN.get(name)
        found: Model = loaded(home) if home is not None else self._others[name]
        return found

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._others

    def __iter__(self) -> Iterator[str]:
        yield from BUILT_IN
        yield from self._others

    def __len__(self) -> int:
        return len(BUILT_IN) + len(self._others)

    @property
    def plain(self) -> Mapping[str, Model]:
        """The models that stand for themselves, and wrap no others."""
        return {name: model for name, model in self.items() if not model.wraps}

    def declaring(self, what: str) -> tuple[str, ...]:
        """The names of those that declare something of their own; see `GroupRequirement.declares`."""
        return tuple(name for name, model in self.plain.items() if model.declares(what))


REQUIREMENTS = Registry()


def requirement_named(name: str) -> Model:
    """The model of this name; ParameterError with all names, and the nearest."""
    if name in REQUIREMENTS:
        return REQUIREMENTS[name]
    found = f'no model "{name}"{hint(name, REQUIREMENTS)}' if name else "missing"
    raise ParameterError(f"{found}; available: {', '.join(REQUIREMENTS)}")
