"""The methods named "auto" between parties: one is chosen from what is agreed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from masquerade.arrangement import Arrangement
from masquerade.methods.registry import methods_between_parties
from masquerade.protocol import Automatic, SessionMethod, way_to_align


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
