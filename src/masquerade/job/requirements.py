"""From `[[privacy]]` entries to the requirement that must hold."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from masquerade.data.product import Product, columns_of
from masquerade.errors import Key, ParameterError
from masquerade.forms.problems import Problems
from masquerade.job.model import Job, PrivacyEntry
from masquerade.privacy.m_privacy.requirement import MPrivacy, MPrivateGroups
from masquerade.privacy.registry import requirement_named
from masquerade.privacy.requirement import Conjunction, GroupRequirement, Requirement

M_PRIVACY = MPrivateGroups.model
FOR_PROVIDERS = (
    f"{M_PRIVACY} is for providers of the same columns, not for parties that hold different ones; "
    'they publish together with name = "mondrian"'
)


@dataclass(frozen=True)
class Providers:
    """What m-privacy needs to know of a job: the column of each record's provider, and how it is verified."""

    column: str | None = None
    verification: str = "exact"
    missing: str | None = (
        None  # what is wrong where there is no column; None: something else is wrong already
    )


def requirement_of(job: Job, problems: Problems, providers: Providers | None = None) -> Requirement:
    """The conjunction of all entries; those that are wrong are problems, and are left out.

    An entry of m-privacy is no part of its own: it wraps all the others.
    """
    if not job.privacy:
        problems.add(("privacy",), "missing; give at least one [[privacy]] entry")
    wrapping = [position for position, entry in enumerate(job.privacy) if entry.model == M_PRIVACY]
    joined = Conjunction([part for _, part in _entries(job, problems)])
    return _wrapped(job, wrapping, joined, providers or Providers(), problems) if wrapping else joined


def entry_of(job: Job, part: GroupRequirement) -> Key:
    """The key of the entry that a requirement comes from."""
    unheard = Problems("")  # told when the entries were read
    return next((key for key, each in _entries(job, unheard) if each == part), ("privacy",))


def tell_values(job: Job, problems: Problems, error: ParameterError) -> None:
    """Add the problems of an error about values that nobody has to the entries that list them."""
    entries = list(_entries(job, Problems("")))
    for problem in error.problems:
        for key, part in entries:
            if problem.owner == str(part):
                problems.add((*key, "values"), problem.at(owner=""))


def _entries(job: Job, problems: Problems) -> Iterator[tuple[Key, GroupRequirement]]:
    """The requirements of all entries but m-privacy, each with its entry's key."""
    sensitive: list[str] = list(dict.fromkeys(job.roles.sensitive))
    if len(sensitive) > 1 and any(entry.model == M_PRIVACY for entry in job.privacy):
        sensitive = [Product(sensitive)]  # against insiders, several sensitive attributes count as one
    for position, entry in enumerate(job.privacy):
        key = ("privacy", position)
        if entry.model != M_PRIVACY:
            for part in _parts(key, entry, sensitive, problems):
                yield key, part


def _wrapped(
    job: Job, wrapping: list[int], joined: Conjunction, providers: Providers, problems: Problems
) -> Requirement:
    """The requirement against colluding providers; where that is wrong, as it is."""
    first, *more = wrapping
    entry = job.privacy[first]
    for position in more:
        problems.add(("privacy", position, "model"), f'"{M_PRIVACY}" wraps all other entries; give it once')
    for name in ["qid"] * (entry.qid is not None) + [name for name in entry.given() if name != "m"]:
        problems.add(("privacy", first, name), f"{M_PRIVACY} has no such parameter; it takes m")
    if entry.m is None:
        problems.add(("privacy", first, "m"), f"missing; {M_PRIVACY} needs it")
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
    if entry.m is not None and provider is not None and provider not in taken and joined.parts:
        with problems.collecting(("privacy", first)):
            return Conjunction([MPrivacy(entry.m, joined, provider, providers.verification)])
    return joined


def _parts(
    key: Key, entry: PrivacyEntry, sensitive: list[str], problems: Problems
) -> Iterator[GroupRequirement]:
    """One requirement for each sensitive attribute that the entry speaks of."""
    try:
        model: type[Any] = requirement_named(entry.model)
    except ParameterError as error:
        problems.collect(error, (*key, "model"))
        return
    takes = inspect.signature(model).parameters
    given = entry.given()
    if "confidence" in takes:
        _one_name(key, given, problems)
    wrong = [name for name in given if name not in takes]
    for name in wrong:
        problems.add((*key, name), f"{entry.model} has no such parameter; it takes {', '.join(takes)}")
    lacking = [name for name, each in takes.items() if each.default is each.empty and name not in given]
    for name in lacking:
        if (name != "qid" or entry.qid is None) and name != "sensitive":
            problems.add((*key, name), f"missing; {entry.model} needs it")
    if "sensitive" not in takes:
        chosen: list[dict[str, str]] = [{}]
    else:
        named = [given.pop("sensitive")] if "sensitive" in given else list(dict.fromkeys(sensitive))
        if not named and not problems.about(("roles", "sensitive")):
            problems.add(
                (*key, "sensitive"),
                f"missing; {entry.model} needs a sensitive attribute, here or in roles.sensitive",
            )
        inside = set(entry.qid or ())
        chosen = [{"sensitive": name} for name in named if inside.isdisjoint(columns_of(name))]
    if entry.qid is None or wrong or set(lacking) - {"qid", "sensitive"}:
        return
    for names in chosen:
        with problems.collecting(key):
            yield model(qid=entry.qid, **given, **names)


def _one_name(key: Key, given: dict[str, Any], problems: Problems) -> None:
    """Papers write c or h for the confidence: either is accepted, as is its name."""
    names = [name for name in ("confidence", "c", "h") if name in given]
    if len(names) > 1:
        problems.add((*key, names[1]), f"the same as {names[0]}; give one of them")
    for name in names:
        given["confidence"] = given.pop(name)
