"""Build a collaboration's contract from the `[parties.NAME]` of providers that hold the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.data.product import Product
from masquerade.errors import hint
from masquerade.job.plan import Plan
from masquerade.job.requirements import entry_of
from masquerade.methods import written_method
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.arrangement import PROVIDER
from masquerade.protocol.attribute_terms import terms_of
from masquerade.protocol.collaborate.domains import KEEP_AMONG_PROVIDERS
from masquerade.protocol.contract import EVERYBODY, Contract, Contribution, written_requirement
from masquerade.protocol.method import AskedMethod, Proposal

Headers = Mapping[str, Sequence[str]]  # the columns of each party


def check_providers(plan: Plan, method: AskedMethod) -> None:
    """Check all that can be checked about the providers before their tables are read."""
    job, problems = plan.job, plan.problems
    for name, party in job.parties.items():
        for key in ("id", "normalize", "attributes"):
            if key in party.model_fields_set:
                problems.add(
                    ("parties", name, key),
                    "belongs to parties that hold different columns about the same people; "
                    "providers of the same columns have nobody in common to find",
                )
        if party.missing == "keep":
            problems.add(("parties", name, "missing"), KEEP_AMONG_PROVIDERS)
    if plan.provider in {*job.attributes, *plan.requirement.qid_attributes}:
        problems.add(
            ("roles", "provider"),
            f'missing; the column of the providers would be named "{plan.provider}", which is an attribute',
        )
    wrapped = tuple(_wrapped(plan))
    for problem in method.refusals(Proposal(wrapped, _m(plan), tuple(job.parties), schema=plan.schema())):
        if problem.key[:1] == ("privacy",):
            problems.add(entry_of(job, wrapped[int(problem.key[1])], plan.base), problem)
        else:
            plan.refuse(problem)


def contract_of_providers(plan: Plan, method: AskedMethod, headers: Headers) -> Contract | None:
    """Return the contract of providers with these columns; None if problems are recorded in the plan."""
    job, problems = plan.job, plan.problems
    columns = [Contribution(name, EVERYBODY, "attribute") for name in job.attributes]
    special = [name for name in plan.published if name not in (job.roles.class_, plan.provider)]
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
    wrapped = tuple(_wrapped(plan))
    agreed = method.agreed(Proposal(wrapped, _m(plan), tuple(job.parties)), job.roles.class_)
    return Contract(
        parties=tuple(job.parties),
        columns=tuple(columns),
        requirements=tuple(_written(part) for part in wrapped),
        method=written_method(agreed.method),
        choice=agreed.choice,
        attributes=terms_of(plan.schema()),
        class_name=job.roles.class_,
        provider=plan.provider or PROVIDER,
        m=_m(plan),
        keep_provider=job.output.keep_provider,
    )


def _wrapped(plan: Plan) -> list[GroupRequirement]:
    """Return the requirements that m-privacy wraps."""
    return [each for part in plan.requirement.parts for each in part.wrapped or (part,)]


def _m(plan: Plan) -> int:
    """Return how many providers may collude; 0 without m-privacy."""
    return max((part.colluding for part in plan.requirement.parts), default=0)


def _written(part: GroupRequirement) -> dict[str, Any]:
    written = written_requirement(part)
    if isinstance(part.sensitive, Product):
        written["sensitive"] = list(part.sensitive.names)
    return written
