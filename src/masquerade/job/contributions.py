"""From `[parties.NAME]` to a contract: who hands in which column, and what all of them agree to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masquerade.anonymize.datafly import Datafly
from masquerade.errors import hint
from masquerade.job.plan import Plan
from masquerade.net.identity import check_name
from masquerade.protocol.contract import (
    Contract,
    Contribution,
    refuse_distant_sensitive,
    written_requirement,
)
from masquerade.protocol.party import ASSEMBLER
from masquerade.utility.scores import SCORES

Headers = Mapping[str, Sequence[str]]


def check_parties(plan: Plan) -> None:
    """What can be said of the parties before their tables are looked at."""
    parties, problems = plan.job.parties, plan.problems
    if plan.job.data is not None:
        problems.add(("data",), "belongs to anonymize; a mashup reads the sources of its [parties]")
    if len(parties) < 2:
        problems.add(("parties",), f"a mashup needs at least two; got {len(parties)}")
    for name, section in parties.items():
        with problems.collecting(("parties", name)):
            check_name(name)  # a certificate will carry it
        if name == ASSEMBLER:
            problems.add(
                ("parties", name), f'"{ASSEMBLER}" is the name of the one who joins the columns; take another'
            )
        if not section.source:
            problems.add(("parties", name, "source"), "missing; name a file or a database URL")
        if not section.id:
            problems.add(("parties", name, "id"), "missing; name the column of the identifiers")
    if len({section.normalize for section in parties.values()}) > 1:
        ways = ", ".join(f"{name}: {section.normalize}" for name, section in parties.items())
        problems.add(("parties",), f"normalize must be the same for all parties; got {ways}")
    algorithm = plan.job.algorithm
    if algorithm.argmax == "secure" and "argmax" in algorithm.model_fields_set:
        problems.add(("algorithm", "argmax"), '"secure" is not available in this version; use "plain"')
    if algorithm.score is not None and not SCORES[algorithm.score].recomputable:
        problems.add(
            ("algorithm", "score"),
            f'"{algorithm.score}" cannot be recomputed by the other parties; use another score in a mashup',
        )
    if algorithm.name == Datafly.name:
        problems.add(("algorithm", "name"), f'"{Datafly.name}" is for one table; a mashup has "tds"')
    if algorithm.suppression:
        problems.add(("algorithm", "suppression"), "is not available in a mashup")
    if plan.job.output.order == "input":
        problems.add(("output", "order"), '"input" is refused in a mashup: positions would point at people')


def contract_of(plan: Plan, headers: Headers) -> Contract | None:
    """The contract of a mashup of tables with these columns; None when the job has problems, which are kept."""
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
            problems.add(
                ("parties", name, "attributes"), f'"{section.id}" identifies people; it is never released'
            )
    sensitive = [name for name in plan.published if name not in (job.roles.class_, job.roles.provider)]
    columns = [
        *_contributions(plan, headers, list(job.attributes), "attribute"),
        *_contributions(
            plan, headers, [name for name in sensitive if name not in job.attributes], "sensitive"
        ),
    ]
    class_from = _class_from(plan, headers)
    holder = {column.name: column.holder for column in columns}
    for part, reason in refuse_distant_sensitive(plan.requirement.parts, holder):
        position = next(
            (
                at
                for at, entry in enumerate(job.privacy)
                if entry.model == part.model and entry.qid == [*part.qid]
            ),
            0,
        )
        problems.add(("privacy", position), reason)
    algorithm = plan.algorithm()
    if problems.lines:
        return None
    return Contract(
        parties=tuple(job.parties),
        columns=tuple(columns),
        requirements=tuple(written_requirement(part) for part in plan.requirement.parts),
        score=str(algorithm.settings()["score"]),
        class_name=job.roles.class_,
        class_from=class_from,
        adversary=job.algorithm.adversary,
        epsilon=repr(job.algorithm.epsilon),
        normalize=next(iter(job.parties.values())).normalize,
    )


def _contributions(plan: Plan, headers: Headers, names: Sequence[str], role: str) -> list[Contribution]:
    """One holder for each column: the party that is named for it, or the only one that has it."""
    found = []
    for name in names:
        named = [party for party, section in plan.job.parties.items() if name in (section.attributes or ())]
        having = [
            party
            for party, section in plan.job.parties.items()
            if name in headers[party] and section.attributes is None and name != section.id
        ]
        holders = named or having
        key = ("attributes", name) if role == "attribute" else ("roles", "sensitive")
        if len(holders) > 1:
            verb = "are named for it" if named else "have it"
            plan.problems.add(
                key,
                f'"{name}": {" and ".join(holders)} {verb}; name one contributor in parties.NAME.attributes',
            )
        elif not holders:
            everything = [column for columns in headers.values() for column in columns]
            plan.problems.add(key, f'no party contributes "{name}"{hint(name, everything)}')
        else:
            found.append(Contribution(name, holders[0], "attribute" if role == "attribute" else "sensitive"))
    return found


def _class_from(plan: Plan, headers: Headers) -> str | None:
    """Who shares the class; None when every party holds it."""
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
