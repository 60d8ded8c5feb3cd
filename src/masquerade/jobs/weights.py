"""`weights`: learn from a query log, a declaration or a mining task how much each attribute of a job matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.anonymize import class_is_sensitive
from masquerade.data import Coded, Column, Continuum, QueryLog, Schema, Table, read_query_log
from masquerade.engine import Counts, distinct_values, pair_counts
from masquerade.errors import DataError, ParameterError, Problem, given, hint
from masquerade.forms import read_toml
from masquerade.jobs.plan import Plan, bare_source
from masquerade.jobs.run import input_of
from masquerade.progress import OnStage, Stage, silent
from masquerade.utility import info_gain, naive_bayes_accuracy, raw_feature, training_splits

# --- priorities ---------------------------------------------------------------------------------------------
# Attribute weights: how much each attribute matters to what a release is for, and why.
#
# Weights are learned from a query log (how often an attribute is read or selected by), from a declaration
# (which attributes select, describe or are predicted), or from a mining task (what an attribute alone tells
# about the class). They sum to 1. What the owner of the data finds important is kept apart from what its
# users do, and both are combined only where somebody says how much the owner's word counts.

_DECIMALS = 6
_MOST_BINS = 16  # of numbers, for what they tell about a class
_FOLDS = 10


@dataclass(frozen=True)
class Weights:
    """A weight and a reason for each attribute."""

    weights: Mapping[str, float]
    reasons: Mapping[str, str]

    @classmethod
    def of(cls, amounts: Mapping[str, float], reasons: Mapping[str, str]) -> Weights:
        """Make weights that sum to 1 of amounts that are at least 0, and not all of them."""
        return cls(shares(amounts), dict(reasons))


def shares(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return each amount as a share of their sum, in millionths that add up to 1."""
    total = sum(amounts.values())
    exact = {name: amount / total for name, amount in amounts.items()}
    rounded = {name: round(share, _DECIMALS) for name, share in exact.items()}
    largest = max(exact, key=exact.__getitem__)
    rounded[largest] = round(1 - sum(share for name, share in rounded.items() if name != largest), _DECIMALS)
    return rounded


def combined(owner: Mapping[str, float], users: Mapping[str, float], share: float) -> dict[str, float]:
    """Return the weights when the owner's count `share` of 1, and the users' the rest."""
    return shares({name: share * owner[name] + (1 - share) * users[name] for name in users})


def from_queries(log: QueryLog, names: Sequence[str], known: Sequence[str]) -> Weights:
    """Weigh attributes by how many queries of a log read them (features) and select by them (selections).

    `known` are all columns that queries may name. A query that selects by an attribute and reads it counts twice.
    """
    meant = log.check_columns(known)
    read, selected = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for query in log.queries:
        features = set(names) if query.reads_everything else {meant.get(each.name, "") for each in query.features}
        selections = {meant.get(each.name, "") for each in query.selections}
        for counts, found in ((read, features), (selected, selections)):
            for name in found & counts.keys():
                counts[name] += 1
    total = len(log.queries)
    amounts = {name: float(read[name] + selected[name]) for name in names}
    if not any(amounts.values()):
        raise ParameterError(f"{log.source}: no query asks about an attribute of a QID; those are {', '.join(names)}")
    of = f"of {total} queries" if total != 1 else "of 1 query"
    reasons = {name: f"read by {read[name]} {of}, selected by in {selected[name]}" for name in names}
    return Weights.of(amounts, reasons)


def from_declaration(
    selection: Sequence[str], features: Sequence[str], target: str | None, names: Sequence[str]
) -> Weights:
    """Weigh attributes that select, describe or are predicted 1 for each of these, and the others 0."""
    roles: dict[str, set[str | None]] = {
        "selects the records": set(selection),
        "is a feature": set(features),
        "is the target": {target},
    }
    reasons = {}
    amounts = {}
    for name in names:
        its = [words for words, members in roles.items() if name in members]
        amounts[name] = float(len(its))
        reasons[name] = " and ".join(its) or "is in no role"
    if not any(amounts.values()):
        raise ParameterError(f"the declaration names no attribute of a QID; those are {', '.join(names)}")
    return Weights.of(amounts, reasons)


def from_information(table: Table, target: str, names: Sequence[str]) -> Weights:
    """Weigh attributes by the bits that each alone tells about the class, less what chance would tell.

    Numbers are first cut into at most 16 parts of about equally many records.
    """
    classes = table.coded(target)
    bits = {column.name: _information(column, classes) for column in table.columns(names)}
    told = {name: f"tells {bits[name]:.4f} bits about {target}" for name in names}
    return _of_task(bits, told, f"no attribute alone tells anything about {target}: all weigh the same")


def from_accuracy(table: Table, target: str, names: Sequence[str], seed: int = 7) -> Weights:
    """Weigh attributes by how much better than the most frequent class each alone predicts the class.

    By naive Bayes in 10 parts, as the paper's single-attribute classification.
    """
    classes = table.coded(target)
    folds = min(_FOLDS, len(table))
    if folds < 2:
        raise ParameterError(f"{table.origin.name}: accuracy needs at least 2 records")
    splits = training_splits(len(table), None, folds, seed)
    most = int(classes.histogram().max()) / len(table)
    found = {
        name: naive_bayes_accuracy([raw_feature(table, name)], classes.codes, max(len(classes.labels), 1), splits)
        for name in names
    }
    told = {
        name: f"alone finds {target} in {found[name]:.1%} of the records, the most frequent class {most:.1%}"
        for name in names
    }
    gained = {name: max(found[name] - most, 0.0) for name in names}
    return _of_task(gained, told, f"no attribute alone finds {target}: all weigh the same")


def _of_task(amounts: Mapping[str, float], told: Mapping[str, str], nothing: str) -> Weights:
    if any(amounts.values()):
        return Weights.of(amounts, told)
    return Weights.of(dict.fromkeys(amounts, 1.0), {name: f"{told[name]}; {nothing}" for name in told})


def _information(column: Column, classes: Coded) -> float:
    parts, n_parts = _binned(column)
    counts = pair_counts(parts, classes.codes, n_parts, max(len(classes.labels), 1))
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    chance: float = (counts.shape[0] - 1) * (counts.shape[1] - 1) / (2 * max(int(counts.sum()), 1) * log(2))
    return max(info_gain(counts) - chance, 0.0)


def _binned(column: Column) -> tuple[Counts, int]:
    ranks = column.ranks.astype(np.int64)
    if not isinstance(column.domain, Continuum) or column.domain.size <= _MOST_BINS:
        return ranks, max(column.domain.size, 1)
    ordered = np.sort(ranks)
    starts, _ = distinct_values(ordered[np.arange(1, _MOST_BINS) * ordered.size // _MOST_BINS])
    return np.searchsorted(starts, ranks, "right"), _MOST_BINS


Learner = Callable[[Table, str, Sequence[str]], Weights]
TASKS: dict[str, Learner] = {"information": from_information, "accuracy": from_accuracy}


# --- weights ------------------------------------------------------------------------------------------------

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
            Problem(parameter="owner_share", owner="weights", allowed="a number from 0 to 1", found=given(owner_share))
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
    return {"weights": weights, "reasons": reasons, "users": dict(users.weights), "owner": owner, "owner_share": share}


def _warnings(plan: Plan) -> list[str]:
    target = plan.job.roles.class_
    protected = {*plan.job.roles.sensitive, *plan.requirement.sensitive_attributes}
    return [class_is_sensitive(target)] if target is not None and target in protected else []
