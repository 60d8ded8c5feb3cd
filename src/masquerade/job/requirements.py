"""Build the requirement that must hold from the `[[privacy]]` entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.data.product import Product, columns_of
from masquerade.errors import BadInput, Key, ParameterError, hint, nearest
from masquerade.forms.declared import checked, parameters_of, read_declared, words_of
from masquerade.forms.problems import Problems
from masquerade.job.model import Job, PrivacyEntry
from masquerade.job.sensitive_trees import Trees
from masquerade.methods import session_methods
from masquerade.privacy.registry import M_PRIVACY, REQUIREMENTS, requirement_named
from masquerade.privacy.requirement import Conjunction, GroupRequirement, Requirement

FOR_PROVIDERS = (
    f"{M_PRIVACY} is for providers of the same columns, not for parties that hold different ones; "
    f'they publish together with name = "{next(iter(session_methods("horizontal")))}"'
)


@dataclass(frozen=True)
class Providers:
    """A job's settings for m-privacy: the column of each record's provider, and how to verify it."""

    column: str | None = None
    verification: str = "exact"
    missing: str | None = (
        None  # the problem to report if there is no column; None: another is reported already
    )


def requirement_of(
    job: Job, problems: Problems, providers: Providers | None = None, base: Path | None = None
) -> Requirement:
    """Return the conjunction of all entries; invalid ones are added to `problems` and left out.

    Taxonomies of sensitive attributes are read relative to `base`; without it, the entries hold them themselves.
    An m-privacy entry is not a separate part: it wraps all the others.
    """
    if not job.privacy:
        problems.add(("privacy",), "missing; give at least one [[privacy]] entry")
    wrapping = [position for position, entry in enumerate(job.privacy) if entry.model == M_PRIVACY]
    joined = Conjunction([part for _, part in _entries(job, problems, base)])
    return _wrapped(job, wrapping, joined, providers or Providers(), problems) if wrapping else joined


def entry_of(job: Job, part: GroupRequirement, base: Path) -> Key:
    """Return the key of the entry that a requirement comes from."""
    unheard = Problems("")  # already reported when the entries were read
    return next((key for key, each in _entries(job, unheard, base) if each == part), ("privacy",))


def tell_values(job: Job, problems: Problems, error: ParameterError, base: Path) -> None:
    """Add an error's problems, about values that no record or no taxonomy has, to the entries they belong to."""
    entries = list(_entries(job, Problems(""), base))
    for problem in error.problems:
        for key, part in entries:
            if problem.owner == str(part):
                problems.add((*key, *(problem.key or ("values",))), problem.at(owner=""))


def _entries(job: Job, problems: Problems, base: Path | None) -> Iterator[tuple[Key, GroupRequirement]]:
    """Yield the requirements of all entries except m-privacy, each with its entry's key."""
    sensitive: list[str] = list(dict.fromkeys(job.roles.sensitive))
    if len(sensitive) > 1 and any(entry.model == M_PRIVACY for entry in job.privacy):
        sensitive = [Product(sensitive)]  # against insiders, several sensitive attributes count as one
    for position, entry in enumerate(job.privacy):
        key = ("privacy", position)
        if entry.model != M_PRIVACY:
            for part in _parts(key, entry, sensitive, problems, Trees(job, base)):
                yield key, part


def _wrapped(
    job: Job, wrapping: list[int], joined: Conjunction, providers: Providers, problems: Problems
) -> Requirement:
    """Wrap the requirement against colluding providers; return it unchanged if the m-privacy entry is invalid."""
    from masquerade.privacy.m_privacy.requirement import MPrivacy, MPrivateGroups  # few jobs have colluders

    first, *more = wrapping
    entry = job.privacy[first]
    for position in more:
        problems.add(("privacy", position, "model"), f'"{M_PRIVACY}" wraps all other entries; give it once')
    key = ("privacy", first)
    table = _own_keys(
        key, MPrivateGroups, ({} if entry.qid is None else {"qid": entry.qid}) | entry.given(), problems
    )
    m: int | None = None
    if "m" not in table:
        problems.add((*key, "m"), f"missing; {M_PRIVACY} needs it")
    else:
        with problems.collecting(key):
            m = checked(MPrivateGroups, "m", parameters_of(MPrivateGroups)[0].rule, table["m"])
    if len(job.privacy) == len(wrapping):
        problems.add(("privacy", first), f"{M_PRIVACY} wraps the other entries; give at least one of them")
    provider = providers.column
    if provider is None and not problems.about(("roles", "provider")):
        if not job.parties:
            problems.add(
                ("roles", "provider"), f"missing; {M_PRIVACY} needs the column of each record's provider"
            )
        elif providers.missing is not None:
            problems.add(("privacy", first), providers.missing)
    taken = {*joined.qid_attributes, *joined.special_columns}
    if m is not None and provider is not None and provider not in taken and joined.parts:
        with problems.collecting(("privacy", first)):
            return Conjunction([MPrivacy(m, joined, provider, providers.verification)])
    return joined


def _parts(
    key: Key, entry: PrivacyEntry, sensitive: list[str], problems: Problems, trees: Trees
) -> Iterator[GroupRequirement]:
    """Yield one requirement for each sensitive attribute that the entry applies to."""
    try:
        model = requirement_named(entry.model)
    except ParameterError as error:
        problems.collect(error, (*key, "model"))
        return
    table = _own_keys(key, model, entry.given(), problems)
    if entry.qid is not None:
        table["qid"] = entry.qid
    for names in _sensitive(key, model, table, sensitive, problems):
        given = {**table, **names}
        if trees.wanted(model, given):
            try:
                given["taxonomy"] = trees.tree_of(given["sensitive"])
            except BadInput as error:
                problems.collect(error, key)
                continue
        made, wrong = read_declared(model, given)
        for problem in wrong:
            if problem.allowed:
                problems.broken((*key, *problem.key), problem)
            elif problem.key != ("sensitive",):  # a missing one was reported above
                problems.add((*key, *problem.key), problem)
        if made is not None and entry.given().keys() <= table.keys():
            yield made


def _own_keys(
    key: Key, model: type[GroupRequirement], given: dict[str, Any], problems: Problems
) -> dict[str, Any]:
    """Return the keys that the model declares; report any other, naming the model that has it."""
    own = words_of(model)
    for name in (name for name in given if name not in own):
        whose = [other for other, each in REQUIREMENTS.items() if name in words_of(each)]
        others = f" ({' and '.join(whose)} {'has' if len(whose) == 1 else 'have'})" if len(whose) < 3 else ""
        meant = nearest(name, own) if not whose else None
        text = f"{model.model} has no such parameter{others if whose else hint(name, own)}"
        takes = ", ".join(each.name for each in parameters_of(model))
        problems.broken((*key, name), f"{text}; it takes {takes}", meant=(*key, meant) if meant else None)
    return {name: value for name, value in given.items() if name in own}


def _sensitive(
    key: Key, model: type[GroupRequirement], table: dict[str, Any], sensitive: list[str], problems: Problems
) -> list[dict[str, str]]:
    """Return the keys to add to an entry, one dict per requirement: the sensitive attributes of the roles, if unset."""
    if "sensitive" not in words_of(model) or "sensitive" in table:
        return [{}]
    if not sensitive:
        if not problems.about(("roles", "sensitive")):
            needed = f"missing; {model.model} needs a sensitive attribute, here or in roles.sensitive"
            problems.add((*key, "sensitive"), needed)
        return [{}]
    inside = set(table.get("qid", ()))
    return [{"sensitive": name} for name in sensitive if inside.isdisjoint(columns_of(name))]
