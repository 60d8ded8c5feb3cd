"""Check the columns' roles: report undeclared names, and columns with incompatible roles."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.errors import Key, hint, written
from masquerade.forms.problems import Problems
from masquerade.job.model import Job


def check_roles(job: Job, problems: Problems, *, needs_provider: bool) -> None:
    """Check that every name in a QID is an attribute, and that the roles of every column are compatible.

    With `needs_provider`, only roles.provider can name the column of the providers.
    """
    _check_qids(job, problems)
    roles = job.roles
    parts = dict(_parts(job))
    for name in dict.fromkeys(roles.identifiers):
        for other in parts.get(name, ()):
            problems.add(
                ("roles", "identifiers"),
                f'"{name}" is never released, but {other} asks for it; drop one of them',
            )
    if roles.provider is not None:
        others = [*parts.get(roles.provider, ())]
        others += ["roles.identifiers"] if roles.provider in roles.identifiers else []
        for other in others:
            problems.add(
                ("roles", "provider"),
                f'"{roles.provider}" is the provider, but {other} names it too; drop one of them',
            )
    elif job.output.keep_provider and needs_provider and not problems.about(("roles", "provider")):
        problems.add(("output", "keep_provider"), "true, but roles.provider names no column")
    for party, section in job.parties.items():
        known = {*job.attributes, *parts, *roles.identifiers}
        for name in section.attributes or ():
            if name not in known and not problems.about(("attributes", name)):
                problems.add(
                    ("parties", party, "attributes"), f'"{name}" is not among [attributes]{hint(name, known)}'
                )


def _check_qids(job: Job, problems: Problems) -> None:
    roles = job.roles
    for position, entry in enumerate(job.privacy):
        here: Key = ("privacy", position, "qid")
        published: list[tuple[Key, str]] = [(("roles", "sensitive"), name) for name in roles.sensitive]
        published += [(("roles", "class"), roles.class_)] if roles.class_ is not None else []
        published += [((*here[:2], "sensitive"), entry.sensitive)] if entry.sensitive is not None else []
        for key, name in published:
            if name in (entry.qid or ()):
                problems.add(
                    key,
                    f'"{name}" is inside {written(here)}; it is published as it is: take it out of one',
                )
        for name in entry.qid or ():
            if name not in job.attributes and not problems.about(("attributes", name)):
                problems.add(here, f'"{name}" is not among [attributes]{hint(name, job.attributes)}')


def _parts(job: Job) -> Iterator[tuple[str, list[str]]]:
    """Yield each column that the job releases, with the keys that name it."""
    named = [(name, written(("attributes", name))) for name in job.attributes]
    named += [(job.roles.class_, "roles.class")] if job.roles.class_ is not None else []
    named += [(name, "roles.sensitive") for name in job.roles.sensitive]
    for position, entry in enumerate(job.privacy):
        for name in entry.qid or ():
            named.append((name, written(("privacy", position, "qid"))))
        if entry.sensitive is not None:
            named.append((entry.sensitive, written(("privacy", position, "sensitive"))))
    keys: dict[str, dict[str, None]] = {}
    for name, key in named:
        keys.setdefault(name, {})[key] = None
    for name, its_keys in keys.items():
        yield name, list(its_keys)
