"""The method named "auto" for one table: the best of all that the registry has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from masquerade.anonymize import BestRelease, TableMethod
from masquerade.methods.registry import table_methods


@dataclass(frozen=True)
class Auto(BestRelease):
    """The best of the methods that take the requirements, each with the few settings that it declares.

    The best is the one with the lowest classification error where there is a class (without the extra `mining`: the
    lowest classification metric), otherwise with the lowest normalised certainty penalty; `measure` names another
    metric, or `"query_error"`, the error of random range queries. Errors of decision trees that differ by less than
    their standard error count as equal, and then the certainty penalty decides. `budget` is for all methods together:
    those that would exceed it by what they declare are left out, and named.
    """

    leaves_out = True  # if only a method can that does

    def methods(self) -> Iterable[type[TableMethod]]:
        """Return all methods on one table, those of other packages included."""
        return table_methods().values()
