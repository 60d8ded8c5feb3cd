"""`weights`: learn from a query log, a declaration or a mining task how much each attribute of a job matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masquerade.anonymize.cautions import class_is_sensitive
from masquerade.data.query_log import read_query_log
from masquerade.data.schema import Schema
from masquerade.errors import DataError, ParameterError, Problem, given, hint
from masquerade.forms.toml import read_toml
from masquerade.job.plan import Plan, bare_source
from masquerade.library.jobs import input_of
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.utility.priorities import TASKS, Weights, combined, from_declaration, from_queries, shares

QUERIES, DECLARATION = "queries", "declaration"
WAYS = (QUERIES, DECLARATION, *TASKS)
_ROLES = ("selection", "features", "target")


def weights_job(
    source: str | Path | None,
    job: str | Path,
    *,
    by: str | None = None,
    owner_share: float = 0.0,
    dialect: str | None = None,
    on_stage: OnStage = silent,
) -> dict[str, Any]:
    """Return `weights` of the attributes in the job's QIDs, summing to 1, with `reasons`.

    `users` are the weights learned from `source`: a query log, or a declaration in TOML; or, without a source, from
    what each attribute tells about the job's class. `owner` are those that the job gives. They are combined as
    `owner_share` says.
    """
    way = _way(source, by)
    if not 0 <= owner_share <= 1:
        raise ParameterError(
            Problem(
                parameter="owner_share",
                owner="weights",
                allowed="a number from 0 to 1",
                found=given(owner_share),
            )
        )
    plan = Plan(Path(job))
    schema = plan.schema()
    data = plan.data() if way in TASKS else None
    plan.settle()
    names = [name for name in schema.names if name in plan.requirement.qid_attributes]
    on_stage(Stage("learning weights"))
    log = read_query_log(_given(source, way), dialect) if way == QUERIES else None
    if log is not None:
        users = from_queries(log, names, _known(plan, schema))
    elif way == DECLARATION:
        users = _declared(Path(_given(source, way)), plan, schema, names)
    else:
        target = plan.job.roles.class_
        if target is None:
            raise ParameterError(f"{job}: roles.class: missing; weights by {way} are about a class")
        assert data is not None
        on_stage(Stage(f"reading {bare_source(data.source)}"))
        table, _ = input_of(plan, data, schema)
        complete = table.complete([*names, target], data.missing, ranked=names)
        if not len(complete):
            raise DataError.about(table.origin.name, "no complete record to learn weights from")
        users = TASKS[way](complete, target, names)
    return {
        "by": way,
        **_combined(users, {name: schema[name].weight for name in names}, owner_share),
        **({"queries": len(log.queries), "passed_over": log.passed_over} if log is not None else {}),
        "warnings": _warnings(plan),
    }


def _way(source: str | Path | None, by: str | None) -> str:
    if by is not None and by not in WAYS:
        allowed = f"one of {', '.join(WAYS)}"
        raise ParameterError(Problem(parameter="by", owner="weights", allowed=allowed, found=f'"{by}"'))
    if by is not None:
        if source is not None and by in TASKS:
            raise ParameterError(f"weights by {by} are learned from the job's table; leave {source} out")
        return by
    if source is None:
        return "information"
    return DECLARATION if Path(source).suffix == ".toml" else QUERIES


def _given(source: str | Path | None, way: str) -> str:
    if source is None:
        what = "a query log" if way == QUERIES else "a declaration in TOML"
        raise ParameterError(f"weights by {way} need a file: {what}")
    return str(source)


def _known(plan: Plan, schema: Schema) -> list[str]:
    """Return every column that the job names."""
    roles = plan.job.roles
    more = [roles.class_, *roles.sensitive, *roles.identifiers, roles.provider, *plan.published]
    return list(dict.fromkeys([*schema.names, *(name for name in more if name is not None)]))


def _declared(path: Path, plan: Plan, schema: Schema, names: list[str]) -> Weights:
    """Read a declaration: `selection` and `features`, lists of attributes, and `target`, one."""
    table = read_toml(path, "declaration", ParameterError)
    problems = [
        Problem(f"unknown key{hint(key, _ROLES)}; known here: {', '.join(_ROLES)}", str(path), key=(key,))
        for key in table
        if key not in _ROLES
    ]
    known = _known(plan, schema)
    told: dict[str, list[str]] = {}
    for role in _ROLES:
        value = table.get(role, [])
        listed = [value] if role == "target" and isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            allowed = "a name" if role == "target" else "a list of names"
            problems.append(Problem(source=str(path), key=(role,), allowed=allowed, found=given(value)))
            continue
        told[role] = listed
        problems += [
            Problem(f'no column "{each}" in the job{hint(each, known)}', str(path), key=(role,))
            for each in listed
            if each not in known
        ]
    if problems:
        raise ParameterError(*problems)
    target = next(iter(told["target"]), None)
    try:
        return from_declaration(told["selection"], told["features"], target, names)
    except ParameterError as error:
        raise error.within(str(path)) from None


def _combined(users: Weights, owned: dict[str, float], share: float) -> dict[str, Any]:
    owner = shares(owned) if any(owned.values()) else None
    if owner is None and share:
        raise ParameterError("the job's weights are all 0: there is nothing of the owner's to combine")
    weights = combined(owner, users.weights, share) if owner is not None and share else dict(users.weights)
    reasons = dict(users.reasons)
    if share:
        assert owner is not None
        reasons = {
            name: f"{reason}: {users.weights[name]:g}; the owner's weight: {owner[name]:g}, counted {share:g}"
            for name, reason in reasons.items()
        }
    return {
        "weights": weights,
        "reasons": reasons,
        "users": dict(users.weights),
        "owner": owner,
        "owner_share": share,
    }


def _warnings(plan: Plan) -> list[str]:
    target = plan.job.roles.class_
    protected = {*plan.job.roles.sensitive, *plan.requirement.sensitive_attributes}
    return [class_is_sensitive(target)] if target is not None and target in protected else []
