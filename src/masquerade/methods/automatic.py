"""The methods named "auto": whatever the registry has, tried on one table or chosen between parties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from masquerade.anonymize.best_release import BestRelease
from masquerade.anonymize.method import TableMethod
from masquerade.methods import methods_between_parties, table_methods
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.automatic import Automatic
from masquerade.protocol.method import SessionMethod
from masquerade.protocol.vertical_method import way_to_align


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


@dataclass(frozen=True)
class ChoiceForJoin(Automatic):
    """A method for parties with different columns of the same people."""

    arrangement: ClassVar[Arrangement] = "vertical"

    align: str = way_to_align()

    @classmethod
    def methods(cls) -> Iterable[type[SessionMethod]]:
        """Return all such methods, those of other packages included."""
        return methods_between_parties(cls.arrangement)


@dataclass(frozen=True)
class ChoiceForProviders(Automatic):
    """A method for providers of the same columns about different people."""

    arrangement: ClassVar[Arrangement] = "horizontal"

    @classmethod
    def methods(cls) -> Iterable[type[SessionMethod]]:
        """Return all such methods, those of other packages included."""
        return methods_between_parties(cls.arrangement)
