"""Values shared by the service's forms: durations, and requirements in the format of a job file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from masquerade.forms.declared import words_of
from masquerade.forms.form import fill
from masquerade.forms.problems import Problems
from masquerade.job.model import Job
from masquerade.job.requirements import requirement_of
from masquerade.privacy.registry import M_PRIVACY, REQUIREMENTS
from masquerade.privacy.requirement import GroupRequirement
from masquerade.service.canonical import MOST_WHOLE


def _real_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):  # neither true nor "5" is a number
        raise ValueError
    return value


Duration = Annotated[float, BeforeValidator(_real_number), Field(gt=0, le=86_400, strict=False)]  # in seconds


def read_privacy(entries: Any, problems: Problems) -> tuple[GroupRequirement, ...]:
    """Read `[[privacy]]` entries as in a job file; decimals may be strings, as in canonical JSON."""
    if isinstance(entries, list | tuple):
        if all(isinstance(each, GroupRequirement) for each in entries):
            return tuple(entries)
        entries = [each for at, each in enumerate(entries) if not _tell_m(each, at, problems)]
        _tell_immense(entries, problems)
    job = fill(Job, {"privacy": entries}, problems)
    for position, entry in enumerate(job.privacy):
        model = REQUIREMENTS.get(entry.model)
        if model is not None and "sensitive" in words_of(model) and "sensitive" not in entry.given():
            # A job file may state it elsewhere.
            needed = f"missing; {entry.model} needs a sensitive attribute"
            problems.broken(("privacy", position, "sensitive"), needed)
    return requirement_of(job, problems).parts if job.privacy else ()


def _tell_m(entry: Any, position: int, problems: Problems) -> bool:
    """Report m-privacy among the entries: it wraps all entries of a job, and here it is a key of its own."""
    if not isinstance(entry, Mapping) or entry.get("model") != M_PRIVACY:
        return False
    problems.add(
        ("privacy", position),
        f"{M_PRIVACY} is no entry here; a horizontal request has m, and a policy least_m",
    )
    return True


def _tell_immense(entries: Sequence[Any], problems: Problems) -> None:
    """Report numbers that are too large for a contract."""
    for position, entry in enumerate(entries):
        for name, value in entry.items() if isinstance(entry, Mapping) else ():
            if isinstance(value, int) and abs(value) > MOST_WHOLE:
                problems.broken(("privacy", position, name), "must be at most 2^53 − 1")
