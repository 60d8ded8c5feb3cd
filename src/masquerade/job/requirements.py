"""From `[[privacy]]` entries to the requirement that must hold."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from masquerade.errors import hint
from masquerade.job.model import Job, PrivacyEntry
from masquerade.job.problems import Key, Problems
from masquerade.privacy.models import MODELS
from masquerade.privacy.requirement import Conjunction, GroupRequirement, Requirement

LATER_MODELS = ("m-privacy", "constrained-k-anonymity")
_AVAILABLE = f"available: {', '.join(MODELS)}"


def requirement_of(job: Job, problems: Problems) -> Requirement:
    """The conjunction of all entries; those that are wrong are problems, and are left out."""
    if not job.privacy:
        problems.add(("privacy",), "missing; give at least one [[privacy]] entry")
    parts: list[GroupRequirement] = []
    for position, entry in enumerate(job.privacy):
        parts += _parts(("privacy", position), entry, job.roles.sensitive, problems)
    return Conjunction(parts)


def _parts(
    key: Key, entry: PrivacyEntry, sensitive: list[str], problems: Problems
) -> Iterator[GroupRequirement]:
    """One requirement for each sensitive attribute that the entry speaks of."""
    if entry.model not in MODELS:
        problems.add((*key, "model"), _no_model(entry.model))
        return
    model: type[Any] = MODELS[entry.model]
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
        chosen = [{"sensitive": name} for name in named if name not in (entry.qid or ())]
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


def _no_model(name: str) -> str:
    if not name:
        return f"missing; {_AVAILABLE}"
    if name in LATER_MODELS:
        return f'"{name}" is not available in this version; {_AVAILABLE}'
    return f'no model "{name}"{hint(name, [*MODELS, *LATER_MODELS])}; {_AVAILABLE}'
