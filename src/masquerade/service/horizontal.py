"""What providers of the same columns agree on: against how many of them, how attributes are generalised, by whom.

Everything here follows from a request and the joint requirement, so that a party can recompute it before it signs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from masquerade.anonymize.mondrian.algorithm import refuse_not_monotone
from masquerade.data.continuum import write_number
from masquerade.data.schema import Attribute, Schema
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import ParameterError
from masquerade.privacy.m_privacy.requirement import MPrivacy
from masquerade.privacy.requirement import Conjunction, GroupRequirement
from masquerade.protocol.collaborate.criterion import Criterion
from masquerade.protocol.contract import Collaboration
from masquerade.service.card import FLAT, fingerprint_of
from masquerade.service.request import PROVIDER, Request
from masquerade.service.terms import Axis


def axes_of(schema: Schema) -> tuple[Axis, ...]:
    """How each attribute of a dataset is generalised."""
    return tuple(_axis(attribute) for attribute in schema)


def collaboration_of(request: Request, m: int, parts: Sequence[GroupRequirement]) -> Collaboration:
    """How a horizontal request is carried out.

    A trusted third party sees all counts and uses them: its cuts are better than the public ones of the secure mode.
    """
    trusted = request.third_party == "trusted"
    return Collaboration(
        m=m,
        third_party=request.third_party,
        provider_aware=not trusted or all(part.monotone_in_records for part in _private(m, parts)),
        choose="certainty" if trusted else "public",
        provider=PROVIDER,
    )


def unsuitable(request: Request, m: int, parts: Sequence[GroupRequirement]) -> list[str]:
    """Why a requirement cannot be reached in the way that a request names."""
    try:
        if request.third_party == "trusted":
            refuse_not_monotone(_private(m, parts))
        else:
            Criterion.of(2, m, parts)
    except ParameterError as error:
        # Of the choices of a command a request has all but one: a trusted third party chooses by certainty anyway.
        texts = [problem.partition(": ")[2] for problem in error.lines]
        return [text.removesuffix(' with choose = "certainty"') for text in texts]
    return []


def against(m: int) -> tuple[str, ...]:
    """For a person: what m-privacy adds to a list of requirements."""
    return (f"all of it against any {m} colluding provider{'s' if m > 1 else ''}",) if m else ()


def different(name: str, axes: Iterable[tuple[str, Axis | None]]) -> str:
    """Who generalises an attribute how, for a person."""
    ways = ", ".join(f"{party} {_way(axis)}" for party, axis in axes)
    return f'"{name}" is not generalised alike: {ways}; agree on one taxonomy and the same bounds'


def _axis(attribute: Attribute) -> Axis:
    taxonomy = attribute.taxonomy
    tree: str | None = taxonomy if not isinstance(taxonomy, Taxonomy) else fingerprint_of(taxonomy)
    lower, upper = (
        None if bound is None else write_number(bound) for bound in (attribute.lower, attribute.upper)
    )
    return Axis(attribute.name, attribute.kind, tree, lower, upper)


def _way(axis: Axis | None) -> str:
    if axis is None:
        return "not at all"
    if axis.taxonomy is not None:
        return "by a flat taxonomy" if axis.taxonomy == FLAT else f"by taxonomy {axis.taxonomy[:8]}"
    bounds = [f"from {axis.lower}"] if axis.lower is not None else []
    bounds += [f"below {axis.upper}"] if axis.upper is not None else []
    return f"as {axis.kind} {' and '.join(bounds) or 'without bounds'}"


def _private(m: int, parts: Sequence[GroupRequirement]) -> tuple[GroupRequirement, ...]:
    return MPrivacy(m, Conjunction(tuple(parts)), PROVIDER).parts
