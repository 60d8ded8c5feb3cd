"""Lists of column names, as functions of the Python surface take them."""

from __future__ import annotations

from collections.abc import Iterable

from masquerade.errors import ParameterError, given


def names_of(parameter: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return names of columns: several, or just one."""
    listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(name, str) and name for name in listed):
        raise ParameterError(
            f"The {parameter} parameter must list names of columns. Got {given(names)} instead."
        )
    return listed
