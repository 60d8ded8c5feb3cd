"""Every requirement by the name that a job file, a request or a contract gives it.

Other packages add theirs by the entry point `masquerade.requirements`: the entry's object is a subclass of
`GroupRequirement`, and its name the model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from masquerade.errors import ParameterError, hint
from masquerade.plugins import plugins
from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.constrained_k_anonymity import ConstrainedKAnonymity
from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.m_privacy.requirement import MPrivateGroups
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.privacy.t_closeness import TCloseness

Model = type[GroupRequirement]

GROUP = "masquerade.requirements"

_BUILT_IN: tuple[Model, ...] = (
    KAnonymity,
    LDiversity,
    EntropyLDiversity,
    RecursiveLDiversity,
    TCloseness,
    AlphaKAnonymity,
    ConfidenceBounding,
    PSensitiveKAnonymity,
    ConstrainedKAnonymity,
    MPrivateGroups,
)


class Registry(Mapping[str, Model]):
    """The built-in models, then those of other packages, which are looked for once, when somebody first asks."""

    @cached_property
    def _models(self) -> dict[str, Model]:
        models = {model.model: model for model in _BUILT_IN}
        others = plugins(GROUP, GroupRequirement, {*models})  # type: ignore[type-abstract] # of its subclasses
        return models | {model.model: model for model in others}

    def __getitem__(self, name: str) -> Model:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    @property
    def plain(self) -> Mapping[str, Model]:
        """The models that stand for themselves, and wrap no others."""
        return {name: model for name, model in self.items() if not model.wraps}

    def declaring(self, what: str) -> tuple[str, ...]:
        """The names of those that declare something of their own; see `GroupRequirement.declares`.

        What they declare is for parties, who keep to no boundaries.
        """
        return tuple(
            name for name, model in self.plain.items() if model.declares(what) and not model.within_boundaries
        )


REQUIREMENTS = Registry()


def requirement_named(name: str) -> Model:
    """The model of this name; ParameterError with all names, and the nearest."""
    if name in REQUIREMENTS:
        return REQUIREMENTS[name]
    found = f'no model "{name}"{hint(name, REQUIREMENTS)}' if name else "missing"
    raise ParameterError(f"{found}; available: {', '.join(REQUIREMENTS)}")
