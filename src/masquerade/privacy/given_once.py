"""The sensitive attribute of requirements that name none: given once, to the call or in another requirement."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.errors import ParameterError, Problem
from masquerade.privacy.requirement import Requirement

_ALLOWED = "the name of an attribute, here or as the only sensitive one of the call or of another requirement"


def with_sensitive_given_once(requirement: Requirement, sensitive: Sequence[str] = ()) -> Requirement:
    """Return the requirement with every sensitive attribute named.

    A part that leaves it open gets that of the call, `sensitive`, or without one that of the other parts. If there is
    none, or there are several, ParameterError. A column that names providers is not sensitive.
    """
    parts = [each for part in requirement.parts for each in part.wrapped or (part,)]
    unnamed = [part for part in parts if part.leaves_sensitive_open]
    if not unnamed:
        return requirement
    of_others = [part.sensitive for part in parts if part.sensitive and not part.leaves_sensitive_open]
    of_call = [name for name in sensitive if name not in requirement.provider_columns]
    names = list(dict.fromkeys(of_call or of_others))
    if len(names) != 1:
        found = ", ".join(f'"{name}"' for name in names) or "none"
        owner = type(unnamed[0]).__name__
        raise ParameterError(Problem(parameter="sensitive", owner=owner, allowed=_ALLOWED, found=found))
    return requirement.with_sensitive(names[0])
