"""Build a contract from `[parties.NAME]`: which party contributes which column, and the agreed terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade import protocol
from masquerade.arrangement import ARRANGEMENTS, PROVIDER
from masquerade.data import ProductColumn
from masquerade.errors import hint
from masquerade.jobs.plan import FOR_PROVIDERS, Plan, entry_of
from masquerade.methods import askable_methods, written_method
from masquerade.net import check_name
from masquerade.privacy import GroupRequirement, without_redundant

# --- providers ----------------------------------------------------------------------------------------------
# Build a collaboration's contract from the `[parties.NAME]` of providers that hold the same columns.

Headers = Mapping[str, Sequence[str]]  # the columns of each party


def check_providers(plan: Plan, method: protocol.AskedMethod) -> None:
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
            problems.add(("parties", name, "missing"), protocol.KEEP_AMONG_PROVIDERS)
    if plan.provider in {*job.attributes, *plan.requirement.qid_attributes}:
        problems.add(
            ("roles", "provider"),
            f'missing; the column of the providers would be named "{plan.provider}", which is an attribute',
        )
    wrapped = tuple(_wrapped(plan))
    _refuse(plan, method, protocol.Proposal(wrapped, _m(plan), tuple(job.parties), schema=plan.schema()))


def contract_of_providers(plan: Plan, method: protocol.AskedMethod, headers: Headers) -> protocol.Contract | None:
    """Return the contract of providers with these columns; None if problems are recorded in the plan."""
    job, problems = plan.job, plan.problems
    columns = [protocol.Contribution(name, protocol.EVERYBODY, "attribute") for name in job.attributes]
    special = [name for name in plan.published if name not in (job.roles.class_, plan.provider)]
    columns += [
        protocol.Contribution(name, protocol.EVERYBODY, "sensitive") for name in special if name not in job.attributes
    ]
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
    agreed = method.agreed(protocol.Proposal(wrapped, _m(plan), tuple(job.parties)), job.roles.class_)
    return protocol.Contract(
        parties=tuple(job.parties),
        columns=tuple(columns),
        requirements=tuple(_written(part) for part in wrapped),
        method=written_method(agreed.method),
        choice=agreed.choice,
        attributes=protocol.terms_of(plan.schema()),
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
    written = protocol.written_requirement(part)
    if isinstance(part.sensitive, ProductColumn):
        written["sensitive"] = list(part.sensitive.names)
    return written


# --- contributions ------------------------------------------------------------------------------------------


def check_parties(plan: Plan) -> None:
    """Check all that can be checked about the parties before their tables are read."""
    check_sources(plan)
    if isinstance(plan.method, protocol.AskedMethod):
        check_providers(plan, plan.method) if plan.is_collaboration else _check_mashup(plan, plan.method)
    if plan.job.output.order == "input":
        plan.problems.add(("output", "order"), '"input" is refused in a mashup: positions would point at people')


def check_sources(plan: Plan) -> None:
    """Check that there are two or more parties, each with a valid name and a source."""
    parties, problems = plan.job.parties, plan.problems
    if plan.job.data is not None:
        problems.add(("data",), "belongs to anonymize; a mashup reads the sources of its [parties]")
    if len(parties) < 2:
        problems.add(("parties",), f"two or more are needed; got {len(parties)}")
    for name, section in parties.items():
        with problems.collecting(("parties", name)):
            check_name(name)  # it goes into a certificate
        if name == protocol.ASSEMBLER:
            problems.add(
                ("parties", name), f'"{protocol.ASSEMBLER}" is the name of the one who joins the columns; take another'
            )
        if not section.source:
            problems.add(("parties", name, "source"), "missing; name a file or a database URL")


def _check_mashup(plan: Plan, method: protocol.AskedMethod) -> None:
    """Check parties that hold different columns about the same people."""
    if not any(section.id or section.attributes for section in plan.job.parties.values()):
        vertical, horizontal = ARRANGEMENTS["vertical"].columns, ARRANGEMENTS["horizontal"].columns
        plan.problems.add(
            ("algorithm", "name"),
            f'"{method.name}" is for parties with {vertical} about the same people, and needs the id of each; '
            f"for providers of {horizontal}, who need none: {', '.join(askable_methods('horizontal'))}",
        )
        return  # what else is wrong follows from it
    check_identifiers(plan)
    parts = without_redundant(plan.requirement.parts)
    _refuse(plan, method, protocol.Proposal(parts, parties=tuple(plan.job.parties), schema=plan.schema()))
    if plan.requirement.provider_columns:
        plan.problems.add(("privacy",), FOR_PROVIDERS)


def check_identifiers(plan: Plan) -> None:
    """Check that each party names its identifiers, and that all compare them alike."""
    parties, problems = plan.job.parties, plan.problems
    for name, section in parties.items():
        if not section.id:
            problems.add(("parties", name, "id"), "missing; name the column of the identifiers")
    if len({section.normalize for section in parties.values()}) > 1:
        ways = ", ".join(f"{name}: {section.normalize}" for name, section in parties.items())
        problems.add(("parties",), f"normalize must be the same for all parties; got {ways}")


def check_headers(plan: Plan, headers: Headers) -> None:
    """Check that each party has the columns that its section names."""
    job, problems = plan.job, plan.problems
    for name, section in job.parties.items():
        known = headers[name]
        for column in [section.id, *(section.attributes or ())]:
            if column not in known:
                problems.add(
                    ("parties", name, "id" if column == section.id else "attributes"),
                    f'{name} has no column "{column}"{hint(column, known)}; it has {", ".join(known)}',
                )
        if section.attributes and section.id in section.attributes:
            problems.add(("parties", name, "attributes"), f'"{section.id}" identifies people; it is never released')


def contract_of(plan: Plan, headers: Headers) -> protocol.Contract | None:
    """Return the contract of a mashup of tables with these columns; None if problems are recorded in the plan."""
    method = plan.method
    assert isinstance(method, protocol.AskedMethod)  # otherwise the job has problems
    if plan.is_collaboration:
        return contract_of_providers(plan, method, headers)
    job, problems = plan.job, plan.problems
    check_headers(plan, headers)
    sensitive = [name for name in plan.published if name not in (job.roles.class_, job.roles.provider)]
    columns = [
        *contributions(plan, headers, list(job.attributes), "attribute"),
        *contributions(plan, headers, [name for name in sensitive if name not in job.attributes], "sensitive"),
    ]
    class_from = _class_from(plan, headers)
    holder = {column.name: column.holder for column in columns}
    parts = plan.requirement.parts
    proposal = protocol.Proposal(without_redundant(parts), 0, tuple(job.parties), holder, plan.schema())
    _refuse(plan, method, proposal)
    if problems.found:
        return None
    with problems.collecting(("algorithm",)):
        agreed = method.agreed(proposal, job.roles.class_)
    if problems.found:
        return None
    return protocol.Contract(
        parties=tuple(job.parties),
        columns=tuple(columns),
        requirements=tuple(protocol.written_requirement(part) for part in parts),
        method=written_method(agreed.method),
        choice=agreed.choice,
        class_name=job.roles.class_,
        attributes=protocol.terms_of(plan.schema()),
        class_from=class_from,
        normalize=next(iter(job.parties.values())).normalize,
    )


def _refuse(plan: Plan, method: protocol.AskedMethod, proposal: protocol.Proposal) -> None:
    """Record what the method refuses; a refused requirement is reported at its entry."""
    for problem in method.refusals(proposal):
        if problem.key[:1] == ("privacy",):
            part = proposal.parts[int(problem.key[1])]
            plan.problems.add(entry_of(plan.job, part, plan.base), problem)
        else:
            plan.refuse(problem)


def contributions(
    plan: Plan, headers: Headers, names: Sequence[str], role: protocol.Role
) -> list[protocol.Contribution]:
    """Find one holder for each column: the party named for it, or the only one that has it."""
    found = []
    for name in names:
        named = [party for party, section in plan.job.parties.items() if name in (section.attributes or ())]
        having = [
            party
            for party, section in plan.job.parties.items()
            if name in headers[party] and section.attributes is None and name != section.id
        ]
        holders = named or having
        key = ("attributes", name) if role == "attribute" else ("roles", role)
        if len(holders) > 1:
            verb = "are named for it" if named else "have it"
            plan.problems.add(
                key, f'"{name}": {" and ".join(holders)} {verb}; name one contributor in parties.NAME.attributes'
            )
        elif not holders:
            plan.problems.add(key, f'no party contributes "{name}"{_why_nobody(plan, headers, name)}')
        else:
            found.append(protocol.Contribution(name, holders[0], role))
    return found


def _why_nobody(plan: Plan, headers: Headers, name: str) -> str:
    """Name the party that has the column but does not contribute it; otherwise suggest a similar name."""
    for party, section in plan.job.parties.items():
        if name == section.id:
            return f"; it identifies the people of {party}, and is never released"
        if name in headers[party]:
            return f"; {party} has it: add it to parties.{party}.attributes"
    return hint(name, [column for columns in headers.values() for column in columns])


def _class_from(plan: Plan, headers: Headers) -> str | None:
    """Return the party that shares the class; None if every party holds it."""
    name = plan.job.roles.class_
    if name is None:
        return None
    named = [party for party, section in plan.job.parties.items() if name in (section.attributes or ())]
    having = [party for party in plan.job.parties if name in headers[party]]
    if len(named) == 1:
        return named[0]
    if len(having) == len(plan.job.parties) and not named:
        return None
    if not having:
        everything = [column for columns in headers.values() for column in columns]
        plan.problems.add(("roles", "class"), f'no party has "{name}"{hint(name, everything)}')
    elif named:
        plan.problems.add(("roles", "class"), f'"{name}": {" and ".join(named)} are named for it; name one')
    else:
        plan.problems.add(
            ("roles", "class"),
            f'"{name}" is held by {" and ".join(having)} only; every party must hold it, '
            f"or name it in parties.{having[0]}.attributes, and {having[0]} shares it with the others",
        )
    return None
