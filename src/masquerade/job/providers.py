"""From `[parties.NAME]` of providers that hold the same columns to a contract of their collaboration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.anonymize.mondrian.algorithm import Mondrian, refuse_not_monotone
from masquerade.anonymize.mondrian.provider_aware import ProviderAwareMondrian, refuse_provider_cuts
from masquerade.data.product import Product
from masquerade.errors import hint
from masquerade.job.plan import Plan
from masquerade.job.requirements import entry_of
from masquerade.privacy.requirement import GroupRequirement, without_redundant
from masquerade.protocol.collaborate.criterion import Criterion
from masquerade.protocol.contract import (
    EVERYBODY,
    Collaboration,
    Contract,
    Contribution,
    written_requirement,
)

Headers = Mapping[str, Sequence[str]]  # the columns of each party

_OF_A_MASHUP = ("argmax", "adversary", "epsilon", "score", "suppression", "whole_columns")


def check_providers(plan: Plan) -> None:
    """What can be said of the providers before their tables are looked at."""
    job, problems = plan.job, plan.problems
    for name, party in job.parties.items():
        for key in ("id", "normalize", "attributes"):
            if key in party.model_fields_set:
                problems.add(
                    ("parties", name, key),
                    "belongs to parties that hold different columns about the same people; "
                    "providers of the same columns have nobody in common to find",
                )
    for key in _OF_A_MASHUP:
        if job.algorithm.asks_for(key):
            problems.add(("algorithm", key), "does not belong to providers of the same columns")
    if job.provider in {*job.attributes, *plan.requirement.qid_attributes}:
        problems.add(
            ("roles", "provider"),
            f'missing; the column of the providers would be named "{job.provider}", which is an attribute',
        )
    section = job.algorithm
    if section.third_party == "secure" and section.choose is not None:
        problems.add(
            ("algorithm", "choose"),
            'looks at counts that third_party = "secure" hides; leave it out, or use third_party = "trusted"',
        )
    if not plan.requirement.parts:
        return
    if section.choose is None:
        for part in _wrapped(plan):
            with problems.collecting(entry_of(job, part)):
                Criterion.of(
                    max(len(job.parties), 2),
                    _m(plan),
                    [part],
                    third_party=section.third_party,
                    provider_aware=section.provider_aware and "provider_aware" in section.model_fields_set,
                )
        if section.third_party == "secure":
            _refuse_flat(plan)
    else:
        parts = without_redundant(plan.requirement.parts)
        with problems.collecting(("algorithm",)):
            refuse_not_monotone(parts)
            if plan.is_provider_aware:
                refuse_provider_cuts(parts)
        kind = ProviderAwareMondrian if plan.is_provider_aware else Mondrian
        choose: Any = section.choose
        with problems.collecting(("algorithm",)):
            kind(choose=choose)


def contract_of_providers(plan: Plan, headers: Headers) -> Contract | None:
    """The contract of providers with these columns; None when the job has problems, which are kept."""
    job, problems = plan.job, plan.problems
    columns = [Contribution(name, EVERYBODY, "attribute") for name in job.attributes]
    special = [name for name in plan.published if name not in (job.roles.class_, job.provider)]
    columns += [Contribution(name, EVERYBODY, "sensitive") for name in special if name not in job.attributes]
    needed = [column.name for column in columns]
    needed += [job.roles.class_] if job.roles.class_ is not None else []
    for name in job.parties:
        for column in dict.fromkeys(needed):
            if column not in headers[name]:
                problems.add(
                    ("parties", name),
                    f'{name} has no column "{column}"{hint(column, headers[name])}; all providers must have it',
                )
    if problems.found:
        return None
    section = job.algorithm
    return Contract(
        parties=tuple(job.parties),
        columns=tuple(columns),
        requirements=tuple(_written(part) for part in _wrapped(plan)),
        score="",
        class_name=job.roles.class_,
        algorithm="mondrian",
        collaboration=Collaboration(
            m=_m(plan),
            third_party=section.third_party,
            provider_aware=section.provider_aware if section.choose is None else plan.is_provider_aware,
            strict=section.strict,
            choose=section.choose or "public",
            provider=job.provider or "provider",
            keep_provider=job.output.keep_provider,
        ),
    )


def _wrapped(plan: Plan) -> list[GroupRequirement]:
    """The requirements that m-privacy wraps."""
    return [each for part in plan.requirement.parts for each in part.wrapped or (part,)]


def _m(plan: Plan) -> int:
    """How many providers may collude; none without m-privacy."""
    return max((part.colluding for part in plan.requirement.parts), default=0)


def _written(part: GroupRequirement) -> dict[str, Any]:
    written = written_requirement(part)
    if isinstance(part.sensitive, Product):
        written["sensitive"] = list(part.sensitive.names)
    return written


def _refuse_flat(plan: Plan) -> None:
    for name in plan.requirement.qid_attributes:
        section = plan.job.attributes.get(name)
        if section is not None and section.taxonomy == "flat":
            plan.problems.add(
                ("attributes", name, "taxonomy"),
                '"flat" is made of all providers\' values, which third_party = "secure" keeps apart; '
                "give a taxonomy file",
            )
