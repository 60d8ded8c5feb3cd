"""The share that a sensitive value has in a group: what (α, k)-anonymity and confidence bounding bound.

Both may bound some listed values only, which a table must have: a value that is nowhere satisfies every
bound, so a typing error would go unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.encode import texts
from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError, hint, one_line
from masquerade.forms.declared import parameter_error
from masquerade.privacy.requirement import TOLERANCE, GroupRequirement, beside

_LISTED = 10  # known values that an error lists: a sensitive attribute may have thousands


def checked_values(owner: object, values: Iterable[Any] | None) -> tuple[str, ...] | None:
    """The listed values as cells are read: text without surrounding space, numbers as they are written."""
    if values is None:
        return None
    given = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    must_be = "a list of one or more different values"
    try:
        names = [texts(pa.array([value]))[0].as_py() for value in given]
    except (pa.ArrowException, TypeError, ValueError):
        raise parameter_error(owner, "values", must_be, given) from None
    if not given or None in given or len(set(names)) < len(names):
        raise parameter_error(owner, "values", must_be, given)
    return tuple(names)


def refuse_unknown(owner: GroupRequirement, values: Sequence[str] | None, labels: Sequence[str]) -> None:
    """Every listed value that the table does not have is a problem; a table without records has no say."""
    unknown = [value for value in values or () if value not in set(labels)] if labels else []
    if not unknown:
        return
    more = f" and {len(labels) - _LISTED} more" if len(labels) > _LISTED else ""
    known = ", ".join(f'"{label}"' for label in labels[:_LISTED]) + more
    rule = f"The values parameter of {type(owner).__name__} must list values of {owner.sensitive}: {known}."
    raise ParameterError(
        *(one_line(f'{rule} Got "{value}" instead{hint(value, labels)}.') for value in unknown)
    )


def largest_shares(
    histogram: Counts, values: Sequence[str] | None, labels: Sequence[str]
) -> NDArray[np.float64]:
    """Each group's largest share of a listed value (of any value when none are listed)."""
    listed = histogram
    if values is not None:
        wanted = set(values)
        listed = histogram[:, [column for column, label in enumerate(labels) if label in wanted]]
    shares: NDArray[np.float64] = listed.max(axis=1, initial=0) / histogram.sum(axis=1)
    return shares


def within(shares: NDArray[np.float64], bound: float) -> NDArray[np.bool_]:
    """Which shares are at most the bound; 29 of 100 are at most 0.29, whatever 0.29 is in binary."""
    return shares <= bound + TOLERANCE


def at_least_values(stricter: Sequence[str] | None, other: Sequence[str] | None) -> bool:
    """Whether one list bounds every value that the other does."""
    return stricter is None or (other is not None and set(other) <= set(stricter))


def share_complaint(sensitive: str, values: Sequence[str] | None, share: float, bound: float) -> str:
    """`a share of 0.8 of disease = HIV; at most 0.5 is allowed`."""
    if values is None:
        of = f"a value of {sensitive}"
    elif len(values) == 1:
        of = f"{sensitive} = {values[0]}"
    else:
        of = f"a listed value of {sensitive}"
    return f"a share of {beside(share, bound)} of {of}; at most {bound} is allowed"
